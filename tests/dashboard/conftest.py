from __future__ import annotations

import pytest

from tests.support.applications.dashboard_site import running


@pytest.fixture
def site(tmp_path):
    with running(tmp_path / "data") as site:
        yield site


@pytest.fixture
def own_calls_only(tmp_path):
    """A dashboard whose agents see their own calls."""
    with running(tmp_path / "data", dashboard__agents_see="own") as site:
        yield site


@pytest.fixture
def client(site):
    return site.client()
