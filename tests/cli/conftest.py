from __future__ import annotations

from tests.support.applications.data_dir import home  # noqa
from tests.support.child_processes import start  # noqa
from tests.support.scheduled_exports import exporting, make_exporting  # noqa
