"""CSV compared with Python's reader.

The records have every type, and text that spreadsheets misread.
"""

from __future__ import annotations

import csv as python_csv
import io
import re
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from integration.exports.formats import csv
from integration.exports.selection import select
from tests.support.payloads.collection_table import collection_at, insert
from tests.support.payloads.query_reference import CALLS

DOCUMENT = Path(__file__).parents[3] / "docs/exports.md"


def exported(
    table: sqlite3.Connection, args: dict[str, str] | None = None, **options: Any
) -> list[list[str]]:
    data = b"".join(csv.stream(lambda: nullcontext(table), select(CALLS, args or {}), **options))
    return list(python_csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


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


# Before 3.45, SQLite's json_extract truncates a string at its NUL; columns do not.
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


def test_chunks_stay_small_in_a_long_file() -> None:
    table = collection_at(":memory:", CALLS, [{"id": n, "src": "442079460001"} for n in range(1, 5001)])
    chunks = list(csv.stream(lambda: nullcontext(table), select(CALLS, {}), chunk_rows=100))
    assert len(chunks) == 51
    assert max(map(len, chunks)) < 20_000


def test_missing_records_and_bookkeeping_columns_are_exported() -> None:
    table = collection_at(":memory:", CALLS, [{"id": 1, "calldate": None}])
    insert(table, CALLS, {"id": 6, "calldate": "2026-07-01 12:00:00"}, missing_since="2026-08-01 00:00:00")
    assert exported(table, {"columns": "id,_missing_since"})[1:] == [["1", ""], ["6", "2026-08-01 00:00:00"]]
    assert exported(table, {"columns": "id", "from": "2026-07-01"})[1:] == [["6"]]
