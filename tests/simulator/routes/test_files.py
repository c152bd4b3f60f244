"""Files: captures, traces, PDFs and CSV."""

from __future__ import annotations

import base64
import csv
import io
import re
import struct
import zlib
from collections.abc import Iterator

import pytest

from tests.support.simulator_client import Client, sample


def iterate_packets(data: bytes) -> Iterator[tuple[float, bytes, bytes, int, int, bytes]]:
    """Yield and check the packets of a capture.

    A packet is (Unix seconds, source, target, source port, target port, payload).
    """
    magic, major, minor, _, _, snap, link = struct.unpack(">IHHiIII", data[:24])
    assert (magic, major, minor, link) == (0xA1B2C3D4, 2, 4, 1)
    at = 24
    while at < len(data):
        seconds, micros, captured, length = struct.unpack(">IIII", data[at : at + 16])
        assert captured == length <= snap
        assert micros < 1_000_000
        frame = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        assert frame[12:14] == b"\x08\x00"
        ip = frame[14:34]
        assert ip[0] == 0x45
        assert compute_checksum(ip) == 0
        assert struct.unpack(">H", ip[2:4])[0] == len(frame) - 14
        udp = frame[34:]
        source, target, size, _ = struct.unpack(">HHHH", udp[:8])
        assert size == len(udp)
        assert compute_checksum(ip[12:20] + struct.pack(">BBH", 0, 17, size) + udp) == 0
        yield seconds + micros / 1e6, ip[12:16], ip[16:20], source, target, udp[8:]
    assert at == len(data)


def compute_checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071).

    It is 0 for data that includes its checksum.
    """
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@pytest.mark.parametrize("name", ["cdrs", "msdrs"])
def test_a_capture_has_two_sip_messages_of_one_call(world, name):
    record = world.rows(f"/{name}")[0]
    response = world.get(f"/{name}/{record['id']}.pcap")
    assert response.headers["Content-Type"] == "application/vnd.tcpdump.pcap"
    found = list(iterate_packets(response.content))
    assert [at for at, *_ in found] == sorted(at for at, *_ in found)
    sip = [payload.decode() for *_, payload in found]
    assert [text.split("\r\n")[0] for text in sip] == [
        "INVITE sip:1001@example.net SIP/2.0",
        "SIP/2.0 200 OK",
    ]
    assert len({re.search(r"Call-ID: (\S+)", text)[1] for text in sip}) == 1
    assert all(text.endswith("Content-Length: 0\r\n\r\n") for text in sip)


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


def test_a_fax_is_a_pdf_with_its_id(world):
    for fax in world.rows("/faxes"):
        assert fax["filename"].startswith(f"fax-to-{fax['to']}-from-{fax['from']}-at-")
        response = world.get(f"/faxes/{fax['id']}.pdf")
        assert response.headers["Content-Type"] == "application/pdf"
        check_pdf(response.content, fax["id"])
        assert world.get(f"/faxes/{fax['id']}").json()["data"] == fax


def check_pdf(data: bytes, record_id: int) -> None:
    assert data.startswith(b"%PDF-1.4")
    assert data.endswith(b"%%EOF\n")
    assert b"(Record %010d)" % record_id in data
    length = int(re.search(rb"/Length (\d+)", data)[1])
    assert len(re.search(rb"stream\n(.*)\nendstream\nendobj\n", data)[1]) == length
    start = int(re.search(rb"startxref\n(\d+)", data)[1])
    assert data[start : start + 4] == b"xref"
    offsets = [int(entry) for entry in re.findall(rb"(\d{10}) 00000 n", data)]
    for number, offset in enumerate(offsets, 1):
        assert data[offset:].startswith(b"%d 0 obj" % number)


def test_faxes_cannot_be_filtered_by_their_numbers(world):
    response = world.get("/faxes", filter='[{"property":"from","operator":"eq","value":"442079460001"}]')
    assert (response.status_code, response.json()) == (400, sample("response-filter-400"))


def test_an_invoice_is_a_pdf_in_json_and_400_for_a_failed_transaction(world):
    rows = world.rows("/transactions")
    assert rows[0].keys() == sample("response-transactions-list-200")["data"][0].keys()
    complete = next(row for row in rows if row["result"] == "OK")
    data = world.get(f"/transactions/{complete['id']}.pdf").json()["data"]
    assert data.keys() == sample("response-transactions-pdf-200")["data"].keys()
    check_pdf(base64.b64decode(data["base64"]), complete["id"])
    open_one = next(row for row in rows if row["result"] != "OK")
    refused = world.get(f"/transactions/{open_one['id']}.pdf")
    assert refused.status_code == 400
    assert refused.json()["message"] == sample("response-transactions-pdf-400")["message"]


def test_conversations_are_calls_and_sms(world):
    rows = world.rows("/conversations")
    assert sample("response-conversations-list-200")["data"][0].keys() <= rows[0].keys()
    calls = [cdr for cdr in world.rows("/cdrs") if cdr["is_root"]]
    assert len(rows) == len(calls) + len(world.rows("/sms"))
    assert {row["channel"] for row in rows} == {"call", "sms"}


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


def test_unknown_and_forbidden_files_are_errors_in_json(world):
    ordinary = Client(world.simulator, world.simulator.ordinary_user.api_key)
    other = next(row for row in world.rows("/msdrs") if row["user_id"] != 1000002)
    for path in ("/cdrs/1.pcap", "/msdrs/1.trace", "/faxes/1.pdf", "/monitors/1.mp3"):
        assert world.get(path).json() == {"message": "Resource not found", "errors": []}
    assert ordinary.get(f"/msdrs/{other['id']}.pcap").status_code == 403
    assert ordinary.get("/users/1000001/cdrs.csv").status_code == 403


def test_the_same_seed_gives_the_same_files(begin, world):
    other = begin(cdrs=400, start_at=world.simulator.world.start)
    cdr = world.rows("/cdrs")[7]["id"]
    for path in (f"/cdrs/{cdr}.pcap", f"/cdrs/{cdr}.trace", f"/faxes/{world.rows('/faxes')[0]['id']}.pdf"):
        assert zlib.crc32(other.get(path).content) == zlib.crc32(world.get(path).content)
