"""Pages of the facade: the same records and totals as of the plain query, with fewer entries read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.query import positions, query
from integration.mirror.query.positions import Positions
from integration.mirror.records import single_record
from integration.mirror.records.upsert import delete_rows, upsert
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database

CDRS = get_resource("cdrs")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A hundred CDRs, with a position every ten of them."""
    monkeypatch.setattr(positions, "INTERVAL", 10)
    database = open_mirror(tmp_path / "mirror.db")
    put(database, *range(1, 101))
    yield database
    database.close()


def put(mirror: Database, *ids: int, requested_at: str = "2026-09-02 08:00:00", **values: Any) -> None:
    rows = [
        {"id": number, "calldate": f"2026-09-02 08:{number % 60:02d}:00", "src": "1001", **values}
        for number in ids
    ]
    documents = [JsonRecord(json.dumps(row), row) for row in rows]
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=requested_at))


def make_query(*conditions: tuple[str, str, Any], **args: str) -> query.Query:
    entries = [
        {"property": name, "operator": operator, "value": value} for name, operator, value in conditions
    ]
    return query.parse(CDRS, {**args, "filter": json.dumps(entries)})


@contextmanager
def trace_statements(mirror: Database) -> Iterator[tuple[sqlite3.Connection, list[str]]]:
    """Yield a connection and the list of its executed statements."""
    statements: list[str] = []
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        try:
            yield connection, statements
        finally:
            connection.set_trace_callback(None)


@pytest.mark.parametrize("max_keys", [0, 5000])
@pytest.mark.parametrize(
    ("conditions", "args"),
    [
        ([], {}),
        ([], {"sort": "id", "dir": "DESC"}),
        ([], {"sort": "id", "dir": "ASC"}),
        ([], {"sort": "src"}),
        ([], {"sort": "calldate", "dir": "DESC"}),
        ([], {"group_by": "calldate"}),
        ([("id", "gt", 20)], {"group_by": "src"}),
        ([("id", "gt", 20)], {"group_by": "calldate", "sort": "src"}),
        ([("id", "gt", 20)], {}),
        ([("src", "like", "00")], {"sort": "calldate"}),
        ([("calldate", "gte", "2026-09-02 08:30:00")], {}),
        ([("src", "ne", "1002")], {"sort": "id", "dir": "DESC"}),
        ([("src", "eq", "1001")], {"sort": "calldate"}),
        ([("src", "eq", "1001")], {"sort": "id", "dir": "DESC"}),
        ([("src", "eq", "1002")], {}),
    ],
)
def test_pages_in_any_order_equal_those_of_the_plain_query(
    mirror: Database,
    monkeypatch: pytest.MonkeyPatch,
    conditions: list[tuple[str, str, Any]],
    args: dict[str, str],
    max_keys: int,
) -> None:
    monkeypatch.setattr(query, "MAX_MATCHING_KEYS", max_keys)
    found = Positions()
    for page in (1, 2, 3, 7, 4, 5, 20, 6, 3, 1, 2):
        page_query = make_query(*conditions, **args, limit="7", page=str(page))
        with mirror.read() as connection:
            texts, total = page_query.fetch_texts(connection), page_query.count_matches(connection)
            assert page_query.fetch_page(connection, found) == (texts, total)
            assert page_query.fetch_page(connection, Positions()) == (texts, total)
            joined, joined_total = page_query.fetch_page(connection, found, is_joined=True)
            assert (b",".join(joined), joined_total) == (b",".join(texts), total)


def read_page(mirror: Database, found: Positions, page: int) -> tuple[list[int], int, int]:
    """Return the ids of a page of ten, the total, and the number of searched positions."""
    with trace_statements(mirror) as (connection, statements):
        texts, total = make_query(limit="10", page=str(page)).fetch_page(connection, found)
        assert not [sql for sql in statements if "_doc" in sql and "OFFSET" in sql and "OFFSET 0" not in sql]
    searches = [sql for sql in statements if "LIMIT 1 OFFSET" in sql]
    return [json.loads(text)["id"] for text in texts], total, len(searches)


