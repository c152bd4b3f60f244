"""The SIP messages of one leg, made from its record: what `.trace` shows and `.pcap` carries.

Formats of both are not shown; the trace is text, one block for each message. Phones are in 192.0.2.0/24, the
switch is 198.51.100.12 (addresses reserved for documentation).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from integration.core import clock

Record = dict[str, Any]

SWITCH_ADDRESS = ("198.51.100.12", 5060)
SIP_DOMAIN = "switch.sip.example.net"


@dataclass(frozen=True, slots=True)
class Packet:
    """Something sent at `sent_at`: a SIP message, or a piece of sound (`is_media`)."""

    sent_at: datetime
    sender: tuple[str, int]
    receiver: tuple[str, int]
    payload: bytes
    is_media: bool = False


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What is needed of a leg: seconds are from its start, `answered_offset` None where nobody did."""

    call_id: str
    start: datetime
    is_outbound: bool
    phone: tuple[str, int]
    src: str
    dst: str
    user_agent: str
    ringing_offset: float
    answered_offset: float | None
    ended_offset: float | None


def make_cdr_dialogue(cdr: Record) -> Dialogue:
    return Dialogue(
        call_id=f"{cdr['live_id']}@{SIP_DOMAIN}",
        start=_parse_time(cdr["calldate"]),
        is_outbound=cdr["destination"] != "in",
        phone=_make_phone_address(cdr["user_id"] or 0),
        src=cdr["src"] or "anonymous",
        dst=cdr["dst"],
        user_agent=cdr["src_ua"] or cdr["dst_ua"] or "Switch",
        ringing_offset=0.4,
        answered_offset=cdr["duration"] - cdr["billsec"] + 0.5 if cdr["billsec"] else None,
        ended_offset=cdr["duration"] + 0.5,
    )


def make_msdr_dialogue(msdr: Record) -> Dialogue:
    return Dialogue(
        call_id=msdr["call_id"],
        start=_parse_time(msdr["created_at"]),
        is_outbound=msdr["src_ua"] is not None,
        phone=_make_phone_address(msdr["user_id"]),
        src=msdr["src"] or "anonymous",
        dst=msdr["dst"],
        user_agent=msdr["src_ua"] or msdr["dst_ua"] or "Switch",
        ringing_offset=0.1,
        answered_offset=0.3,
        ended_offset=msdr["duration"] + 0.5,
    )


def make_call_dialogue(call: Record) -> Dialogue:
    """A live call: it has not ended."""
    start = float(call["start_time"])
    connected_at = call["connected_at"]
    return Dialogue(
        call_id=f"{call['id']}@{SIP_DOMAIN}",
        start=datetime.fromtimestamp(start, UTC),
        is_outbound=call["destination"] != "in",
        phone=_make_phone_address(int(call["src_id"]) or int(call["dst_id"])),
        src=call["src"] or "anonymous",
        dst=call["dst"],
        user_agent=call["src_ua"] or call["dst_ua"] or "Switch",
        ringing_offset=0.4,
        answered_offset=None if connected_at is None else max(0.5, connected_at - start),
        ended_offset=None,
    )


