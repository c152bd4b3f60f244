"""Pages and totals asked for again: never another answer than without the shortcut, and less work."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import resource
from integration.database import Database
from integration.documents import Document
from integration.mirror import query, records
from integration.mirror.schema import open_mirror
from integration.mirror.shortcuts import Shortcuts
from integration.mirror.upsert import upsert

CDRS = resource("cdrs")


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Database]:
    database = open_mirror(tmp_path / "mirror.db")
    put(database, *range(1, 101))
    yield database
    database.close()


def put(mirror: Database, *ids: int, asked_at: str = "2026-09-02 08:00:00", **values: Any) -> None:
    rows = [
        {"id": number, "calldate": f"2026-09-02 08:{number % 60:02d}:00", "src": "1001", **values}
        for number in ids
    ]
    documents = [Document(json.dumps(row), row) for row in rows]
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", asked_at=asked_at))


def asked(**args: str) -> query.Query:
    return query.parse(CDRS, args)


@contextmanager
def counted(mirror: Database) -> Iterator[tuple[sqlite3.Connection, list[str]]]:
    """A connection, and the statements that it was given."""
    seen: list[str] = []
    with mirror.read() as connection:
        connection.set_trace_callback(seen.append)
        try:
            yield connection, seen
        finally:
            connection.set_trace_callback(None)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"sort": "id", "dir": "DESC"},
        {"sort": "id", "dir": "ASC"},
        {"sort": "src"},
        {"sort": "calldate", "dir": "DESC"},
        {"group_by": "calldate"},
        {"filter": '[{"property":"id","operator":"gt","value":20}]'},
        {"filter": '[{"property":"calldate","operator":"gte","value":"2026-09-02 08:30:00"}]'},
        {"filter": '[{"property":"src","operator":"ne","value":"1002"}]', "sort": "id", "dir": "DESC"},
    ],
)
def test_any_order_of_pages_gives_what_the_plain_query_gives(mirror: Database, args: dict[str, str]) -> None:
    shortcuts = Shortcuts()
    for page in (1, 2, 3, 7, 4, 5, 20, 6, 3, 1, 2):
        question = asked(**args, limit="7", page=str(page))
        with mirror.read() as connection:
            assert shortcuts.texts(connection, question) == question.texts(connection)
            assert shortcuts.total(connection, question) == question.total(connection)


def test_the_next_page_begins_behind_the_last_and_skips_nothing(mirror: Database) -> None:
    shortcuts = Shortcuts()
    with counted(mirror) as (connection, seen):
        for page in range(1, 11):
            shortcuts.texts(connection, asked(limit="10", page=str(page)))
    assert not [sql for sql in seen if "OFFSET" in sql and "OFFSET 0" not in sql]


def test_the_total_is_counted_once(mirror: Database) -> None:
    shortcuts = Shortcuts()
    with counted(mirror) as (connection, seen):
        for page in ("1", "2", "3"):
            assert shortcuts.total(connection, asked(limit="10", page=page)) == 100
    assert len([sql for sql in seen if "count(*)" in sql and "WHERE _missing_since IS NOT NULL" in sql]) == 1


def test_new_changed_and_deleted_records_are_seen_at_once(mirror: Database) -> None:
    shortcuts = Shortcuts()

    def found(**args: str) -> tuple[list[int], int]:
        question = asked(limit="10", page="2", **args)
        with mirror.read() as connection:
            shortcuts.texts(connection, asked(limit="10", page="1", **args))
            texts = shortcuts.texts(connection, question)
            return [json.loads(text)["id"] for text in texts], shortcuts.total(connection, question)

    ones = '[{"property":"src","operator":"eq","value":"1001"}]'
    assert found() == (list(range(11, 21)), 100)
    assert found(filter=ones)[1] == 100
    mirror.write(lambda tx: records.mark_missing(tx, CDRS, [3], "2026-09-03 00:00:00"))
    assert found() == (list(range(12, 22)), 99)
    put(mirror, 1, src="1002", asked_at="2026-09-02 09:00:00")
    assert found(filter=ones) == (list(range(13, 23)), 98)
    put(mirror, 3, 0, asked_at="2026-09-04 09:00:00")
    assert found() == (list(range(10, 20)), 101)


def test_a_look_back_that_changed_nothing_leaves_the_shortcuts(mirror: Database) -> None:
    shortcuts = Shortcuts()
    with mirror.read() as connection:
        shortcuts.total(connection, asked())
    put(mirror, *range(1, 101), asked_at="2026-09-02 10:00:00")
    with counted(mirror) as (connection, seen):
        assert shortcuts.total(connection, asked()) == 100
    assert not [sql for sql in seen if "count(*)" in sql]


def test_other_filters_and_callers_have_their_own(mirror: Database) -> None:
    put(mirror, 200, src="1002")
    shortcuts = Shortcuts()
    for value, total in (("1001", 100), ("1002", 1), ("1001", 100)):
        question = asked(filter=json.dumps([{"property": "src", "operator": "eq", "value": value}]))
        with mirror.read() as connection:
            assert shortcuts.total(connection, question) == total
    assert query.Query(CDRS, missing=True) != query.Query(CDRS)
    mirror.write(lambda tx: records.mark_missing(tx, CDRS, [200], "2026-09-03 00:00:00"))
    with mirror.read() as connection:
        assert shortcuts.total(connection, query.Query(CDRS)) == 100
        assert shortcuts.total(connection, query.Query(CDRS, missing=True)) == 101
