from __future__ import annotations

import pytest


@pytest.fixture
def client(app):
    return app.log_in()


from tests.support.payloads.account_records import fill  # noqa
