"""Files: captures, traces, PDFs and CSV."""

from __future__ import annotations

import base64
import csv
import io

import pytest

from tests.support.simulator_client import sample


@pytest.mark.parametrize(("name", "date"), [("cdrs", "calldate"), ("msdrs", "created_at")])
def test_a_trace_is_text_with_the_time_and_id_of_its_record(world, name, date):
    record = world.rows(f"/{name}")[0]
    trace = world.get(f"/{name}/{record['id']}.trace")
    assert trace.headers["Content-Type"].startswith("text/plain")
    lines = trace.text.splitlines()
    assert lines[0] == f"{record[date]} 192.0.2.10:5060 -> 198.51.100.12:5060"
    assert [line for line in lines if "SIP/2.0" in line][0::6] == [
        "INVITE sip:1001@example.net SIP/2.0",
        "SIP/2.0 200 OK",
    ]
    assert {line for line in lines if line.startswith("Call-ID")} == {f"Call-ID: {record['id']}@example.net"}


def test_a_fax_is_a_pdf_with_its_id_and_a_capture_is_the_fixed_one(world):
    fax = world.rows("/faxes")[0]
    assert fax["filename"].startswith(f"fax-to-{fax['to']}-from-{fax['from']}-at-")
    response = world.get(f"/faxes/{fax['id']}.pdf")
    assert response.headers["Content-Type"] == "application/pdf"
    assert response.content.startswith(b"%PDF-1.4")
    assert b"(Record %010d)" % fax["id"] in response.content
    capture = world.get(f"/cdrs/{world.rows('/cdrs')[0]['id']}.pcap")
    assert capture.headers["Content-Type"] == "application/vnd.tcpdump.pcap"
    assert capture.content.startswith(b"\xa1\xb2\xc3\xd4")


def test_faxes_cannot_be_filtered_by_their_numbers(world):
    response = world.get("/faxes", filter='[{"property":"from","operator":"eq","value":"442079460001"}]')
    assert (response.status_code, response.json()) == (400, sample("response-filter-400"))


def test_an_invoice_is_a_pdf_in_json_and_400_for_a_failed_transaction(world):
    rows = world.rows("/transactions")
    assert rows[0].keys() == sample("response-transactions-list-200")["data"][0].keys()
    complete = next(row for row in rows if row["result"] == "OK")
    data = world.get(f"/transactions/{complete['id']}.pdf").json()["data"]
    assert data.keys() == sample("response-transactions-pdf-200")["data"].keys()
    assert b"(Record %010d)" % complete["id"] in base64.b64decode(data["base64"])
    open_one = next(row for row in rows if row["result"] != "OK")
    refused = world.get(f"/transactions/{open_one['id']}.pdf")
    assert refused.status_code == 400
    assert refused.json()["message"] == sample("response-transactions-pdf-400")["message"]


def test_cdrs_of_a_user_are_returned_as_csv_and_other_exports_are_queued(world):
    response = world.get("/users/1000002/cdrs.csv")
    assert response.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    own = world.rows("/users/1000002/cdrs")
    assert [int(row["id"]) for row in rows] == [row["id"] for row in own]
    assert rows[0]["src_name"] == own[0]["src_name"]
    queued = world.get("/cdrs.csv")
    assert queued.status_code == 202
    assert "message" in queued.json()
    assert world.get("/nothing.csv").status_code == 404
