"""Page cache: fewer statements for the same pages and totals."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.query import page_cache, query
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


def put(mirror: Database, *ids: int, requested_at: str = "2026-09-02 08:00:00", **values: Any) -> None:
    rows = [
        {"id": number, "calldate": f"2026-09-02 08:{number % 60:02d}:00", "src": "1001", **values}
        for number in ids
    ]
    documents = [JsonRecord(json.dumps(row), row) for row in rows]
    mirror.write(lambda tx: upsert(tx, CDRS, documents, source="sync", requested_at=requested_at))


def make_query(**args: str) -> query.Query:
    return query.parse(CDRS, args)


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


@pytest.mark.parametrize("max_cached_keys", [0, 5000])
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
def test_pages_in_any_order_equal_those_of_the_query_without_cache(
    mirror: Database, monkeypatch: pytest.MonkeyPatch, args: dict[str, str], max_cached_keys: int
) -> None:
    monkeypatch.setattr(page_cache, "MAX_CACHED_KEYS", max_cached_keys)
    cache = PageCache()
    for page in (1, 2, 3, 7, 4, 5, 20, 6, 3, 1, 2):
        page_query = make_query(**args, limit="7", page=str(page))
        with mirror.read() as connection:
            texts = page_query.fetch_texts(connection)
            assert cache.fetch_texts(connection, page_query) == texts
            assert cache.fetch_joined(connection, page_query) == b",".join(texts)
            assert PageCache().fetch_joined(connection, page_query) == b",".join(texts)
            assert cache.count_matches(connection, page_query) == page_query.count_matches(connection)


def test_the_next_page_starts_after_the_last_key_without_an_offset(mirror: Database) -> None:
    cache = PageCache()
    with trace_statements(mirror) as (connection, statements):
        for page in range(1, 11):
            cache.fetch_texts(connection, make_query(limit="10", page=str(page)))
    assert not [sql for sql in statements if "OFFSET" in sql and "OFFSET 0" not in sql]


def test_the_next_page_reads_a_wide_window_by_key_and_a_narrow_one_by_its_index(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "MAX_CACHED_KEYS", 10)
    put(mirror, *range(101, 1001))
    cache = PageCache()
    for since, index in (("2026-09-02 08:02:00", False), ("2026-09-02 08:58:00", True)):
        window = json.dumps([{"property": "calldate", "operator": "gte", "value": since}])
        with trace_statements(mirror) as (connection, statements):
            for page in ("1", "2"):
                found = cache.fetch_texts(connection, make_query(filter=window, limit="10", page=page))
            read = next(sql for sql in reversed(statements) if "_doc" in sql)
            plan = connection.execute(f"EXPLAIN QUERY PLAN {read}").fetchall()
            assert found == make_query(filter=window, limit="10", page="2").fetch_texts(connection)
        assert any("cdrs_calldate" in row["detail"] for row in plan) is index, [row["detail"] for row in plan]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("column", ["src", "calldate", "duration", "user_id"])
def test_a_sorted_page_starts_after_the_last_value_with_nulls_ties_and_mixed_types(
    mirror: Database, column: str, direction: str
) -> None:
    odd = [None, None, 7, "7", "x", 7.5, True, None, -1, "", "é"]
    for number in range(201, 256):
        put(mirror, number, **{column: odd[number % len(odd)]})
    cache = PageCache()
    with trace_statements(mirror) as (connection, statements):
        for page in range(1, 33):
            page_query = make_query(sort=column, dir=direction, limit="5", page=str(page))
            del statements[:]
            found = cache.fetch_texts(connection, page_query)
            skipped = [sql for sql in statements if "OFFSET" in sql and "OFFSET 0" not in sql]
            expected = page_query.fetch_texts(connection)
            assert found == expected, page
            last = json.loads(expected[-1]).get(column) if len(expected) == 5 else None
            if page > 1 and last is not None:
                # Offsets: only the last page, pages that end with null, and pages after these.
                before = dataclasses.replace(page_query, page=page - 1).fetch_texts(connection)
                assert skipped == [] or json.loads(before[-1]).get(column) is None, page


@pytest.fixture
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "POSITION_INTERVAL", 10)


def read_page(mirror: Database, cache: PageCache, page: int, **args: str) -> tuple[list[int], list[str]]:
    """Return the ids of a page of ten, and its boundary searches."""
    with trace_statements(mirror) as (connection, statements):
        texts = cache.fetch_texts(connection, make_query(limit="10", page=str(page), **args))
    return [json.loads(text)["id"] for text in texts], [sql for sql in statements if "LIMIT 1 OFFSET" in sql]


@pytest.mark.usefixtures("short_intervals")
def test_a_request_of_a_late_page_caches_the_boundaries_of_all_earlier_pages(mirror: Database) -> None:
    cache = PageCache()
    ids, searches = read_page(mirror, cache, 8)
    assert ids == list(range(71, 81))
    assert len(searches) == 7
    for page in (3, 8, 5):
        ids, searches = read_page(mirror, cache, page)
        assert ids == list(range(page * 10 - 9, page * 10 + 1))
        assert searches == []
    with trace_statements(mirror) as (connection, statements):
        texts = cache.fetch_texts(connection, make_query(limit="7", page="9"))
    assert [json.loads(text)["id"] for text in texts] == list(range(57, 64))
    assert [sql for sql in statements if "OFFSET 6" in sql]


@pytest.mark.usefixtures("short_intervals")
def test_boundaries_stay_cached_while_new_records_have_higher_ids(mirror: Database) -> None:
    cache = PageCache()
    read_page(mirror, cache, 9)
    put(mirror, 101, 102)
    put(mirror, 5, src="1002", requested_at="2026-09-02 09:00:00")
    assert read_page(mirror, cache, 9) == (list(range(81, 91)), [])
    assert read_page(mirror, cache, 11)[0] == [101, 102]


@pytest.mark.usefixtures("short_intervals")
@pytest.mark.parametrize("args", [{}, {"sort": "id", "dir": "DESC"}])
def test_boundaries_are_recomputed_when_an_earlier_record_is_added_missing_or_restored(
    mirror: Database, args: dict[str, str]
) -> None:
    cache = PageCache()

    def check_pages() -> None:
        for page in (9, 4, 1, 10):
            page_query = make_query(limit="10", page=str(page), **args)
            with mirror.read() as connection:
                assert cache.fetch_texts(connection, page_query) == page_query.fetch_texts(connection)
                assert cache.fetch_joined(connection, page_query) == b",".join(
                    page_query.fetch_texts(connection)
                )

    check_pages()
    put(mirror, 0)
    check_pages()
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [3, 50], "2026-09-03 00:00:00"))
    check_pages()
    put(mirror, 3, requested_at="2026-09-04 09:00:00")
    check_pages()
    put(mirror, 150)
    check_pages()


def test_a_filter_with_few_matches_is_evaluated_once_for_all_orders(mirror: Database) -> None:
    cache = PageCache()
    src_filter = json.dumps([{"property": "src", "operator": "like", "value": "00"}])
    with trace_statements(mirror) as (connection, statements):
        for args in ({}, {"sort": "calldate"}, {"sort": "id", "dir": "DESC"}, {"group_by": "calldate"}):
            for page in ("1", "2", "9"):
                page_query = make_query(filter=src_filter, limit="30", page=page, **args)
                cache.fetch_joined(connection, page_query)
                cache.count_matches(connection, page_query)
    compared = [sql for sql in statements if "LIKE" in sql]
    assert len(compared) == 1, compared
    assert "json_group_array" in compared[0]


def test_keys_of_more_matches_than_the_maximum_are_not_cached(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    src_filter = json.dumps([{"property": "src", "operator": "like", "value": "00"}])
    for max_cached_keys, is_cached in ((99, False), (100, True)):
        monkeypatch.setattr(page_cache, "MAX_CACHED_KEYS", max_cached_keys)
        cache = PageCache()
        with trace_statements(mirror) as (connection, statements):
            for page in ("1", "2"):
                page_query = make_query(filter=src_filter, limit="10", page=page)
                assert cache.fetch_texts(connection, page_query) == page_query.fetch_texts(connection)
        assert len([sql for sql in statements if "json_group_array" in sql]) == 1
        assert any("json_each" in sql for sql in statements) is is_cached


def test_the_total_is_counted_once(mirror: Database) -> None:
    cache = PageCache()
    with trace_statements(mirror) as (connection, statements):
        for page in ("1", "2", "3"):
            assert cache.count_matches(connection, make_query(limit="10", page=page)) == 100
    assert len([sql for sql in statements if "count(*)" in sql]) == 1


@pytest.mark.parametrize("args", [{"group_by": "src"}, {"sort": "src"}, {}])
def test_a_page_that_is_not_full_determines_the_total(mirror: Database, args: dict[str, str]) -> None:
    id_filter = json.dumps([{"property": "id", "operator": "lte", "value": 25}])
    for page, limit in (("1", "30"), ("3", "10")):
        cache = PageCache()
        page_query = make_query(filter=id_filter, limit=limit, page=page, **args)
        with trace_statements(mirror) as (connection, statements):
            cache.fetch_texts(connection, page_query)
            total = cache.count_matches(connection, page_query)
            counts = [sql for sql in statements if sql.startswith("SELECT count(*)")]
            assert total == page_query.count_matches(connection)
        # A page after the last does not determine the total.
        assert bool(counts) is ("group_by" in args and page == "3")


def test_new_changed_and_deleted_records_appear_in_the_next_response(mirror: Database) -> None:
    cache = PageCache()

    def found(**args: str) -> tuple[list[int], int]:
        page_query = make_query(limit="10", page="2", **args)
        with mirror.read() as connection:
            cache.fetch_texts(connection, make_query(limit="10", page="1", **args))
            texts = cache.fetch_texts(connection, page_query)
            return [json.loads(text)["id"] for text in texts], cache.count_matches(connection, page_query)

    src_filter = '[{"property":"src","operator":"eq","value":"1001"}]'
    assert found() == (list(range(11, 21)), 100)
    assert found(filter=src_filter)[1] == 100
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [3], "2026-09-03 00:00:00"))
    assert found() == (list(range(12, 22)), 99)
    put(mirror, 1, src="1002", requested_at="2026-09-02 09:00:00")
    assert found(filter=src_filter) == (list(range(13, 23)), 98)
    put(mirror, 3, 0, requested_at="2026-09-04 09:00:00")
    assert found() == (list(range(10, 20)), 101)


def test_a_look_back_that_changed_nothing_leaves_the_shortcuts(mirror: Database) -> None:
    cache = PageCache()
    with mirror.read() as connection:
        cache.count_matches(connection, make_query())
    put(mirror, *range(1, 101), requested_at="2026-09-02 10:00:00")
    with trace_statements(mirror) as (connection, statements):
        assert cache.count_matches(connection, make_query()) == 100
    assert not [sql for sql in statements if "count(*)" in sql]


def test_each_filter_and_visibility_of_missing_records_has_its_own_entry(mirror: Database) -> None:
    put(mirror, 200, src="1002")
    cache = PageCache()
    for value, total in (("1001", 100), ("1002", 1), ("1001", 100)):
        page_query = make_query(filter=json.dumps([{"property": "src", "operator": "eq", "value": value}]))
        with mirror.read() as connection:
            assert cache.count_matches(connection, page_query) == total
    assert query.Query(CDRS, include_missing=True) != query.Query(CDRS)
    mirror.write(lambda tx: single_record.mark_missing(tx, CDRS, [200], "2026-09-03 00:00:00"))
    with mirror.read() as connection:
        assert cache.count_matches(connection, query.Query(CDRS)) == 100
        assert cache.count_matches(connection, query.Query(CDRS, include_missing=True)) == 101


def make_filter(since: int) -> str:
    return json.dumps([{"property": "id", "operator": "gte", "value": since}])


def count_evaluations(mirror: Database, cache: PageCache, since: int) -> int:
    """Number of evaluations of a filter for a page of its records."""
    with trace_statements(mirror) as (connection, statements):
        cache.fetch_texts(connection, make_query(filter=make_filter(since), limit="10"))
    return len([sql for sql in statements if "json_group_array" in sql])


def test_matching_keys_are_kept_up_to_a_number_of_bytes(
    mirror: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys 41 to 100 are 182 characters, [41,42,...,100]."""
    monkeypatch.setattr(page_cache, "MAX_KEY_BYTES", 182 + 179)
    cache = PageCache()
    assert [count_evaluations(mirror, cache, since) for since in (41, 42, 41, 42)] == [1, 1, 0, 0]
    assert [count_evaluations(mirror, cache, since) for since in (99, 42, 41)] == [1, 0, 1]


