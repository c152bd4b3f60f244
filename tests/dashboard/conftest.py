from __future__ import annotations

import pytest

from tests.support.application import running_app


@pytest.fixture
def own_calls_only(tmp_path):
    """A dashboard whose agents see their own calls."""
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        yield app


@pytest.fixture
def client(app):
    return app.log_in()
