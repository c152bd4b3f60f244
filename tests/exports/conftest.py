"""Fixtures of tests of schedules and deliveries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that accepts every upload."""
    server = Server()
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 201)
    yield server
    server.close()


from tests.support.applications.shared_app import module_app, shared_app  # noqa
from tests.support.scheduled_exports import exporting, make_exporting  # noqa