def test_positions_are_searched_once_while_new_records_have_higher_ids(mirror: Database) -> None:
    found = Positions()
    assert read_page(mirror, found, 8) == (list(range(71, 81)), 100, 11)
    for page in (3, 8, 5):
        # The last search finds no further position.
        assert read_page(mirror, found, page) == (list(range(page * 10 - 9, page * 10 + 1)), 100, 1)
    put(mirror, 101, 102)
    put(mirror, 5, src="1002", requested_at="2026-09-02 09:00:00")
    assert read_page(mirror, found, 9) == (list(range(81, 91)), 102, 1)
    assert read_page(mirror, found, 11) == ([101, 102], 102, 1)


def test_positions_are_searched_after_a_record_was_added_before_others_missing_restored_or_deleted(
    mirror: Database,
) -> None:
    found = Positions()

    def check_pages() -> None:
        for page in (9, 4, 1, 10, 11):
            page_query = make_query(limit="10", page=str(page))
            with mirror.read() as connection:
                expected = page_query.fetch_texts(connection), page_query.count_matches(connection)
                assert page_query.fetch_page(connection, found) == expected

    check_pages()
    put(mirror, 0)
    check_pages()
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [3, 50], "2026-09-03 00:00:00"))
    check_pages()
    put(mirror, 3, requested_at="2026-09-04 09:00:00")
    check_pages()
    mirror.write(lambda tx: delete_rows(tx, CDRS, [7]))
    check_pages()
    put(mirror, 150)
    check_pages()


def test_a_read_of_an_older_state_does_not_count_records_that_another_thread_has_seen(
    mirror: Database,
) -> None:
    found = Positions()
    with mirror.read() as older:
        older.execute("SELECT count(*) FROM cdrs").fetchone()
        put(mirror, *range(101, 121))
        assert read_page(mirror, found, 1)[1] == 120
        page_query = make_query(limit="10", page="11")
        assert page_query.fetch_page(older, found)[1] == page_query.count_matches(older)


def test_a_filter_with_few_matches_is_evaluated_once_for_page_and_total(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for max_keys, evaluations in ((100, 1), (99, 3)):
        monkeypatch.setattr(query, "MAX_MATCHING_KEYS", max_keys)
        with trace_statements(mirror) as (connection, statements):
            make_query(("src", "like", "00"), limit="30", sort="calldate").fetch_page(connection, Positions())
        assert len([sql for sql in statements if "LIKE" in sql]) == evaluations


def test_many_matches_are_read_by_key_and_those_of_a_time_range_by_its_index(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting all matches of an index takes longer than finding the first ones by key."""
    monkeypatch.setattr(query, "MAX_MATCHING_KEYS", 10)
    put(mirror, *range(101, 1001), type="O")
    for condition, index in (
        (("type", "eq", "O"), None),
        (("calldate", "gte", "2026-09-02 08:02:00"), "cdrs_calldate"),
    ):
        page_query = make_query(condition, limit="10", sort="id", dir="DESC")
        with trace_statements(mirror) as (connection, statements):
            texts, total = page_query.fetch_page(connection, Positions())
            read = next(sql for sql in reversed(statements) if "_doc" in sql)
            plan = " ".join(row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {read}"))
            assert (texts, total) == (
                page_query.fetch_texts(connection),
                page_query.count_matches(connection),
            )
        assert (index in plan) if index else ("USE TEMP B-TREE" not in plan), plan


def test_records_with_lone_surrogates_end_pages_and_are_grouped(mirror: Database) -> None:
    put(mirror, 1, calldate="2026-09-02 07:00:00", info="\ud83d", count=5)
    found, pages = Positions(), []
    with mirror.read() as connection:
        for number in (10, 11):
            arguments = {"sort": "-calldate", "limit": "10", "page": str(number)}
            pages.append(make_query(**arguments).fetch_page(connection, found)[0])
        groups, _ = make_query(group_by="info", sort="info", dir="DESC").fetch_page(connection, found)
    assert json.loads(pages[0][-1])["info"] == "\ud83d"
    assert pages[1] == []
    assert {(json.loads(text).get("info"), json.loads(text)["count"]) for text in groups} == {
        ("\ud83d", 1),
        (None, 99),
    }
