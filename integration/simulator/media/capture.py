"""Capture files: libpcap format 2.4, Ethernet, IPv4, UDP, with the check sums that they should have."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from integration.simulator.media.sip import Packet

_PHONE_MAC = bytes.fromhex("020000000001")
_SWITCH_MAC = bytes.fromhex("020000000002")


def make_pcap(packets: Iterable[Packet]) -> bytes:
    """A capture of `packets`, big-endian, with microseconds."""
    chunks = [struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for number, packet in enumerate(packets, 1):
        frame = _make_frame(packet, number)
        seconds, microseconds = int(packet.sent_at.timestamp()), packet.sent_at.microsecond
        chunks.append(struct.pack(">IIII", seconds, microseconds, len(frame), len(frame)) + frame)
    return b"".join(chunks)


def _make_frame(packet: Packet, number: int) -> bytes:
    sender, receiver = socket.inet_aton(packet.sender[0]), socket.inet_aton(packet.receiver[0])
    length = 8 + len(packet.payload)
    udp = struct.pack(">HHHH", packet.sender[1], packet.receiver[1], length, 0)
    pseudo_header = sender + receiver + struct.pack(">BBH", 0, 17, length)
    # A sum of nought is written as all ones: nought means that there is none (RFC 768).
    udp = udp[:6] + struct.pack(">H", compute_checksum(pseudo_header + udp + packet.payload) or 0xFFFF)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, number & 0xFFFF, 0, 64, 17, 0) + sender + receiver
    ip = ip[:10] + struct.pack(">H", compute_checksum(ip)) + ip[12:]
    addresses = (
        (_PHONE_MAC, _SWITCH_MAC) if packet.sender[0].startswith("198.51.") else (_SWITCH_MAC, _PHONE_MAC)
    )
    return b"".join(addresses) + b"\x08\x00" + ip + udp + packet.payload


def compute_checksum(data: bytes) -> int:
    """The Internet check sum (RFC 1071); nought over data that holds its own right one."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
