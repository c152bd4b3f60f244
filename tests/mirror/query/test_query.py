"""Filters, order, pages, groups and query plans on a real SQLite table."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from integration.core.errors import QueryError
from integration.mirror.query import query
from integration.mirror.query.filters import MAX_IN_VALUES
from tests.support.payloads.collection_table import collection_at, insert
from tests.support.payloads.query_reference import CALLS, fetch_page

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "live_id": 4278000101, "type": "O", "calldate": "2026-09-02 00:00:00", "src": "442079460001"},
    {"id": 2, "live_id": "4278000102", "type": "I", "calldate": "2026-09-02 08:45:55",
     "src": "+442079460001"},
    {"id": 3, "live_id": None, "type": None, "calldate": "2026-09-03 10:00:00", "src": None, "extra": "x"},
    {"id": 4, "live_id": 7, "type": "M", "calldate": None, "src": "a_b", "src_name": "MÜLLER 100%",
     "duration": 12},
    {"id": 5, "live_id": 8, "type": "M", "calldate": "2026-09-01 10:00:00", "src": "aXb", "charge": 0.035,
     "cw": True},
    {"id": 6, "live_id": 9, "type": "o", "calldate": "2026-09-01 10:00:00", "src": 1001, "extra": 5,
     "cw": False},
]  # fmt: skip


@pytest.fixture
def table() -> sqlite3.Connection:
    return collection_at(":memory:", CALLS, RECORDS)


def find_ids(table: sqlite3.Connection, *conditions: tuple[str, str, Any], **args: str) -> list[int]:
    """Return the ids of the matching records.

    Check the total if the result is a single page.
    """
    if conditions:
        args["filter"] = json.dumps([{"property": p, "operator": o, "value": v} for p, o, v in conditions])
    page_query = query.parse(CALLS, args)
    records = fetch_page(page_query, table)
    if "limit" not in args and "page" not in args:
        assert page_query.count_matches(table) == len(records)
    return [record["id"] for record in records]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("live_id", "eq", 4278000101), [1]),
        (("live_id", "=", "4278000101"), [1]),
        (("live_id", "eq", 4278000102), [2]),
        (("live_id", "in", ["4278000101", 4278000102, None, 7]), [1, 2, 4]),
        (("live_id", "in", []), []),
        (("live_id", "gte", 4278000101), [1, 2]),
        (("live_id", "lt", "4278000102"), [1, 4, 5, 6]),
        (("live_id", "like", "780001"), [1, 2]),
        (("calldate", "gte", "2026-09-02"), [1, 2, 3]),
        (("calldate", "eq", "2026-09-02"), [1]),
        (("calldate", "<=", "2026-09-02T08:45:55Z"), [1, 2, 5, 6]),
        (("src", "like", "a_b"), [4]),
        (("src", "like", "%a_b"), [4, 5]),
        (("src", "like", "44%"), [1]),
        (("src", "eq", "1001"), [6]),
        (("src_name", "like", "müller"), [4]),
        (("src_name", "like", "%ü_LER%"), [4]),
        (("src_name", "like", "mül%%"), [4]),
        (("src_name", "notlike", "ü"), []),
        (("src", "like", "ü"), []),
        (("src", "notlike", "ü"), [1, 2, 4, 5, 6]),
        (("type", "like", "\u212a"), []),
        (("type", "like", "O"), [1, 6]),
        (("cw", "eq", "false"), [6]),
        (("extra", "eq", "x"), [3]),
        (("extra", "eq", "5"), [6]),
        (("extra", "eq", None), [1, 2, 4, 5]),
        (("extra", "<", "6"), [6]),
        (("extra", ">", "4"), [3, 6]),
        (("extra", ">", "5"), [3]),
        (("extra", ">", 4), [6]),
    ],
)
def test_a_filter_returns_the_matching_records(
    table: sqlite3.Connection, condition: tuple[str, str, Any], expected: list[int]
) -> None:
    assert find_ids(table, condition) == expected


def test_a_date_stored_as_a_number_matches_no_comparison_with_a_date(table: sqlite3.Connection) -> None:
    insert(table, CALLS, {"id": 7, "calldate": 1788300000})
    assert 7 not in find_ids(table, ("calldate", "lt", "2030-01-01"))
    assert 7 not in find_ids(table, ("calldate", "gte", "1970-01-01"))


def test_like_folds_case_after_a_nul_and_for_signs_that_fold_to_ascii(
    table: sqlite3.Connection,
) -> None:
    insert(table, CALLS, {"id": 7, "src_name": "a\x00é"})
    insert(table, CALLS, {"id": 8, "src_name": "Mike"})
    assert find_ids(table, ("src_name", "like", "É")) == [7]
    assert find_ids(table, ("src_name", "notlike", "É")) == [4, 8]
    # The Kelvin sign folds to k.
    assert find_ids(table, ("src_name", "like", "\u212aE")) == [8]


def test_conditions_are_combined_by_and_and_an_empty_array_filters_nothing(table: sqlite3.Connection) -> None:
    assert find_ids(table, ("type", "eq", "M"), ("calldate", "ne", None)) == [5]
    assert find_ids(table, filter="[]") == [1, 2, 3, 4, 5, 6]
    assert find_ids(table, filter="") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"filter": "{"}, "JSON"),
        ({"filter": '{"property":"id"}'}, "array"),
        ({"filter": '[{"property":"id","operator":"eq"}]'}, "value"),
        ({"filter": '[{"property":"nope","operator":"eq","value":1}]'}, "nope"),
        ({"filter": '[{"property":"id","operator":"between","value":[1,2]}]'}, "between"),
        ({"filter": '[{"property":"id","operator":"in","value":1}]'}, "array"),
        ({"filter": '[{"property":"id","operator":"eq","value":[1]}]'}, "number, string or boolean"),
        ({"filter": '[{"property":"id","operator":"in","value":[[1]]}]'}, "an array in it"),
        ({"filter": f'[{{"property":"id","operator":{"[" * 300}{"]" * 300},"value":1}}]'}, "operator"),
        ({"filter": '[{"property":"id","operator":"lt","value":null}]'}, "null"),
        ({"filter": '[{"property":"duration","operator":"gt","value":"long"}]'}, "duration"),
        ({"filter": '[{"property":"calldate","operator":"gt","value":"31/12/2026"}]'}, "calldate"),
        ({"filter": '[{"property":"cw","operator":"eq","value":"maybe"}]'}, "cw"),
        ({"filter": '[{"property":"src","operator":"eq","value":"\\ud800"}]'}, "JSON"),
        ({"filter": "[" * 5000}, "JSON"),
        ({"sort": "nope"}, "nope"),
        ({"sort": "id", "dir": "UP"}, "dir"),
        ({"sort": 'id" DESC; DROP TABLE cdrs; --'}, "DROP"),
        ({"group_by": "(SELECT 1)"}, "SELECT"),
        ({"page": "0"}, "page"),
        ({"limit": "1e3"}, "limit"),
    ],
)
def test_an_invalid_parameter_is_rejected_with_its_name(
    table: sqlite3.Connection, args: dict[str, str], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        find_ids(table, **args)


def test_a_list_of_more_than_the_maximum_of_values_is_rejected(table: sqlite3.Connection) -> None:
    text = json.dumps([{"property": "id", "operator": "in", "value": list(range(MAX_IN_VALUES))}])
    records = query.parse(CALLS, {"filter": text}).fetch_texts(table)
    assert [json.loads(record)["id"] for record in records] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(QueryError, match=str(MAX_IN_VALUES)):
        find_ids(table, ("id", "in", list(range(MAX_IN_VALUES + 1))))


def test_hidden_fields_cannot_be_used_in_filters_sorts_and_groups(table: sqlite3.Connection) -> None:
    for args in (
        {"filter": '[{"property":"pin","operator":"like","value":"1%"}]'},
        {"sort": "pin"},
        {"group_by": "pin"},
    ):
        with pytest.raises(QueryError, match="pin"):
            query.parse(CALLS, args, hidden_fields=frozenset({"pin"})).fetch_texts(table)


def test_a_sort_puts_nulls_first_text_by_code_point_and_ties_by_id(table: sqlite3.Connection) -> None:
    assert find_ids(table, sort="type") == [3, 2, 4, 5, 1, 6]
    assert find_ids(table, sort="type", dir="desc") == [6, 1, 4, 5, 2, 3]
    assert find_ids(table, sort="-calldate") == [3, 2, 1, 5, 6, 4]
    assert find_ids(table, sort="id", dir="DESC") == [6, 5, 4, 3, 2, 1]
    assert find_ids(table, sort="extra", dir="DESC") == [3, 6, 1, 2, 4, 5]


def test_pages_start_at_1_and_are_empty_after_the_last(table: sqlite3.Connection) -> None:
    assert find_ids(table, page="2", limit="2") == [3, 4]
    assert find_ids(table, page="2", limit="4", sort="type") == [1, 6]
    assert find_ids(table, page="9", limit="4") == []
    assert find_ids(table, page="9" * 300, limit="4") == []
    assert query.parse(CALLS, {"limit": "10000"}).limit == 5000
    assert query.parse(CALLS, {"limit": "10000"}, max_limit=20_000).limit == 10_000
    assert query.parse(CALLS, {}).limit == 5000


def test_groups_show_their_newest_record_and_their_size(table: sqlite3.Connection) -> None:
    page_query = query.parse(CALLS, {"group_by": "type"})
    groups = fetch_page(page_query, table)
    assert [(group["id"], group["type"], group["count"]) for group in groups] == [
        (1, "O", 1),
        (2, "I", 1),
        (3, None, 1),
        (5, "M", 2),
        (6, "o", 1),
    ]
    assert page_query.count_matches(table) == 5
    by_date = query.parse(CALLS, {"group_by": "calldate", "sort": "id", "dir": "DESC", "limit": "1"})
    assert fetch_page(by_date, table)[0]["count"] == 2
    assert by_date.count_matches(table) == 5


def test_missing_records_are_returned_only_with_include_missing(table: sqlite3.Connection) -> None:
    insert(table, CALLS, {"id": 99, "type": "O"}, missing_since="2026-09-04 00:00:00")
    assert 99 not in find_ids(table)
    assert query.parse(CALLS, {}).count_matches(table) == 6
    everything = query.parse(CALLS, {}, include_missing=True)
    assert everything.count_matches(table) == 7
    assert 99 in [record["id"] for record in fetch_page(everything, table)]


def test_include_and_fields_are_parsed() -> None:
    page_query = query.parse(CALLS, {"include": "users, ddis", "fields[users]": "id,first_name"})
    assert page_query.include == ("users", "ddis")
    assert page_query.fields == {"users": ("id", "first_name")}
