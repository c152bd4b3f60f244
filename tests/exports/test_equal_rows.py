"""Equal rows in page, download, command and facade for one query."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

import openpyxl
import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.catalogue import get_resource
from integration.cli.export import command
from integration.exports.formats import csv as as_csv
from integration.exports.formats import jsonl, parquet, xlsx
from integration.exports.selection import select
from tests.cli.test_export import variables
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


@pytest.fixture
def client(app: TestApp) -> FlaskClient:
    """A client of exports and facade with a key."""
    client = app.product.site.test_client()
    client.environ_base["HTTP_X_AUTH_TOKEN"] = app.headers["X-Auth-Token"]
    return client


RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "user_id": st.sampled_from([7, 8, None, "7"]),
            "calldate": st.sampled_from(
                ["2026-03-29 00:59:59", "2026-03-29 01:00:00", "2026-10-25 01:30:00"]
            ),
            "src": st.sampled_from(["+442079460001", "=1+1", "00447700900101", 'a "b"\r\nc', "\u202ex", ""]),
            "duration": st.sampled_from([0, 61, None, "soon"]),
        }
    ),
    max_size=8,
)


@settings(max_examples=10)
@given(RECORDS)
def test_cdrs_of_a_user_are_equal_in_page_download_command_and_facade(
    app: TestApp, client: FlaskClient, records: list[dict[str, Any]]
) -> None:
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs"))
    numbered = [{"id": number, **record} for number, record in enumerate(records, 1)]
    app.put("cdrs", {"id": 1000, "user_id": 8}, *numbered)
    condition = json.dumps([{"property": "user_id", "operator": "eq", "value": 7}])
    facade = client.get("/v1.2/users/7/cdrs.csv")
    assert facade.status_code == 200
    assert client.get("/exports/cdrs.csv", query_string={"filter": condition}).data == facade.data
    data_dir = app.context.settings.storage.data_dir
    printed = CliRunner().invoke(command, ["cdrs", "--filter", condition], env=variables(data_dir))
    assert printed.stdout_bytes == facade.data
    expected = [str(number) for number, record in enumerate(records, 1) if record["user_id"] in (7, "7")]
    found = list(csv.DictReader(io.StringIO(facade.data.decode(), newline="")))
    assert [row["id"] for row in found] == expected
    page = app.log_in().get("/account/cdrs?" + urlencode({"filter": condition, "sort": "id"})).text
    assert re.findall(r'href="/account/cdrs/(\d+)"', page) == expected


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
