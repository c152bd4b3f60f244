"""CSV compared with Python's reader.

The records have every type, and text that spreadsheets misread.
"""

from __future__ import annotations

import csv as python_csv
import io
import json
import re
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.core.errors import QueryError
from integration.exports.formats import csv, jsonl
from integration.exports.selection import select
from tests.support.examples import example_count
from tests.support.payloads.collection_table import collection_at, insert
from tests.support.payloads.query_reference import CALLS

DOCUMENT = Path(__file__).parents[3] / "docs/exports.md"


def exported(
    table: sqlite3.Connection, args: dict[str, str] | None = None, **options: Any
) -> list[list[str]]:
    data = b"".join(csv.stream(lambda: nullcontext(table), select(CALLS, args or {}), **options))
    return list(python_csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


def test_header_has_the_documented_names_in_order() -> None:
    table = collection_at(":memory:", CALLS, [{"id": 1, "labels": ["x"]}])
    assert exported(table)[0] == [
        "id", "duration", "live_id", "user_id", "type", "calldate", "src", "src_name", "charge", "cw", "pin",
    ]  # fmt: skip
    data = b"".join(csv.stream(lambda: nullcontext(table), select(CALLS, {"columns": "id"}), bom=True))
    assert data == b'\xef\xbb\xbf"id"\r\n1\r\n'


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("\n+442079460001", "'\n+442079460001"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\uff0b1+1", "'\uff0b1+1"),
        ("\uff0b442079460001", "'\uff0b442079460001"),
        ("\uff0d2+3", "'\uff0d2+3"),
        ("\uff20SUM(A1)", "'\uff20SUM(A1)"),
        ("\uff21cme", "\uff21cme"),
        ("+1+1", "'+1+1"),
        ("+442079460001", "+442079460001"),
        ("+12345", "'+12345"),
        ("+123456", "+123456"),
        ("+1234567890123456", "'+1234567890123456"),
        ("+44 2079460001", "'+44 2079460001"),
        ("+44207946000x", "'+44207946000x"),
        ("00442079460001", "00442079460001"),
        ("'=1", "'=1"),
        ('say "hi", ok\r\n', 'say "hi", ok\r\n'),
        ("a\x00=b", "a\ufffd=b"),
        ("\x00=b", "\ufffd=b"),
        ("", ""),
        (None, ""),
        (-5, "'-5"),
        ("Zoë 中文 🎉", "Zoë 中文 🎉"),
        ("%s %w %d", "%s %w %d"),
    ],
)
def test_cell_is_exact_and_never_a_formula(cell: Any, expected: str) -> None:
    table = collection_at(":memory:", CALLS, [{"id": 1, "src_name": cell}])
    assert exported(table, {"columns": "src_name,id"}) == [["src_name", "id"], [expected, "1"]]


CELL = (
    st.none()
    | st.text(alphabet="ab=+-@\uff0b\uff1d\t\r\n\",;'1234567\x00é%\\ \xa0\u200b\x1c中", max_size=12)
    | st.integers(0, 2**62)
)

# Before 3.45, SQLite's json_extract truncates a string at its NUL; columns do not.
EXTRA = CELL.map(lambda value: value.replace("\x00", "") if isinstance(value, str) else value)


