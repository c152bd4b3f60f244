from __future__ import annotations

import pytest

from tests.account.filling import Filling
from tests.dashboard.conftest import own_calls_only, site

__all__ = ["own_calls_only", "site"]


@pytest.fixture
def client(site):
    return site.client("admin")


@pytest.fixture
def fill(site):
    """`fill("users", {...}, {...})`: the collection as a complete walk would leave it."""
    return Filling(site)
