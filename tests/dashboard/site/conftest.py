from __future__ import annotations

from tests.support.applications.app_database import app_db, quick_hashes  # noqa
from tests.support.applications.login_site import logged_in_visitor, site, visitor  # noqa
