"""Pages and totals asked for again: never another answer than without the shortcut, and less work."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.query import page_cache as shortcuts_module
from integration.mirror.query import query
from integration.mirror.query.page_cache import PageCache
from integration.mirror.records import single_record
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database

CDRS = get_resource("cdrs")


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
    documents = [JsonRecord(json.dumps(row), row) for row in rows]
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=asked_at))


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


@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"sort": "id", "dir": "DESC"},
        {"sort": "id", "dir": "ASC"},
        {"sort": "src"},
        {"sort": "calldate", "dir": "DESC"},
        {"group_by": "calldate"},
        {"group_by": "src", "filter": '[{"property":"id","operator":"gt","value":20}]'},
        {"group_by": "calldate", "filter": '[{"property":"id","operator":"gt","value":20}]', "sort": "src"},
        {"sort": "calldate", "filter": '[{"property":"src","operator":"like","value":"00"}]'},
        {"filter": '[{"property":"id","operator":"gt","value":20}]'},
        {"filter": '[{"property":"calldate","operator":"gte","value":"2026-09-02 08:30:00"}]'},
        {"filter": '[{"property":"src","operator":"ne","value":"1002"}]', "sort": "id", "dir": "DESC"},
    ],
)
def test_any_order_of_pages_gives_what_the_plain_query_gives(
    mirror: Database, monkeypatch: pytest.MonkeyPatch, args: dict[str, str], few: int
) -> None:
    monkeypatch.setattr(shortcuts_module, "MAX_CACHED_KEYS", few)
    shortcuts = PageCache()
    for page in (1, 2, 3, 7, 4, 5, 20, 6, 3, 1, 2):
        question = asked(**args, limit="7", page=str(page))
        with mirror.read() as connection:
            texts = question.fetch_texts(connection)
            assert shortcuts.fetch_texts(connection, question) == texts
            assert shortcuts.fetch_joined(connection, question) == b",".join(texts)
            assert PageCache().fetch_joined(connection, question) == b",".join(texts)
            assert shortcuts.count_matches(connection, question) == question.count_matches(connection)


def test_the_next_page_begins_behind_the_last_and_skips_nothing(mirror: Database) -> None:
    shortcuts = PageCache()
    with counted(mirror) as (connection, seen):
        for page in range(1, 11):
            shortcuts.fetch_texts(connection, asked(limit="10", page=str(page)))
    assert not [sql for sql in seen if "OFFSET" in sql and "OFFSET 0" not in sql]


def test_the_next_page_of_a_wide_window_walks_the_keys_and_a_narrow_one_its_index(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortcuts_module, "MAX_CACHED_KEYS", 10)
    put(mirror, *range(101, 1001))
    shortcuts = PageCache()
    for since, index in (("2026-09-02 08:02:00", False), ("2026-09-02 08:58:00", True)):
        window = json.dumps([{"property": "calldate", "operator": "gte", "value": since}])
        with counted(mirror) as (connection, seen):
            for page in ("1", "2"):
                found = shortcuts.fetch_texts(connection, asked(filter=window, limit="10", page=page))
            read = next(sql for sql in reversed(seen) if "_doc" in sql)
            plan = connection.execute(f"EXPLAIN QUERY PLAN {read}").fetchall()
            assert found == asked(filter=window, limit="10", page="2").fetch_texts(connection)
        assert any("cdrs_calldate" in row["detail"] for row in plan) is index, [row["detail"] for row in plan]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("column", ["src", "calldate", "duration", "user_id"])
def test_a_sorted_page_begins_behind_the_last_with_nulls_ties_and_odd_types(
    mirror: Database, column: str, direction: str
) -> None:
    odd = [None, None, 7, "7", "x", 7.5, True, None, -1, "", "é"]
    for number in range(201, 256):
        put(mirror, number, **{column: odd[number % len(odd)]})
    shortcuts = PageCache()
    with counted(mirror) as (connection, seen):
        for page in range(1, 33):
            question = asked(sort=column, dir=direction, limit="5", page=str(page))
            del seen[:]
            found = shortcuts.fetch_texts(connection, question)
            skipped = [sql for sql in seen if "OFFSET" in sql and "OFFSET 0" not in sql]
            expected = question.fetch_texts(connection)
            assert found == expected, page
            last = json.loads(expected[-1]).get(column) if len(expected) == 5 else None
            if page > 1 and last is not None:
                # Only a page that ends with null, begins behind one, or is the last is counted up to.
                before = dataclasses.replace(question, page=page - 1).fetch_texts(connection)
                assert skipped == [] or json.loads(before[-1]).get(column) is None, page


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcuts_module, "POSITION_INTERVAL", 10)


def read_by(mirror: Database, shortcuts: PageCache, page: int, **args: str) -> tuple[list[int], list[str]]:
    """Ids of a page of ten, and the statements that looked for a place on the way to it."""
    with counted(mirror) as (connection, seen):
        texts = shortcuts.fetch_texts(connection, asked(limit="10", page=str(page), **args))
    return [json.loads(text)["id"] for text in texts], [sql for sql in seen if "LIMIT 1 OFFSET" in sql]


@pytest.mark.usefixtures("small_steps")
def test_a_deep_page_asked_for_first_leaves_places_for_all_others(mirror: Database) -> None:
    shortcuts = PageCache()
    ids, looked = read_by(mirror, shortcuts, 8)
    assert ids == list(range(71, 81))
    assert len(looked) == 7
    for page in (3, 8, 5):
        ids, looked = read_by(mirror, shortcuts, page)
        assert ids == list(range(page * 10 - 9, page * 10 + 1))
        assert looked == []
    with counted(mirror) as (connection, seen):
        texts = shortcuts.fetch_texts(connection, asked(limit="7", page="9"))
    assert [json.loads(text)["id"] for text in texts] == list(range(57, 64))
    assert [sql for sql in seen if "OFFSET 6" in sql]


@pytest.mark.usefixtures("small_steps")
def test_places_hold_while_records_only_come_behind(mirror: Database) -> None:
    shortcuts = PageCache()
    read_by(mirror, shortcuts, 9)
    put(mirror, 101, 102)
    put(mirror, 5, src="1002", asked_at="2026-09-02 09:00:00")
    assert read_by(mirror, shortcuts, 9) == (list(range(81, 91)), [])
    assert read_by(mirror, shortcuts, 11)[0] == [101, 102]


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("args", [{}, {"sort": "id", "dir": "DESC"}])
def test_places_are_found_anew_when_an_earlier_record_comes_goes_or_is_back(
    mirror: Database, args: dict[str, str]
) -> None:
    shortcuts = PageCache()

    def agree() -> None:
        for page in (9, 4, 1, 10):
            question = asked(limit="10", page=str(page), **args)
            with mirror.read() as connection:
                assert shortcuts.fetch_texts(connection, question) == question.fetch_texts(connection)
                assert shortcuts.fetch_joined(connection, question) == b",".join(
                    question.fetch_texts(connection)
                )

    agree()
    put(mirror, 0)
    agree()
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [3, 50], "2026-09-03 00:00:00"))
    agree()
    put(mirror, 3, asked_at="2026-09-04 09:00:00")
    agree()
    put(mirror, 150)
    agree()


def test_a_filter_is_compared_once_for_few_records_in_any_order(mirror: Database) -> None:
    shortcuts = PageCache()
    ones = json.dumps([{"property": "src", "operator": "like", "value": "00"}])
    with counted(mirror) as (connection, seen):
        for args in ({}, {"sort": "calldate"}, {"sort": "id", "dir": "DESC"}, {"group_by": "calldate"}):
            for page in ("1", "2", "9"):
                question = asked(filter=ones, limit="30", page=page, **args)
                shortcuts.fetch_joined(connection, question)
                shortcuts.count_matches(connection, question)
    compared = [sql for sql in seen if "LIKE" in sql]
    assert len(compared) == 1, compared
    assert "json_group_array" in compared[0]


def test_more_records_than_few_are_not_kept(mirror: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    ones = json.dumps([{"property": "src", "operator": "like", "value": "00"}])
    for few, kept in ((99, False), (100, True)):
        monkeypatch.setattr(shortcuts_module, "MAX_CACHED_KEYS", few)
        shortcuts = PageCache()
        with counted(mirror) as (connection, seen):
            for page in ("1", "2"):
                question = asked(filter=ones, limit="10", page=page)
                assert shortcuts.fetch_texts(connection, question) == question.fetch_texts(connection)
        assert len([sql for sql in seen if "json_group_array" in sql]) == 1
        assert any("json_each" in sql for sql in seen) is kept


def test_the_total_is_counted_once(mirror: Database) -> None:
    shortcuts = PageCache()
    with counted(mirror) as (connection, seen):
        for page in ("1", "2", "3"):
            assert shortcuts.count_matches(connection, asked(limit="10", page=page)) == 100
    assert len([sql for sql in seen if "count(*)" in sql and "WHERE _missing_since IS NOT NULL" in sql]) == 1


@pytest.mark.parametrize("args", [{"group_by": "src"}, {"sort": "src"}, {}])
def test_a_page_that_is_not_full_tells_the_total(mirror: Database, args: dict[str, str]) -> None:
    few = json.dumps([{"property": "id", "operator": "lte", "value": 25}])
    for page, limit in (("1", "30"), ("3", "10")):
        shortcuts = PageCache()
        question = asked(filter=few, limit=limit, page=page, **args)
        with counted(mirror) as (connection, seen):
            shortcuts.fetch_texts(connection, question)
            told = shortcuts.count_matches(connection, question)
            looked = [sql for sql in seen if sql.startswith("SELECT count(*)")]
            assert told == question.count_matches(connection)
        # Beyond the last page nothing is told.
        assert bool(looked) is ("group_by" in args and page == "3")


def test_new_changed_and_deleted_records_are_seen_at_once(mirror: Database) -> None:
    shortcuts = PageCache()

    def found(**args: str) -> tuple[list[int], int]:
        question = asked(limit="10", page="2", **args)
        with mirror.read() as connection:
            shortcuts.fetch_texts(connection, asked(limit="10", page="1", **args))
            texts = shortcuts.fetch_texts(connection, question)
            return [json.loads(text)["id"] for text in texts], shortcuts.count_matches(connection, question)

    ones = '[{"property":"src","operator":"eq","value":"1001"}]'
    assert found() == (list(range(11, 21)), 100)
    assert found(filter=ones)[1] == 100
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [3], "2026-09-03 00:00:00"))
    assert found() == (list(range(12, 22)), 99)
    put(mirror, 1, src="1002", asked_at="2026-09-02 09:00:00")
    assert found(filter=ones) == (list(range(13, 23)), 98)
    put(mirror, 3, 0, asked_at="2026-09-04 09:00:00")
    assert found() == (list(range(10, 20)), 101)


def test_a_look_back_that_changed_nothing_leaves_the_shortcuts(mirror: Database) -> None:
    shortcuts = PageCache()
    with mirror.read() as connection:
        shortcuts.count_matches(connection, asked())
    put(mirror, *range(1, 101), asked_at="2026-09-02 10:00:00")
    with counted(mirror) as (connection, seen):
        assert shortcuts.count_matches(connection, asked()) == 100
    assert not [sql for sql in seen if "count(*)" in sql]


def test_other_filters_and_callers_have_their_own(mirror: Database) -> None:
    put(mirror, 200, src="1002")
    shortcuts = PageCache()
    for value, total in (("1001", 100), ("1002", 1), ("1001", 100)):
        question = asked(filter=json.dumps([{"property": "src", "operator": "eq", "value": value}]))
        with mirror.read() as connection:
            assert shortcuts.count_matches(connection, question) == total
    assert query.Query(CDRS, include_missing=True) != query.Query(CDRS)
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [200], "2026-09-03 00:00:00"))
    with mirror.read() as connection:
        assert shortcuts.count_matches(connection, query.Query(CDRS)) == 100
        assert shortcuts.count_matches(connection, query.Query(CDRS, include_missing=True)) == 101
