from __future__ import annotations

import pytest

from tests.support.application import TestApp
from tests.support.application import app as own_app  # noqa: F401
from tests.support.applications.shared_app import SharedApp, module_app, shared_app  # noqa: F401
from tests.support.fake_exchange import NOT_FOUND, FakeExchange


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:  # noqa: F811
    return shared_app


@pytest.fixture
def platform() -> FakeExchange:
    """A platform that returns 404 for paths without a response."""
    platform = FakeExchange()
    platform.respond("*", NOT_FOUND, 404)
    return platform


@pytest.fixture
def writer(app: TestApp) -> dict[str, str]:
    """Header of a key of scope `write`."""
    return app.add_key("writer", "write")


@pytest.fixture
def own_writer(own_app: TestApp) -> dict[str, str]:  # noqa: F811
    """Header of a key of scope `write` of `own_app`."""
    return own_app.add_key("writer", "write")
