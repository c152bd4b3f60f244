from __future__ import annotations

from tests.support.applications.app_database import app_db, quick_hashes  # noqa
from tests.support.applications.shared_app import module_app, shared_app  # noqa
