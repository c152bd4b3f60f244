"""Fixed traces, captures and PDFs, with id and time of the record.

The formats of traces and captures are undocumented; a trace is text with one block for each SIP message. The
IP addresses are reserved for documentation. A PDF always has one page, even if its record has more.
"""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

_PHONE = "192.0.2.10:5060"
_SWITCH = "198.51.100.12:5060"
_SIP_LADDER = (
    (_PHONE, "INVITE sip:1001@example.net SIP/2.0", "1 INVITE"),
    (_SWITCH, "SIP/2.0 100 Trying", "1 INVITE"),
    (_SWITCH, "SIP/2.0 180 Ringing", "1 INVITE"),
    (_SWITCH, "SIP/2.0 200 OK", "1 INVITE"),
    (_PHONE, "ACK sip:1001@example.net SIP/2.0", "1 ACK"),
    (_PHONE, "BYE sip:1001@example.net SIP/2.0", "2 BYE"),
    (_SWITCH, "SIP/2.0 200 OK", "2 BYE"),
)
RINGING_MESSAGES = 3
"""Number of SIP messages until a leg rings."""
CONNECTED_MESSAGES = 5
"""Number of SIP messages until a leg is connected."""

PCAP = (
    # libpcap 2.4, big-endian: two Ethernet frames with IPv4 and UDP, including checksums.
    bytes.fromhex("a1b2c3d4 00020004 00000000 00000000 0000ffff 00000001")
    + bytes.fromhex("695b7d90 00000000 0000008c 0000008c 020000000002 020000000001 0800")
    + bytes.fromhex("4500007e 00010000 40118e24 c000020a c633640c 13c413c4 006a5c68")
    + b"INVITE sip:1001@example.net SIP/2.0\r\n"
    + b"Call-ID: 1@example.net\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
    + bytes.fromhex("695b7d94 00000000 00000077 00000077 020000000001 020000000002 0800")
    + bytes.fromhex("45000069 00020000 40118e38 c633640c c000020a 13c413c4 0055641e")
    + b"SIP/2.0 200 OK\r\n"
    + b"Call-ID: 1@example.net\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
)
"""Capture of an INVITE and its 200 response."""

_PDF = (
    b"%PDF-1.4\n"
    b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
    b"/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 44>>stream\n"
    b"BT/F 12 Tf 60 780 Td(Record ##########)Tj ET\n"
    b"endstream\n"
    b"endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
    b"xref\n"
    b"0 6\n"
    b"0000000000 65535 f \n"
    b"0000000009 00000 n \n"
    b"0000000052 00000 n \n"
    b"0000000101 00000 n \n"
    b"0000000210 00000 n \n"
    b"0000000300 00000 n \n"
    b"trailer<</Size 6/Root 1 0 R>>\n"
    b"startxref\n"
    b"361\n"
    b"%%EOF\n"
)
_PDF_PLACEHOLDER = b"##########"


def list_sip_messages(record_id: int, at: str) -> list[Record]:
    """List the SIP messages of an answered leg."""
    return [
        {
            "at": at,
            "from": sender,
            "to": _SWITCH if sender == _PHONE else _PHONE,
            "message": f"{line}\r\nCall-ID: {record_id}@example.net\r\nCSeq: {number}\r\n"
            "Content-Length: 0\r\n\r\n",
        }
        for sender, line, number in _SIP_LADDER
    ]


def format_trace(record_id: int, at: str) -> str:
    """Format SIP messages as text, each after its time and direction."""
    messages = list_sip_messages(record_id, at)
    return "\n".join("{at} {from} -> {to}\n\n{message}".format(**message) for message in messages)


def make_pdf(record_id: int) -> bytes:
    """Create a PDF with the record's id on its page."""
    return _PDF.replace(_PDF_PLACEHOLDER, b"%010d" % record_id)
