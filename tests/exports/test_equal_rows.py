"""Equal rows in page, download, command and facade for one query."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import openpyxl
import pytest

from integration.catalogue import get_resource
from integration.exports.formats import csv as as_csv
from integration.exports.formats import jsonl, parquet, xlsx
from integration.exports.selection import select
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


# --- during writes -------------------------------------------------------------------------------------


def _csv(data: bytes) -> list[tuple[int, int]]:
    return [(int(row[0]), int(row[1])) for row in list(csv.reader(io.StringIO(data.decode())))[1:]]


def _jsonl(data: bytes) -> list[tuple[int, int]]:
    return [(row["id"], row["duration"]) for row in map(json.loads, data.splitlines())]


def _xlsx(data: bytes) -> list[tuple[int, int]]:
    page = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0]
    return [(row[0], row[1]) for row in page.iter_rows(min_row=2, values_only=True)]


def _parquet(data: bytes) -> list[tuple[int, int]]:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    return [(row["id"], row["duration"]) for row in rows]


@pytest.mark.parametrize(
    ("stream", "read"),
    [
        (partial(as_csv.stream, chunk_rows=3), _csv),
        (partial(as_csv.stream, chunk_rows=3, threads=2), _csv),
        (jsonl.stream, _jsonl),
        (xlsx.stream, _xlsx),
        pytest.param(parquet.stream, _parquet, marks=pytest.mark.exhaustive),
    ],
    ids=["csv", "csv-threads", "jsonl", "xlsx", "parquet"],
)
def test_every_format_is_one_snapshot_during_writes(
    app: TestApp,
    stream: Callable[..., Any],
    read: Callable[[bytes], list[tuple[int, int]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_ROWS", 3)
    app.put("cdrs", *({"id": number, "duration": 0} for number in range(1, 61)))
    stop, rounds = threading.Event(), [0]

    def work() -> None:
        # Every transaction sets one value in all rows and replaces one row by another.
        while not stop.is_set():
            rounds[0] += 1
            now = rounds[0]
            app.mirror_db.write(
                lambda tx, now=now: (
                    tx.execute("DELETE FROM cdrs WHERE id = (SELECT min(id) FROM cdrs)"),
                    tx.execute(
                        "INSERT INTO cdrs (id, _doc, _first_seen, _last_seen, _source)"
                        " VALUES (?, '{}', '', '', 'sync')",
                        (60 + now,),
                    ),
                    tx.execute("UPDATE cdrs SET duration = ?", (now,)),
                )
            )

    writer = threading.Thread(target=work)
    writer.start()
    seen = set()
    try:
        while len(seen) < 3:
            chunks = stream(app.mirror_db.read, select(get_resource("cdrs"), {"columns": "id,duration"}))
            before = rounds[0]
            data = next(chunks)
            while rounds[0] < before + 2:
                stop.wait(0.001)
            rows = read(data + b"".join(chunks))
            assert len(rows) == chunks.row_count == 60
            (value,) = {duration for _, duration in rows}
            assert [number for number, _ in rows] == list(range(value + 1, value + 61))
            seen.add(value)
    finally:
        stop.set()
        writer.join()
