"""Product with platform users and groups, for tests of computed calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.application import TestApp, running_app
from tests.support.payloads.call_facts import CallMirror


@pytest.fixture
def call_app(tmp_path: Path) -> Iterator[TestApp]:
    with running_app(tmp_path / "data") as app:
        yield app


@pytest.fixture
def mirror(call_app: TestApp) -> CallMirror:
    """A mirror with three platform users, a ring group and a queue."""
    mirror = CallMirror(call_app)
    mirror.seed()
    return mirror


@pytest.fixture
def empty_mirror(call_app: TestApp) -> CallMirror:
    """A mirror before the first sync."""
    return CallMirror(call_app)
