from __future__ import annotations

import pytest

from tests.support.application import TestApp
from tests.support.applications.app_database import quick_hashes  # noqa
from tests.support.applications.login_site import add_with_password, logged_in_visitor, visitor  # noqa
from tests.support.applications.shared_app import module_app, shared_app  # noqa
from tests.support.clock import Clock
from tests.support.people import ERIN


@pytest.fixture
def site(frozen_clock: Clock, app: TestApp) -> TestApp:
    """Product with Erin as its only dashboard user, with a frozen clock."""
    add_with_password(app, ERIN)
    return app
