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


@pytest.fixture(scope="module")
def shared_app(tmp_path_factory):
    """One application for the read-only tests of a file."""
    with running_app(tmp_path_factory.mktemp("shared")) as app:
        yield app


@pytest.fixture(scope="module")
def shared_client(shared_app):
    """A logged-in administrator of `shared_app`."""
    return shared_app.log_in()
