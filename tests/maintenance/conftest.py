from __future__ import annotations

from tests.support.applications.data_dir import home  # noqa
from tests.support.applications.shared_app import module_app, shared_app  # noqa
