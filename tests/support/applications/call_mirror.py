"""A real mirror.db, a store on it, and scripts of calls as the platform would tell them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.mirror.schema import open_mirror
from tests.support.payloads.call_facts import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A mirror with three people, a ring group and a queue; the platform's clock is under the test's hand."""
    office = Office(open_mirror(tmp_path / "mirror.db"))
    office.seed()
    yield office
    office.mirror_db.close()


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Office]:
    """A mirror that knows nobody yet: before the first sync."""
    office = Office(open_mirror(tmp_path / "mirror.db"))
    yield office
    office.mirror_db.close()
