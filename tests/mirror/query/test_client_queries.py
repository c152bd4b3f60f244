"""Query plans of frequent filters and sorts of CDRs.

The dashboard, docs/facade.md and real clients use them; docs/platform.md lists the clients. Each query reads
an index in its order, or sorts only keys of one index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.query import query
from integration.mirror.query.positions import Positions
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database

CDRS = get_resource("cdrs")
USER = ("user_id", "eq", 1000001)
SINCE = ("calldate", "gte", "2026-09-01")
OUTBOUND = ("type", "eq", "O")
CONNECTED = ("disposition", "eq", "CONNECTED")
SOURCE = ("src", "eq", "442079460001")
TARGET = ("dst", "eq", "442079460002")
NEWEST = {"sort": "calldate", "dir": "DESC"}
HIGHEST_ID = {"sort": "id", "dir": "DESC"}

QUERIES: list[tuple[list[tuple[str, str, Any]], dict[str, str], str]] = [
    # The command line of the platform, and docs/facade.md.
    ([], {"limit": "25", **HIGHEST_ID}, "SCAN t|PRIMARY KEY|cdrs_present"),
    # The Singer tap, and docs/facade.md.
    ([], {"limit": "5000"}, "SCAN t|PRIMARY KEY|cdrs_present"),
    # Perfex.
    ([], {"limit": "25", "sort": "-calldate"}, "cdrs_calldate"),
    # Data Studio.
    (
        [("calldate", "gt", "2026-09-01"), ("calldate", "lt", "2026-10-01")],
        {"limit": "5000"},
        "cdrs_calldate",
    ),
    # The statistics client reads only totals.
    ([SINCE, OUTBOUND], {"limit": "1"}, "cdrs_type_time"),
    ([SINCE, CONNECTED], {"limit": "1"}, "cdrs_disposition_time"),
    ([SINCE, OUTBOUND, USER, CONNECTED], {"limit": "1"}, "cdrs_user_time"),
    # The dashboard, sorted by time or by the number of the record.
    ([USER, SINCE], {"limit": "100", **NEWEST}, "cdrs_user_time"),
    ([USER, SINCE], {"limit": "100", "sort": "calldate"}, "cdrs_user_time"),
    ([USER, SINCE], {"limit": "100"}, "cdrs_user_time"),
    ([USER], {"limit": "100", **NEWEST}, "cdrs_user_time"),
    ([USER], {"limit": "25", **HIGHEST_ID}, "cdrs_user_(id|time)"),
    ([SOURCE, SINCE], {"limit": "100", **NEWEST}, "cdrs_src_time"),
    ([TARGET, SINCE], {"limit": "100", **NEWEST}, "cdrs_dst_time"),
    ([SOURCE], {"limit": "100", **HIGHEST_ID}, "cdrs_src_time"),
    ([TARGET], {"limit": "100", **HIGHEST_ID}, "cdrs_dst_time"),
    ([OUTBOUND, SINCE], {"limit": "100", **NEWEST}, "cdrs_type_time"),
    ([CONNECTED, SINCE], {"limit": "100", **NEWEST}, "cdrs_disposition_time"),
    ([("live_id", "eq", 4278000101)], {"limit": "100"}, "cdrs_live_id"),
]
"""Conditions, other parameters, and index of each query."""


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Six calls, one of which matches no filter."""
    database = open_mirror(tmp_path_factory.mktemp("plans") / "mirror.db")
    rows = [
        {
            "id": number, "live_id": 4278000100 + number, "user_id": 1000001 if number < 6 else "1000002",
            "type": "O", "disposition": "CONNECTED", "src": "442079460001", "dst": "442079460002",
            "calldate": f"2026-09-0{number} 10:00:00",
        }
        for number in range(1, 7)
    ]  # fmt: skip
    records = [JsonRecord(json.dumps(row), row) for row in rows]
    database.write(lambda tx: upsert(tx, CDRS, records, source="sync", requested_at="2026-09-08 10:00:00"))
    yield database
    database.close()


@pytest.mark.parametrize("include_missing", [False, True], ids=["facade", "dashboard"])
@pytest.mark.parametrize(("conditions", "args", "index"), QUERIES)
def test_each_frequent_query_reads_its_index(
    mirror: Database,
    conditions: list[tuple[str, str, Any]],
    args: dict[str, str],
    index: str,
    include_missing: bool,
) -> None:
    entries = [
        {"property": name, "operator": operator, "value": value} for name, operator, value in conditions
    ]
    page_query = query.parse(CDRS, {**args, "filter": json.dumps(entries)}, include_missing=include_missing)
    statements: list[str] = []
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        if include_missing:
            page_query.fetch_rows(connection)
        else:
            page_query.fetch_page(connection, Positions(), is_joined=True)
        page_query.count_matches(connection)
        connection.set_trace_callback(None)
        plans = [
            (sql, [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")])
            for sql in statements
            if '"cdrs"' in sql or "FROM cdrs" in sql
        ]
    steps = [step for _, plan in plans for step in plan]
    for sql, plan in plans:
        assert not conditions or not {"SCAN t", "SCAN cdrs"} & set(plan), (sql, plan)
        if args.get("sort") == "calldate":
            assert "USE TEMP B-TREE FOR ORDER BY" not in plan, (sql, plan)
        if "USE TEMP B-TREE FOR ORDER BY" in plan:
            assert " AS _r FROM " in sql, f"sorts complete records: {sql}"
    assert any(name in step for step in steps for name in expand(index)), steps


def expand(index: str) -> list[str]:
    """Return the names in `a|b` or `a_(b|c)`."""
    if "(" not in index:
        return index.split("|")
    head, _, tail = index.partition("(")
    return [head + name for name in tail.rstrip(")").split("|")]


def test_a_sorted_page_is_found_with_user_ids_stored_as_texts(mirror: Database) -> None:
    entries = [{"property": "user_id", "operator": "eq", "value": 1000002}]
    page_query = query.parse(CDRS, {"filter": json.dumps(entries), **NEWEST})
    with mirror.read() as connection:
        assert [json.loads(text)["id"] for text in page_query.fetch_texts(connection)] == [6]
        assert page_query.count_matches(connection) == 1
