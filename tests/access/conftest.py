from __future__ import annotations

from tests.support.applications.app_database import app_db, quick_hashes  # noqa
