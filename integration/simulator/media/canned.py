"""Fixed traces, captures and PDFs, with id and time of the record.

The formats of traces and captures are undocumented; a trace is text with one block for each SIP message. The
IP addresses are reserved for documentation. A PDF always has one page, even if its record has more.
"""

from __future__ import annotations

from pathlib import Path
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
_FOLDER = Path(__file__).parent
PCAP = (_FOLDER / "call.pcap").read_bytes()
"""Capture of an INVITE and its 200 response: libpcap 2.4, big-endian, Ethernet frames with IPv4 and UDP."""
_PDF = (_FOLDER / "record.pdf").read_bytes()


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
    return _PDF.replace(b"##########", b"%010d" % record_id)
