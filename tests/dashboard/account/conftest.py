from __future__ import annotations

import pytest


@pytest.fixture
def client(site):
    return site.client("admin")


from tests.support.payloads.account_records import fill  # noqa