def make_packets(dialogue: Dialogue, *, audio_packet_count: int = 0) -> list[Packet]:
    """The messages of a leg in order; with `audio_packet_count`, so many pieces of speech after it was
    answered."""
    phone, switch = dialogue.phone, SWITCH_ADDRESS
    caller, callee = (phone, switch) if dialogue.is_outbound else (switch, phone)
    messages: list[Packet] = []

    def add_message(
        sent_at: float, sender: tuple[str, int], line: str, method: str, number: int, with_sdp: bool = False
    ) -> None:
        receiver = switch if sender == phone else phone
        text = _format_message(dialogue, line, method, number, sender, with_sdp)
        messages.append(Packet(dialogue.start + timedelta(seconds=sent_at), sender, receiver, text.encode()))

    add_message(0.0, caller, f"INVITE sip:{dialogue.dst}@{SIP_DOMAIN} SIP/2.0", "INVITE", 1, with_sdp=True)
    add_message(0.02, callee, "SIP/2.0 100 Trying", "INVITE", 1)
    add_message(dialogue.ringing_offset, callee, "SIP/2.0 180 Ringing", "INVITE", 1)
    if dialogue.answered_offset is not None:
        add_message(dialogue.answered_offset, callee, "SIP/2.0 200 OK", "INVITE", 1, with_sdp=True)
        add_message(
            dialogue.answered_offset + 0.02, caller, f"ACK sip:{dialogue.dst}@{SIP_DOMAIN} SIP/2.0", "ACK", 1
        )
        for n in range(audio_packet_count):
            sent_at = dialogue.start + timedelta(seconds=dialogue.answered_offset + 0.1 + n * 0.02)
            messages.append(
                Packet(sent_at, (phone[0], 16384), (switch[0], 20000), _make_audio_payload(n), is_media=True)
            )
    if dialogue.ended_offset is not None:
        end_offset = max(
            dialogue.ended_offset,
            dialogue.ringing_offset + 0.1,
            (dialogue.answered_offset or 0) + 0.2 + audio_packet_count * 0.02,
        )
        if dialogue.answered_offset is not None:
            add_message(end_offset, caller, f"BYE sip:{dialogue.dst}@{SIP_DOMAIN} SIP/2.0", "BYE", 2)
            add_message(end_offset + 0.02, callee, "SIP/2.0 200 OK", "BYE", 2)
        else:
            add_message(end_offset, caller, f"CANCEL sip:{dialogue.dst}@{SIP_DOMAIN} SIP/2.0", "CANCEL", 1)
            add_message(end_offset + 0.02, callee, "SIP/2.0 200 OK", "CANCEL", 1)
            add_message(end_offset + 0.04, callee, "SIP/2.0 487 Request Terminated", "INVITE", 1)
            add_message(end_offset + 0.06, caller, f"ACK sip:{dialogue.dst}@{SIP_DOMAIN} SIP/2.0", "ACK", 1)
    return messages


def format_trace(dialogue: Dialogue) -> str:
    """The messages as text, each below a line that says when it went from where to where."""
    blocks = []
    for packet in make_packets(dialogue):
        (sender, sender_port), (receiver, receiver_port) = packet.sender, packet.receiver
        head = f"{packet.sent_at:%Y-%m-%d %H:%M:%S.%f} {sender}:{sender_port} -> {receiver}:{receiver_port}"
        blocks.append(f"{head}\n\n{packet.payload.decode()}")
    return "\n".join(blocks)


def _format_message(
    dialogue: Dialogue, line: str, method: str, number: int, sender: tuple[str, int], with_sdp: bool
) -> str:
    body = ""
    if with_sdp:
        body = (
            f"v=0\r\no=- {number} {number} IN IP4 {sender[0]}\r\ns=call\r\nc=IN IP4 {sender[0]}\r\n"
            "t=0 0\r\nm=audio 16384 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\n"
        )
    branch = f"z9hG4bK{abs(compute_hash(dialogue.call_id + method)):08x}"
    lines = [
        line,
        f"Via: SIP/2.0/UDP {sender[0]}:{sender[1]};branch={branch}",
        "Max-Forwards: 70",
        f"From: <sip:{dialogue.src}@{SIP_DOMAIN}>;tag=1",
        f"To: <sip:{dialogue.dst}@{SIP_DOMAIN}>" + (";tag=2" if method != "INVITE" or "200" in line else ""),
        f"Call-ID: {dialogue.call_id}",
        f"CSeq: {number} {method}",
        f"User-Agent: {dialogue.user_agent}",
        *(("Content-Type: application/sdp",) if with_sdp else ()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines) + "\r\n\r\n" + body


def compute_hash(text: str) -> int:
    """The same small number for the same text in every process."""
    result = 0
    for letter in text:
        result = (result * 31 + ord(letter)) & 0xFFFFFFFF
    return result


def _make_audio_payload(n: int) -> bytes:
    """An RTP packet: 20 ms of silence in A-law."""
    head = bytes([0x80, 0x08]) + n.to_bytes(2, "big") + (n * 160).to_bytes(4, "big") + b"\x00\x00\x30\x39"
    return head + b"\xd5" * 160


def _make_phone_address(user_id: int) -> tuple[str, int]:
    return (f"192.0.2.{10 + user_id % 200}", 5060)


def _parse_time(stamp: str) -> datetime:
    parsed = clock.parse_utc(stamp)
    assert parsed is not None
    return parsed
