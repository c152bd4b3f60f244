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

SWITCH = ("198.51.100.12", 5060)
SIP_DOMAIN = "switch.sip.example.net"


@dataclass(frozen=True, slots=True)
class Packet:
    """Something sent at `at`: a SIP message, or a piece of sound (`media`)."""

    at: datetime
    sender: tuple[str, int]
    receiver: tuple[str, int]
    payload: bytes
    media: bool = False


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What is needed of a leg: seconds are from its start, `answered` None where nobody did."""

    call_id: str
    start: datetime
    outbound: bool
    phone: tuple[str, int]
    src: str
    dst: str
    agent: str
    ring: float
    answered: float | None
    ended: float | None


def of_cdr(cdr: Record) -> Dialogue:
    return Dialogue(
        call_id=f"{cdr['live_id']}@{SIP_DOMAIN}",
        start=_moment(cdr["calldate"]),
        outbound=cdr["destination"] != "in",
        phone=_phone(cdr["user_id"] or 0),
        src=cdr["src"] or "anonymous",
        dst=cdr["dst"],
        agent=cdr["src_ua"] or cdr["dst_ua"] or "Switch",
        ring=0.4,
        answered=cdr["duration"] - cdr["billsec"] + 0.5 if cdr["billsec"] else None,
        ended=cdr["duration"] + 0.5,
    )


def of_msdr(msdr: Record) -> Dialogue:
    return Dialogue(
        call_id=msdr["call_id"],
        start=_moment(msdr["created_at"]),
        outbound=msdr["src_ua"] is not None,
        phone=_phone(msdr["user_id"]),
        src=msdr["src"] or "anonymous",
        dst=msdr["dst"],
        agent=msdr["src_ua"] or msdr["dst_ua"] or "Switch",
        ring=0.1,
        answered=0.3,
        ended=msdr["duration"] + 0.5,
    )


def of_call(call: Record) -> Dialogue:
    """A live call: it has not ended."""
    start = float(call["start_time"])
    connected = call["connected_at"]
    return Dialogue(
        call_id=f"{call['id']}@{SIP_DOMAIN}",
        start=datetime.fromtimestamp(start, UTC),
        outbound=call["destination"] != "in",
        phone=_phone(int(call["src_id"]) or int(call["dst_id"])),
        src=call["src"] or "anonymous",
        dst=call["dst"],
        agent=call["src_ua"] or call["dst_ua"] or "Switch",
        ring=0.4,
        answered=None if connected is None else max(0.5, connected - start),
        ended=None,
    )


def packets(told: Dialogue, *, sound: int = 0) -> list[Packet]:
    """The messages of a leg in order; with `sound`, so many pieces of speech after it was answered."""
    phone, switch = told.phone, SWITCH
    caller, callee = (phone, switch) if told.outbound else (switch, phone)
    sent: list[Packet] = []

    def say(
        at: float, sender: tuple[str, int], line: str, method: str, number: int, sdp: bool = False
    ) -> None:
        receiver = switch if sender == phone else phone
        text = _message(told, line, method, number, sender, sdp)
        sent.append(Packet(told.start + timedelta(seconds=at), sender, receiver, text.encode()))

    say(0.0, caller, f"INVITE sip:{told.dst}@{SIP_DOMAIN} SIP/2.0", "INVITE", 1, sdp=True)
    say(0.02, callee, "SIP/2.0 100 Trying", "INVITE", 1)
    say(told.ring, callee, "SIP/2.0 180 Ringing", "INVITE", 1)
    if told.answered is not None:
        say(told.answered, callee, "SIP/2.0 200 OK", "INVITE", 1, sdp=True)
        say(told.answered + 0.02, caller, f"ACK sip:{told.dst}@{SIP_DOMAIN} SIP/2.0", "ACK", 1)
        for n in range(sound):
            at = told.start + timedelta(seconds=told.answered + 0.1 + n * 0.02)
            sent.append(Packet(at, (phone[0], 16384), (switch[0], 20000), _speech(n), media=True))
    if told.ended is not None:
        end = max(told.ended, told.ring + 0.1, (told.answered or 0) + 0.2 + sound * 0.02)
        if told.answered is not None:
            say(end, caller, f"BYE sip:{told.dst}@{SIP_DOMAIN} SIP/2.0", "BYE", 2)
            say(end + 0.02, callee, "SIP/2.0 200 OK", "BYE", 2)
        else:
            say(end, caller, f"CANCEL sip:{told.dst}@{SIP_DOMAIN} SIP/2.0", "CANCEL", 1)
            say(end + 0.02, callee, "SIP/2.0 200 OK", "CANCEL", 1)
            say(end + 0.04, callee, "SIP/2.0 487 Request Terminated", "INVITE", 1)
            say(end + 0.06, caller, f"ACK sip:{told.dst}@{SIP_DOMAIN} SIP/2.0", "ACK", 1)
    return sent


def trace(told: Dialogue) -> str:
    """The messages as text, each below a line that says when it went from where to where."""
    blocks = []
    for packet in packets(told):
        (sender, sender_port), (receiver, receiver_port) = packet.sender, packet.receiver
        head = f"{packet.at:%Y-%m-%d %H:%M:%S.%f} {sender}:{sender_port} -> {receiver}:{receiver_port}"
        blocks.append(f"{head}\n\n{packet.payload.decode()}")
    return "\n".join(blocks)


def _message(told: Dialogue, line: str, method: str, number: int, sender: tuple[str, int], sdp: bool) -> str:
    body = ""
    if sdp:
        body = (
            f"v=0\r\no=- {number} {number} IN IP4 {sender[0]}\r\ns=call\r\nc=IN IP4 {sender[0]}\r\n"
            "t=0 0\r\nm=audio 16384 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\n"
        )
    branch = f"z9hG4bK{abs(hash_of(told.call_id + method)):08x}"
    lines = [
        line,
        f"Via: SIP/2.0/UDP {sender[0]}:{sender[1]};branch={branch}",
        "Max-Forwards: 70",
        f"From: <sip:{told.src}@{SIP_DOMAIN}>;tag=1",
        f"To: <sip:{told.dst}@{SIP_DOMAIN}>" + (";tag=2" if method != "INVITE" or "200" in line else ""),
        f"Call-ID: {told.call_id}",
        f"CSeq: {number} {method}",
        f"User-Agent: {told.agent}",
        *(("Content-Type: application/sdp",) if sdp else ()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines) + "\r\n\r\n" + body


def hash_of(text: str) -> int:
    """The same small number for the same text in every process."""
    found = 0
    for letter in text:
        found = (found * 31 + ord(letter)) & 0xFFFFFFFF
    return found


def _speech(n: int) -> bytes:
    """An RTP packet: 20 ms of silence in A-law."""
    head = bytes([0x80, 0x08]) + n.to_bytes(2, "big") + (n * 160).to_bytes(4, "big") + b"\x00\x00\x30\x39"
    return head + b"\xd5" * 160


def _phone(user_id: int) -> tuple[str, int]:
    return (f"192.0.2.{10 + user_id % 200}", 5060)


def _moment(stamp: str) -> datetime:
    found = clock.parse_stamp(stamp)
    assert found is not None
    return found