def list_ignored_signs() -> str:
    """Return the signs before a formula that docs/exports.md lists."""
    (sentence,) = re.findall(
        r"after blanks, invisible signs and combining marks.*?: (.*?)\. ", DOCUMENT.read_text("utf-8")
    )
    signs = ""
    for first, last in re.findall(r"U\+([0-9A-F]+)(?:–U\+([0-9A-F]+))?", sentence):
        signs += "".join(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return signs


IGNORED_SIGNS = list_ignored_signs()
STARTS = ("=", "@", "-", "\t", "\n", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def guarded(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).replace("\x00", "\ufffd")
    seen = text
    while seen[:1] and seen[0] in IGNORED_SIGNS:
        seen = seen[1:]
    is_phone_number = re.fullmatch(r"\+[0-9]{6,15}", seen) is not None
    return "'" + text if seen.startswith(STARTS) or (seen.startswith("+") and not is_phone_number) else text


def test_formulas_after_each_blank_or_invisible_sign_are_guarded_by_both_forms() -> None:
    assert set(
        " \u00a0\u200b\ufeff\v\x1c\u2028\u202a\u2060\u3000\u0301\u20e3\ufe20\ufffc\U0001d173\U0001d17a"
    ) < set(IGNORED_SIGNS)
    runs = [*IGNORED_SIGNS, *("".join(pair) for pair in zip(IGNORED_SIGNS, IGNORED_SIGNS[7:], strict=False))]
    ends = ["=1", "@A", "-2", "+1+1", "\t=1", "\uff1d1", "+442079460001", "4420", "a", "é=1", "中=1", ""]
    texts = [run + end for run in runs for end in ends]
    table = collection_at(
        ":memory:", CALLS, [{"id": at, "src_name": text} for at, text in enumerate(texts, 1)]
    )
    expected = [guarded(text) for text in texts]
    assert [row[0] for row in exported(table, {"columns": "src_name"})[1:]] == expected
    lines = "\r\n".join(map(csv.quote_cell, texts))
    assert [row[0] for row in python_csv.reader(io.StringIO(lines, newline=""))] == expected


NUMBER = (
    st.none() | st.integers(-9, 9) | st.sampled_from([0.5, -1.25, 1e20, 1e-7, 0.1, 3.0, "1.5", "=1", "a;b"])
)


@example_count(20, exhaustive=150)
@given(
    st.lists(
        st.fixed_dictionaries({"src": CELL, "duration": NUMBER, "charge": NUMBER, "extra": NUMBER}),
        max_size=9,
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_semicolons_have_decimal_commas_and_otherwise_the_cells_of_commas(
    records: list[dict[str, Any]], lines: int, is_sorted: bool
) -> None:
    records = [{"id": number, **record} for number, record in enumerate(records, 1)]
    table = collection_at(
        ":memory:", CALLS, [*records, {"id": 99, "src": "a\x00b", "extra": 1.5, "charge": 0.5}]
    )
    args = {"columns": "id,src,duration,duration_hms,charge,extra"} | ({"sort": "id"} if is_sorted else {})
    data = {
        separator: b"".join(
            csv.stream(lambda: nullcontext(table), select(CALLS, args), separator=separator, chunk_rows=lines)
        ).decode()
        for separator in ",;"
    }
    with_commas, with_semicolons = (
        list(python_csv.reader(io.StringIO(data[separator], newline=""), delimiter=separator))
        for separator in ",;"
    )
    for row in with_commas[1:]:
        record = next((one for one in records if str(one["id"]) == row[0]), {"charge": 0.5, "extra": 1.5})
        for at, value in (
            (2, record.get("duration")),
            (3, record.get("duration")),
            (4, record["charge"]),
            (5, record["extra"]),
        ):
            row[at] = row[at].replace(".", ",") if isinstance(value, float) else row[at]
    assert with_semicolons == with_commas
    assert '"a;b"' in data[";"] or "a;b" not in data[";"]
    table.close()


@example_count(20, exhaustive=150)
@given(
    st.lists(
        st.fixed_dictionaries({"src": CELL, "src_name": CELL, "duration": CELL, "extra": EXTRA}),
        max_size=9,
    ),
    st.integers(1, 4),
)
def test_random_records_are_read_back_unchanged(records: list[dict[str, Any]], lines: int) -> None:
    records = [{"id": number * 3, **record} for number, record in enumerate(records, 1)]
    table = collection_at(":memory:", CALLS, records)
    names = ["id", "src", "src_name", "duration"] + (
        ["extra"] if any(r["extra"] is not None for r in records) else []
    )
    rows = exported(table, {"columns": ",".join(names)}, chunk_rows=lines)
    assert rows[1:] == [[guarded(record[name]) for name in names] for record in records]
    table.close()


def test_filter_window_zone_sort_and_missing_records() -> None:
    table = collection_at(
        ":memory:",
        CALLS,
        [
            {"id": 1, "calldate": "2026-06-30 22:59:59", "src": "1"},
            {"id": 2, "calldate": "2026-06-30 23:00:00", "src": "1"},
            {"id": 3, "calldate": "2026-07-01 22:59:59", "src": "2"},
            {"id": 4, "calldate": "2026-07-01 23:00:00", "src": "1"},
            {"id": 5, "calldate": None, "src": "1"},
        ],
    )
    insert(table, CALLS, {"id": 6, "calldate": "2026-07-01 12:00:00"}, missing_since="2026-08-01 00:00:00")
    day = {"from": "2026-07-01", "to": "2026-07-02", "columns": "id,calldate"}
    assert [row[0] for row in exported(table, day)[1:]] == ["3", "4", "6"]
    assert exported(table, {**day, "tz": "Europe/London"})[1:] == [
        ["2", "2026-07-01 00:00:00"],
        ["3", "2026-07-01 23:59:59"],
        ["6", "2026-07-01 13:00:00"],
    ]
    at = {"columns": "id", "tz": "Europe/London", "to": "2026-07-01 12:30:00"}
    assert [row[0] for row in exported(table, {**at, "from": "2026-07-01 12:30"})[1:]] == []
    assert [row[0] for row in exported(table, {**at, "from": "2026-07-01 00:00"})[1:]] == ["2"]
    assert [row[0] for row in exported(table, {**at, "to": "2026-06-30T23:00:00Z"})[1:]] == ["1"]
    ones = json.dumps([{"property": "src", "operator": "eq", "value": "1"}])
    newest = {"filter": ones, "sort": "calldate", "dir": "DESC", "columns": "id"}
    assert [row[0] for row in exported(table, newest)] == ["id", "4", "2", "1", "5"]
    assert exported(table, {"columns": "id,_missing_since"})[-1] == ["6", "2026-08-01 00:00:00"]


def test_pins_are_masked() -> None:
    table = collection_at(":memory:", CALLS, [{"id": 1, "pin": "4711"}, {"id": 2}])
    assert exported(table, {"columns": "id,pin"})[1:] == [["1", "***"], ["2", ""]]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"columns": "id,nope"}, "nope"),
        ({"columns": 'id","x'}, 'id"'),
        ({"tz": "Mars/Olympus"}, "Mars"),
        ({"tz": "../../etc/passwd"}, "tz"),
        ({"from": "yesterday"}, "yesterday"),
        ({"filter": "{"}, "JSON"),
        ({"group_by": "src"}, "group_by"),
        ({"sort": "nope"}, "nope"),
    ],
)
def test_invalid_argument_raises_before_the_first_byte(args: dict[str, str], message: str) -> None:
    table = collection_at(":memory:", CALLS, [{"id": 1}])
    with pytest.raises(QueryError, match=message):
        csv.stream(lambda: nullcontext(table), select(CALLS, args))


def test_chunks_stay_small_in_a_long_file() -> None:
    table = collection_at(":memory:", CALLS, [{"id": n, "src": "442079460001"} for n in range(1, 5001)])
    chunks = list(csv.stream(lambda: nullcontext(table), select(CALLS, {}), chunk_rows=100))
    assert len(chunks) == 51
    assert max(map(len, chunks)) < 20_000


def test_json_lines_are_the_received_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_ROWS", 2)
    records = [{"id": n, "src": "=1", "more": [1, {"a": None}]} for n in range(1, 6)]
    table = collection_at(":memory:", CALLS, records)
    data = b"".join(jsonl.stream(lambda: nullcontext(table), select(CALLS, {})))
    assert [json.loads(line) for line in data.splitlines()] == records
