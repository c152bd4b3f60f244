"""Completeness of a time span."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state, completeness
from integration.mirror.sync_state.completeness import ENTIRE_COLLECTION
from integration.sqlite.database import Database

SINCE, UNTIL = datetime(2026, 11, 17, 23, tzinfo=UTC), datetime(2026, 11, 18, 23, tzinfo=UTC)
"""18 November in Berlin, which is part of two UTC days."""


class Mirror:
    def __init__(self, mirror: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mirror_db, self._patch = mirror, monkeypatch

    def set_time(self, text: str) -> Mirror:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        self._patch.setattr(clock, "unix", lambda: moment)
        return self

    def finish_sync(self, begun: str = "2026-11-01 00:00:00", collection: str = "cdrs") -> None:
        def work(tx: Any) -> None:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, None, begun)

        self.mirror_db.write(work)

    def save_counts(self, day: str, total: int = 5, mirrored: int = 5) -> None:
        self.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", day, total, mirrored))

    def explain_gaps(self, collection: str = "cdrs") -> str | None:
        with self.mirror_db.read() as connection:
            return completeness.explain_gaps(connection, get_resource(collection), SINCE, UNTIL)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    mirror = open_mirror(tmp_path / "mirror.db")
    yield Mirror(mirror, monkeypatch)
    mirror.close()


def test_a_span_is_complete_if_the_counts_of_each_utc_day_agree_after_its_end(mirror: Mirror) -> None:
    assert mirror.explain_gaps() == "/cdrs was never read completely"
    mirror.set_time("2026-11-02 00:00:00").finish_sync()
    assert "2026-11-17" in (mirror.explain_gaps() or "")
    mirror.set_time("2026-11-17 23:59:59").save_counts("2026-11-17")
    assert "2026-11-17" in (mirror.explain_gaps() or ""), "counted before the end of the day"
    mirror.set_time("2026-11-18 00:00:01").save_counts("2026-11-17")
    assert "2026-11-18" in (mirror.explain_gaps() or "")
    mirror.set_time("2026-11-18 22:59:59").save_counts("2026-11-18")
    assert "2026-11-18" in (mirror.explain_gaps() or ""), "counted before the end of the span"
    mirror.set_time("2026-11-18 23:00:00").save_counts("2026-11-18")
    assert mirror.explain_gaps() is None, "the span ends before the UTC day"
    mirror.set_time("2026-11-18 23:30:00").save_counts("2026-11-18", mirrored=4)
    assert mirror.explain_gaps() == "/cdrs on 2026-11-18: 4 of 5 records are here"


def test_a_span_is_complete_after_a_later_full_sync(mirror: Mirror) -> None:
    mirror.set_time("2026-11-19 00:00:00").finish_sync(begun="2026-11-18 22:59:59")
    assert mirror.explain_gaps() is not None, "the full sync began before the end of the span"
    mirror.finish_sync(begun="2026-11-18 23:00:00")
    assert mirror.explain_gaps() is None


def test_a_span_is_complete_if_the_counts_of_the_collection_agree(mirror: Mirror) -> None:
    mirror.set_time("2026-11-02 00:00:00").finish_sync()
    mirror.set_time("2026-11-18 23:00:00").save_counts(ENTIRE_COLLECTION, total=0, mirrored=0)
    assert mirror.explain_gaps() is None
    mirror.save_counts(ENTIRE_COLLECTION, total=1, mirrored=0)
    assert mirror.explain_gaps() is not None


def test_days_before_the_oldest_counted_day_have_no_records(mirror: Mirror) -> None:
    mirror.set_time("2026-11-02 00:00:00").finish_sync()
    mirror.set_time("2026-11-18 23:00:00").save_counts("2026-11-18")
    assert mirror.explain_gaps() is None


def test_settings_are_complete_only_if_read_after_the_span(mirror: Mirror) -> None:
    def unread() -> str | None:
        with mirror.mirror_db.read() as connection:
            return completeness.explain_unread(connection, get_resource("users"), UNTIL)

    assert unread() == "/users was never read completely"
    mirror.set_time("2026-11-18 22:00:00").finish_sync(collection="users")
    assert unread() == "/users was not read since 2026-11-18 23:00:00 UTC"
    mirror.set_time("2026-11-18 23:10:00").finish_sync(collection="users")
    assert unread() is None


def test_a_collection_that_the_platform_refuses_is_never_complete(mirror: Mirror) -> None:
    mirror.set_time("2026-11-19 00:00:00").finish_sync(begun="2026-11-18 23:30:00")
    mirror.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET off_since = '2026-11-18 12:00:00'"))
    assert "refuses" in (mirror.explain_gaps() or "")
