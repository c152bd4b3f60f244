"""Whether all of a span of time is here."""

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
"""18 November in Berlin: parts of two UTC days."""


class Ledger:
    def __init__(self, mirror: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mirror_db, self._patch = mirror, monkeypatch

    def at(self, text: str) -> Ledger:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        self._patch.setattr(clock, "unix", lambda: moment)
        return self

    def walked(self, begun: str = "2026-11-01 00:00:00", collection: str = "cdrs") -> None:
        def work(tx: Any) -> None:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, None, begun)

        self.mirror_db.write(work)

    def counted(self, day: str, total: int = 5, ours: int = 5) -> None:
        self.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", day, total, ours))

    def lacking(self, collection: str = "cdrs") -> str | None:
        with self.mirror_db.read() as connection:
            return completeness.explain_gaps(connection, get_resource(collection), SINCE, UNTIL)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    mirror = open_mirror(tmp_path / "mirror.db")
    yield Ledger(mirror, monkeypatch)
    mirror.close()


def test_each_utc_day_of_it_has_to_agree_after_it_ended(ledger: Ledger) -> None:
    assert ledger.lacking() == "/cdrs was never read completely"
    ledger.at("2026-11-02 00:00:00").walked()
    assert "2026-11-17" in (ledger.lacking() or "")
    ledger.at("2026-11-17 23:59:59").counted("2026-11-17")
    assert "2026-11-17" in (ledger.lacking() or ""), "counted before the day was over"
    ledger.at("2026-11-18 00:00:01").counted("2026-11-17")
    assert "2026-11-18" in (ledger.lacking() or "")
    ledger.at("2026-11-18 22:59:59").counted("2026-11-18")
    assert "2026-11-18" in (ledger.lacking() or ""), "counted before the span was over"
    ledger.at("2026-11-18 23:00:00").counted("2026-11-18")
    assert ledger.lacking() is None, "the UTC day goes on, the span does not"
    ledger.at("2026-11-18 23:30:00").counted("2026-11-18", ours=4)
    assert ledger.lacking() == "/cdrs on 2026-11-18: 4 of 5 records are here"


def test_a_later_reading_of_all_of_it_proves_it_too(ledger: Ledger) -> None:
    ledger.at("2026-11-19 00:00:00").walked(begun="2026-11-18 22:59:59")
    assert ledger.lacking() is not None, "that walk began before the span was over"
    ledger.walked(begun="2026-11-18 23:00:00")
    assert ledger.lacking() is None


def test_so_does_the_count_of_the_whole(ledger: Ledger) -> None:
    ledger.at("2026-11-02 00:00:00").walked()
    ledger.at("2026-11-18 23:00:00").counted(ENTIRE_COLLECTION, total=0, ours=0)
    assert ledger.lacking() is None
    ledger.counted(ENTIRE_COLLECTION, total=1, ours=0)
    assert ledger.lacking() is not None


def test_before_the_oldest_day_there_is_nothing(ledger: Ledger) -> None:
    ledger.at("2026-11-02 00:00:00").walked()
    ledger.at("2026-11-18 23:00:00").counted("2026-11-18")
    assert ledger.lacking() is None


def test_settings_have_to_be_read_afterwards(ledger: Ledger) -> None:
    def unread() -> str | None:
        with ledger.mirror_db.read() as connection:
            return completeness.explain_unread(connection, get_resource("users"), UNTIL)

    assert unread() == "/users was never read completely"
    ledger.at("2026-11-18 22:00:00").walked(collection="users")
    assert unread() == "/users was not read since 2026-11-18 23:00:00 UTC"
    ledger.at("2026-11-18 23:10:00").walked(collection="users")
    assert unread() is None


def test_what_the_platform_refuses_is_never_complete(ledger: Ledger) -> None:
    ledger.at("2026-11-19 00:00:00").walked(begun="2026-11-18 23:30:00")
    ledger.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET off_since = '2026-11-18 12:00:00'"))
    assert "refuses" in (ledger.lacking() or "")
