from __future__ import annotations

from tests.support.applications.data_dir import home  # noqa
from tests.support.applications.export_schedules import time  # noqa
from tests.support.child_processes import start  # noqa
