"""200,000 records compared row by row, with constant memory."""

from __future__ import annotations

import csv as python_csv
import io
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from integration.exports.formats import csv
from integration.exports.selection import select
from tests.exports.formats.test_csv import guarded
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import CALLS

ROWS = 200_000
ODD = [
    "",
    None,
    "=1",
    "+442079460001",
    "+1+1",
    "-2",
    "@x",
    "\t",
    'say "hi"',
    "a\r\nb",
    "Zoë",
    "7",
    3,
    4.5,
    "~",
]


@pytest.mark.exhaustive
def test_200_000_records_are_exported_exactly_in_constant_memory() -> None:
    chance = random.Random(7)
    table = collection_at(":memory:", CALLS)
    records = [
        (3 * n, chance.choice(ODD), chance.choice(ODD), chance.choice(ODD)) for n in range(1, ROWS + 1)
    ]
    table.executemany(
        f"INSERT INTO \"{CALLS.table}\" (id, src, src_name, duration, _doc) VALUES (?, ?, ?, ?, '{{}}')",
        records,
    )
    stream = csv.stream(lambda: nullcontext(table), select(CALLS, {"columns": "id,src,src_name,duration"}))
    assert stream.row_count == ROWS
    tracemalloc.start()
    found, peak = _read(stream), 0
    try:
        assert next(found) == ["id", "src", "src_name", "duration"]
        for expected in records:
            assert next(found) == [guarded(cell) for cell in expected]
        assert next(found, None) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def _read(stream: csv.ExportStream) -> Iterator[list[str]]:
    """Rows as they arrive. A chunk ends with a complete line."""
    for chunk in stream:
        yield from python_csv.reader(io.StringIO(chunk.decode(), newline=""))
