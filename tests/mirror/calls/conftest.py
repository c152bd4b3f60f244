"""One application for each module; each test starts with an empty mirror."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.application import TestApp, running_app
from tests.support.payloads.call_facts import CallMirror


@pytest.fixture(scope="module")
def call_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("calls")) as app:
        yield app


@pytest.fixture
def empty_mirror(call_app: TestApp) -> CallMirror:
    """A mirror as before the initial sync."""
    mirror = CallMirror(call_app)
    mirror.clear_all()
    return mirror


@pytest.fixture
def mirror(empty_mirror: CallMirror) -> CallMirror:
    """A mirror with three platform users, a ring group and a queue."""
    empty_mirror.seed()
    return empty_mirror
