from __future__ import annotations

import pytest

from tests.facade.subcollections.records import CDRS, COLLEAGUE, CONTACTS, MONITORS, SMS, USER
from tests.support.application import TestApp


@pytest.fixture
def account(app: TestApp) -> TestApp:
    """An application whose mirror is complete, in front of an unreachable platform."""
    app.put("users", {"id": USER, "first_name": "Ann"}, {"id": COLLEAGUE, "first_name": "Bob"})
    app.put("cdrs", *CDRS)
    app.put("contacts", *CONTACTS)
    app.put("sms", *SMS)
    app.put("monitors", *MONITORS)
    app.platform.fail()
    return app
