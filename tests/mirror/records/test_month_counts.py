"""Totals of CDRs by month, exact after every change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.query import query
from integration.mirror.records.upsert import delete_rows, upsert
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database

CDRS = get_resource("cdrs")
REQUESTED_AT = "2026-11-20 12:00:00"


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Database]:
    """Five calls of two users in three months."""
    database = open_mirror(tmp_path / "mirror.db")
    put(
        database,
        (1, 1000001, "O", "2026-08-31 23:59:59", "CONNECTED"),
        (2, 1000001, "I", "2026-09-01 00:00:00", "CONNECTED"),
        (3, 1000002, "O", "2026-09-30 23:59:59", "NO ANSWER"),
        (4, 1000001, "O", "2026-10-01 00:00:00", "CONNECTED"),
        (5, None, "I", "2026-10-15 12:00:00", None),
    )
    yield database
    database.close()


def put(mirror: Database, *calls: tuple[Any, ...]) -> None:
    names = ("id", "user_id", "type", "calldate", "disposition")
    rows = [dict(zip(names, call, strict=True)) for call in calls]
    records = [JsonRecord(json.dumps(row), row) for row in rows]
    mirror.write(lambda tx: upsert(tx, CDRS, records, source="sync", requested_at=REQUESTED_AT))


def count(mirror: Database, *conditions: tuple[str, str, Any], include_missing: bool = False) -> int:
    """Return the total.

    Fails if a statement reads `cdrs` outside the months at the limits.
    """
    entries = [
        {"property": name, "operator": operator, "value": value} for name, operator, value in conditions
    ]
    page_query = query.parse(CDRS, {"filter": json.dumps(entries)}, include_missing=include_missing)
    statements: list[str] = []
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        total = page_query.count_matches(connection)
        connection.set_trace_callback(None)
        month_limit = "calldate < "
        assert [sql for sql in statements if "count(*)" in sql and month_limit not in sql] == []
    return total


SINCE_SEPTEMBER = ("calldate", "gte", "2026-09-01")


@pytest.mark.parametrize(
    ("conditions", "total"),
    [
        ([], 5),
        ([("type", "eq", "O")], 3),
        ([("type", "eq", "o")], 0),
        ([("user_id", "eq", 1000001)], 3),
        ([("user_id", "eq", "1000001")], 3),
        ([("user_id", "in", [1000001, 1000002, None])], 4),
        ([("disposition", "eq", "CONNECTED"), ("type", "eq", "O")], 2),
        ([SINCE_SEPTEMBER], 4),
        ([("calldate", "gt", "2026-09-01")], 3),
        ([("calldate", "gt", "2026-08-31 23:59:59"), SINCE_SEPTEMBER], 4),
        ([("calldate", "gte", "2026-08-01"), ("calldate", "lt", "2026-10-01")], 3),
        ([("calldate", "gte", "2026-08-01"), ("calldate", "lte", "2026-10-01")], 4),
        ([("calldate", "gte", "2026-09-01"), ("calldate", "lt", "2026-09-30")], 1),
        ([("calldate", "gte", "2026-10-01"), ("calldate", "lt", "2026-09-01")], 0),
        ([("user_id", "eq", 1000001), ("type", "eq", "O"), SINCE_SEPTEMBER], 1),
    ],
)
def test_totals_of_filters_by_user_direction_disposition_and_time(
    mirror: Database, conditions: list[tuple[str, str, Any]], total: int
) -> None:
    assert count(mirror, *conditions) == total


def test_totals_follow_changes_and_deletions(mirror: Database) -> None:
    put(mirror, (1, 1000002, "I", "2026-10-02 00:00:00", "CONNECTED"))
    assert count(mirror, ("user_id", "eq", 1000001)) == 2
    assert count(mirror, ("user_id", "eq", 1000002), ("calldate", "gte", "2026-10-01")) == 1
    mirror.write(lambda tx: tx.execute("UPDATE cdrs SET _missing_since = '2026-11-01 00:00:00' WHERE id = 2"))
    assert count(mirror, ("type", "eq", "I")) == 2
    assert count(mirror, ("type", "eq", "I"), include_missing=True) == 3
    assert (count(mirror), count(mirror, include_missing=True)) == (4, 5)
    put(mirror, (2, 1000001, "I", "2026-09-01 00:00:00", "CONNECTED"))
    assert count(mirror, ("type", "eq", "I")) == 3
    mirror.write(lambda tx: delete_rows(tx, CDRS, [3, 4]))
    assert (count(mirror, ("type", "eq", "O")), count(mirror)) == (0, 3)


@pytest.mark.parametrize("calldate", [None, "", "2026", 20261001, "later than every month"])
def test_a_call_with_an_invalid_date_is_part_of_exact_totals(mirror: Database, calldate: object) -> None:
    put(mirror, (6, 1000001, "O", calldate, "CONNECTED"))
    for conditions in ([("type", "eq", "O")], [("type", "eq", "O"), SINCE_SEPTEMBER]):
        entries = [{"property": n, "operator": o, "value": v} for n, o, v in conditions]
        page_query = query.parse(CDRS, {"filter": json.dumps(entries)})
        with mirror.read() as connection:
            assert page_query.count_matches(connection) == len(page_query.fetch_texts(connection))


def test_a_file_of_an_earlier_version_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    database = open_mirror(path)
    put(database, (1, 1000001, "O", "2026-08-31 23:59:59", "CONNECTED"))

    def restore_earlier_schema(tx: Any) -> None:
        for name in ("update", "delete"):
            tx.execute(f"DROP TRIGGER cdrs_counted_{name}")
        for name in ("_cdr_months", "_cdr_user_months"):
            tx.execute(f"DROP TABLE {name}")
        tx.execute("DELETE FROM _sqlite_migrations WHERE name = 'counts of CDRs by month'")

    database.write(restore_earlier_schema)
    database.close()
    database = open_mirror(path)
    assert (count(database), count(database, ("user_id", "eq", 1000001))) == (1, 1)
    database.close()
