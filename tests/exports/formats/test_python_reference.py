"""Rows and cells of exports, compared with an implementation in Python.

Filters, periods, orders and zones are random, and cover both changes of the clocks.
"""

from __future__ import annotations

import csv as python_csv
import io
import json
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from integration.catalogue.shapes import OPERATORS
from integration.exports.formats import csv, jsonl
from integration.exports.selection import select
from tests.exports.formats.test_csv import guarded
from tests.support.examples import example_count
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import CALLS, CONDITION, RECORD, holds, rank

MOMENTS = st.sampled_from([
    "2026-03-29 00:59:59", "2026-03-29 01:00:00",  # London, Madrid: forward
    "2026-10-25 00:30:00", "2026-10-25 01:30:00",  # back: 1:30 occurs twice
    "2026-03-08 06:59:59", "2026-03-08 07:00:00", "2026-11-01 05:30:00", "2026-11-01 06:30:00",  # New York
    "2026-04-04 14:45:00", "2026-04-04 15:15:00",  # Lord Howe: half an hour
    "2026-01-01 00:00:00", "2027-01-01 00:00:00", "2026-07-01 23:59:59",
])  # fmt: skip
ZONES = st.sampled_from(
    [None, "UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
)
DAYS = st.none() | st.sampled_from(
    [
        "2026-03-29",
        "2026-03-29 01:30:00",
        "2026-10-25",
        "2026-10-25T01:30:00Z",
        "2026-11-01 01:30",
        "2026-04-05",
    ]
)
COLUMNS = ("id", "src", "duration", "duration_hms", "charge", "cw", "calldate", "calldate_local")


def to_utc(day: str, zone: str | None) -> str:
    there = UTC if day.endswith("Z") else ZoneInfo(zone or "UTC")
    moment = datetime.fromisoformat(day.removesuffix("Z")).replace(tzinfo=there)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def to_local(stamp: str | None, zone: str | None, style: str) -> str | None:
    if stamp is None:
        return None
    moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC).astimezone(ZoneInfo(zone or "UTC"))
    offset = f"{moment:%z}"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f"{offset[:3]}:{offset[3:]}" if style == "offset" else "")


def format_duration(value: Any) -> Any:
    if not isinstance(value, int) or value < 0:
        return value
    minutes, seconds = divmod(value, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def make_row(record: dict[str, Any], zone: str | None) -> list[Any]:
    """Values of the cells, independent of the format."""
    at = record["calldate"]
    return [
        record["id"], record["src"], record["duration"], format_duration(record["duration"]),
        record["charge"], None if record["cw"] is None else int(record["cw"]),
        to_local(at, zone, "plain"), to_local(at, zone, "offset"),
    ]  # fmt: skip


@example_count(20, exhaustive=60)
@given(
    st.lists(st.tuples(RECORD, st.none() | MOMENTS, st.integers(0, 90_000)), max_size=10),
    st.lists(CONDITION, max_size=2),
    st.sampled_from([None, "duration", "src", "calldate", "cw"]),
    st.booleans(),
    DAYS,
    DAYS,
    ZONES,
)
def test_export_has_the_rows_and_cells_of_the_query(
    drawn: list[tuple[dict[str, Any], str | None, int]],
    conditions: list[tuple[str, str, Any]],
    sort: str | None,
    descending: bool,
    since: str | None,
    until: str | None,
    zone: str | None,
) -> None:
    records = [
        {"id": at, **record, "calldate": moment, **({"duration": seconds} if seconds % 2 else {})}
        for at, (record, moment, seconds) in enumerate(drawn, 1)
    ]
    conditions = [
        (name, operator, [value] if OPERATORS[operator] == "in" else value)
        for name, operator, value in conditions
    ]
    matching = [record for record in records if all(holds(record, condition) for condition in conditions)]
    if since:
        matching = [r for r in matching if r["calldate"] and r["calldate"] >= to_utc(since, zone)]
    if until:
        matching = [r for r in matching if r["calldate"] and r["calldate"] < to_utc(until, zone)]
    if sort:
        matching.sort(key=lambda record: rank(record[sort]), reverse=descending)
    args = {
        "filter": json.dumps([{"operator": o, "property": p, "value": v} for p, o, v in conditions]),
        "columns": ",".join(COLUMNS),
        **({"sort": sort, "dir": "DESC" if descending else "ASC"} if sort else {}),
        **({"from": since} if since else {}),
        **({"to": until} if until else {}),
        **({"tz": zone} if zone else {}),
    }
    expected = [make_row(record, zone) for record in matching]
    table = collection_at(":memory:", CALLS, records)
    chosen = select(CALLS, args)

    stream = csv.stream(lambda: nullcontext(table), chosen, chunk_rows=3)
    assert stream.row_count == len(expected)
    text = b"".join(stream).decode()
    rows = list(python_csv.reader(io.StringIO(text, newline="")))
    assert rows == [list(COLUMNS), *([format_cell(cell) for cell in row] for row in expected)]

    lines = b"".join(jsonl.stream(lambda: nullcontext(table), chosen)).splitlines()
    assert [json.loads(line) for line in lines] == [dict(zip(COLUMNS, row, strict=True)) for row in expected]
    table.close()


def format_cell(cell: Any) -> str:
    return str(cell) if isinstance(cell, int | float) else guarded(cell)
