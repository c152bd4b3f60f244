from __future__ import annotations

from tests.support.applications.app_database import quick_hashes  # noqa
from tests.support.applications.login_site import app_db, inside, site, visitor  # noqa