@pytest.mark.usefixtures("short_intervals")
def test_positions_of_all_queries_are_limited(mirror: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page 11 of ten records needs ten positions."""
    monkeypatch.setattr(page_cache, "MAX_POSITIONS", 10)
    cache = PageCache()
    descending = {"sort": "id", "dir": "DESC"}
    assert len(read_page(mirror, cache, 9)[1]) == 8
    assert len(read_page(mirror, cache, 9)[1]) == 0
    assert len(read_page(mirror, cache, 9, **descending)[1]) == 8
    assert len(read_page(mirror, cache, 9, **descending)[1]) == 0
    assert len(read_page(mirror, cache, 9)[1]) == 8


def test_keys_of_earlier_versions_of_a_collection_are_deleted(mirror: Database) -> None:
    """The keys of one version are 9,000 characters."""
    put(mirror, *range(101, 2001))
    cache = PageCache()
    count_evaluations(mirror, cache, 1)
    tracemalloc.start()
    try:
        for number in range(2001, 2021):
            put(mirror, number)
            assert count_evaluations(mirror, cache, 1) == 1
        assert tracemalloc.get_traced_memory()[0] < 60_000
    finally:
        tracemalloc.stop()


def test_records_with_lone_surrogates_end_pages_and_are_grouped(mirror: Database) -> None:
    put(mirror, 1, calldate="2026-09-02 07:00:00", info="\ud83d", count=5)
    cache, pages = PageCache(), []
    with mirror.read() as connection:
        for number in (10, 11):
            arguments = {"sort": "-calldate", "limit": "10", "page": str(number)}
            pages.append(cache.fetch_texts(connection, make_query(**arguments)))
        groups = cache.fetch_texts(connection, make_query(group_by="info", sort="info", dir="DESC"))
    assert json.loads(pages[0][-1])["info"] == "\ud83d"
    assert pages[1] == []
    assert {(json.loads(text).get("info"), json.loads(text)["count"]) for text in groups} == {
        ("\ud83d", 1),
        (None, 99),
    }
