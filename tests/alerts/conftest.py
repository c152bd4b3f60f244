from __future__ import annotations

import pytest

from tests.support.applications.dashboard_site import running


@pytest.fixture
def site(tmp_path):
    with running(tmp_path / "data") as site:
        yield site
