"""Untrusted text in every export format.

Callers, colleagues and the platform choose this text. A file must have no formula, no broken line, no lost
letter and no secret.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest
from openpyxl.utils.escape import unescape

from integration.catalogue import get_resource
from integration.core.json_records import read_record
from integration.mirror.records.upsert import upsert
from tests.exports.formats.test_csv import guarded
from tests.exports.test_presets import exporting
from tests.support.application import TestApp, running_app

ODD = [
    "+442079460001", "00442079460001", "0207", "=1+1", "@SUM(A1)", "-2+3", "+1+1", "\t=1", "\r=1",
    "\n=1", "\n", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "\uff0b442079460001",
    "\uff0a=1", "\uff21=",
    '=HYPERLINK("http://example.com","x")', 'say "hi", ok', "a\r\nb", "a\nb;c", "a\x00=b", "\x00", "\x01\x1f",
    "\u202egnp.exe", "\u200f=1", "\u061c", "\ufeff=1", "\u2028x\u2029", "\ufffe\uffff",
    "Zoë 中文 🎉", "e\u0301", "'=1", "_x0041_", "%s%w%n", "1e5", "TRUE", "NULL", "", " =1",
    "\xa0=1", "\u200b=1", "\x0b=1", "\x1c=1", "\u2028=1", " \ufeff +1+1", "\u202a+442079460001",
    "*** END ***", "x" * 5000, "http://example.com/", "<r></c><c><f>1+1</f></c></r>", "007", "2026-07-01",
]  # fmt: skip


def store(app: TestApp, collection: str, *records: str) -> None:
    """Upsert records in the JSON text of the platform."""
    documents = [read_record(record) for record in records]
    app.mirror_db.write(
        lambda tx: upsert(
            tx, get_resource(collection), documents, source="sync", requested_at="2026-07-01 00:00:00"
        )
    )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("site") / "data") as app:
        texts = [json.dumps({"id": at, "src_name": text, "strange": text}) for at, text in enumerate(ODD, 1)]
        store(app, "cdrs", *texts, '{"id":999,"src_name":"a\\ud800b","strange":"a\\ud800b"}')
        yield app


def replace_nul(text: str) -> str:
    return text.replace("\x00", "\ufffd")


EXPECTED = [*ODD, "a\\ud800b"]
"""Half a surrogate pair is no character. It stays an escape sequence."""
COLUMNS = "columns=src_name,strange,id"


@pytest.mark.parametrize("separator", [",", ";"])
def test_csv_neutralises_formulas_and_keeps_other_text(app: TestApp, separator: str) -> None:
    query = {"columns": "src_name,strange,id", "separator": separator}
    data = exporting(app).get("/exports/cdrs.csv", query_string=query).data
    rows = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator))
    assert [row[0] for row in rows[1:]] == [guarded(text) for text in EXPECTED]
    assert [row[1] for row in rows[1:]] == [guarded(text) for text in EXPECTED]
    assert rows[1][0] == "+442079460001"


def test_xlsx_stores_every_text_as_text(app: TestApp) -> None:
    data = exporting(app).get(f"/exports/cdrs.xlsx?{COLUMNS}").data
    page = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0]
    for number, text in enumerate(EXPECTED, 2):
        for cell in page[number][:2]:
            # XML cannot represent U+FFFE and U+FFFF. Its readers treat CR LF as one line end.
            value = unescape(cell.value or "").replace("\r\n", "\n")
            expected = replace_nul(text).replace("\r\n", "\n")
            if "\ufffe" not in text:
                assert (value, cell.data_type) == (expected, "n" if cell.value is None else "s")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
        assert b"<f>" not in sheet
        assert b"<hyperlink" not in sheet
        assert archive.testzip() is None


def test_json_lines_keep_received_text(app: TestApp) -> None:
    client = exporting(app)
    data = client.get("/exports/cdrs.jsonl").data
    assert data.count(b"\n") == len(EXPECTED)
    raw = [json.loads(line)["src_name"] for line in data.splitlines()]
    assert raw == [*ODD, "a\ud800b"]
    chosen = client.get(f"/exports/cdrs.jsonl?{COLUMNS}").data.split(b"\n")[:-1]
    assert [json.loads(line)["strange"] for line in chosen] == EXPECTED


@pytest.mark.exhaustive
def test_parquet_keeps_received_text(app: TestApp) -> None:
    import pyarrow.parquet

    data = exporting(app).get(f"/exports/cdrs.parquet?{COLUMNS}").data
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    assert table["src_name"].to_pylist() == table["strange"].to_pylist() == EXPECTED


def test_manifest_of_a_zip_is_guarded_like_a_csv(tmp_path: Path) -> None:
    with running_app(tmp_path / "data") as app:
        at = "2026-07-01 00:00:00"
        texts = enumerate(ODD, 1)
        app.put("monitors", *({"id": number, "caller": text, "timestamp": at} for number, text in texts))
        data = exporting(app).get("/exports/recordings.zip?columns=caller").data
    manifest = zipfile.ZipFile(io.BytesIO(data)).read("manifest.csv").decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(manifest, newline="")))
    assert rows[0] == ["caller", "missing"]
    assert [row[0] for row in rows[1:]] == [guarded(text) for text in ODD]
    assert {row[1] for row in rows[1:]} == {"not in the archive (queued)"}


def test_header_of_an_undocumented_field_is_guarded(app: TestApp) -> None:
    name = "=cmd|'/C calc'!A0"
    store(app, "sms", json.dumps({"id": 1, name: "=1"}))
    data = exporting(app).get("/exports/sms.csv", query_string={"columns": name}).data
    assert list(csv.reader(io.StringIO(data.decode()))) == [[f"'{name}"], ["'=1"]]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", pytest.param("parquet", marks=pytest.mark.exhaustive)])
def test_nested_pin_is_masked(app: TestApp, suffix: str) -> None:
    store(app, "queues", '{"id":1,"users":[{"id":5,"pin":"canary-1"}],"strange":{"vm_pin":"canary-2"}}')
    for query in ("", "?columns=users,strange"):
        response = exporting(app).get(f"/exports/queues.{suffix}{query}")
        assert response.status_code == 200
        assert b"canary" not in response.data
