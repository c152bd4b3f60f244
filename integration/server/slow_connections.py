"""Deadlines of connections whose clients send or read too slowly.

Granian closes idle connections and half-sent headers after 30 s. Granian has no deadline for a request body
or a response, its blocking read cannot be cancelled, and its WSGI environment lacks the client's port. So a
request cannot be assigned to its socket. This module measures the sockets instead, and shuts down slow ones:
the read of a request body then ends, as after a hang-up.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from integration.core import clock
from integration.core.consumer import Consumer
from integration.core.health import Health
from integration.web.inflight import InflightRequests

log = logging.getLogger(__name__)

STALL_SECONDS = 30.0
"""Maximum seconds in which a connection neither receives, sends nor acknowledges a byte."""
GRACE_SECONDS = 60.0
"""Seconds until BYTES_PER_SECOND is required. A reused connection was idle for up to 30 s of them."""
BYTES_PER_SECOND = 5_000
"""Minimum average of bytes received and acknowledged, while the server writes nothing.

A body of 256 KiB may take 112 s, one of 5 MB 18 min.
"""
UNREAD_SECONDS = 600.0
"""Maximum seconds in which a client reads nothing of a response, as those of an export (`exports/query`).

While a request body of the same address is waited for, STALL_SECONDS applies: the client could have requested
the response on the same connection, before the request with the body.
"""
CHECKS = 6
"""Checks in STALL_SECONDS."""

DISCARD_UNSENT = struct.pack("@ii", 1, 0)
"""`struct linger` with which a close resets the connection."""
_RECEIVED_AND_ACKNOWLEDGED = struct.Struct("@QQ")
_ACKNOWLEDGED_OFFSET = 120
_NOT_SENT = struct.Struct("@I")
_NOT_SENT_OFFSET = 144
_SENT_AND_RETRANSMITTED = struct.Struct("@QQ")
_SENT_OFFSET = 200
_TCP_INFO_BYTES = 216
"""Bytes of `struct tcp_info` in `linux/tcp.h` up to `tcpi_bytes_retrans` (Linux 4.19)."""


class Counts(NamedTuple):
    """Bytes of a connection since its start.

    `moved`: received, or acknowledged by the client. `written`: passed to the system by the server. `unread`:
    written, but not acknowledged.
    """

    moved: int
    written: int
    unread: int


@dataclass(slots=True)
class Progress:
    """Progress of a connection since the server last wrote to it."""

    counts: Counts
    began_at: float
    moved_at: float
    moved_before: int

    @classmethod
    def begin(cls, counts: Counts, now: float) -> Progress:
        return cls(counts, now, now, counts.moved)

    def is_too_slow(self, counts: Counts, now: float, has_late_body: bool) -> bool:
        """Store `counts` and return whether a deadline has passed.

        `has_late_body`: a request body of the same address has been waited for.
        """
        if counts.written != self.counts.written:
            self.began_at, self.moved_before = now, counts.moved
        if counts != self.counts:
            self.counts, self.moved_at = counts, now
        if counts.unread and not has_late_body:
            return now - self.moved_at >= UNREAD_SECONDS
        required = BYTES_PER_SECOND * (now - self.began_at - GRACE_SECONDS)
        return now - self.moved_at >= STALL_SECONDS or counts.moved - self.moved_before < required


class SlowConnections:
    """Shuts down connections of the server's `port` that are too slow.

    A connection is kept while a request from the same address is computed, because it may be its connection.
    """

    def __init__(self, port: int, inflight: InflightRequests) -> None:
        self._port = port
        self._inflight = inflight
        self._progress: dict[int, Progress] = {}
        """Progress by inode of the socket."""

    def make_consumer(self, health: Health) -> Consumer:
        """Return the thread that checks the connections CHECKS times in STALL_SECONDS."""
        return Consumer("slow connections", self.check, health, check_every=STALL_SECONDS / CHECKS)

    def check(self) -> None:
        """Shut down the connections whose deadline has passed. Raises OSError."""
        now, closed = clock.monotonic(), 0
        # A request can wait for a thread before it is computed.
        busy_addresses = self._inflight.find_addresses(STALL_SECONDS / 3, is_reading=False)
        late_addresses = self._inflight.find_addresses(STALL_SECONDS / 3, is_reading=True)
        previous, self._progress = self._progress, {}
        for descriptor in os.listdir("/proc/self/fd"):
            connection = _duplicate_socket(int(descriptor))
            if connection is None:
                continue
            with connection:
                try:
                    closed += self._check_connection(
                        connection, previous, busy_addresses, late_addresses, now
                    )
                except OSError:
                    continue  # The connection has ended, or the socket listens.
        if closed:
            log.info("closed %d connections of slow clients", closed)

    def _check_connection(
        self,
        connection: socket.socket,
        previous: dict[int, Progress],
        busy_addresses: Collection[str],
        late_addresses: Collection[str],
        now: float,
    ) -> bool:
        """Return whether the connection was shut down."""
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if connection.getsockname()[1] != self._port:
            return False
        address = connection.getpeername()[0].partition("%")[0]
        inode = os.fstat(connection.fileno()).st_ino
        counts = _read_counts(connection)
        progress = self._progress[inode] = previous.get(inode) or Progress.begin(counts, now)
        if not progress.is_too_slow(counts, now, address in late_addresses) or address in busy_addresses:
            return False
        # Bytes that the client does not read would otherwise occupy memory after the close.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARD_UNSENT)
        connection.shutdown(socket.SHUT_RDWR)
        return True


def _duplicate_socket(descriptor: int) -> socket.socket | None:
    """Return a duplicate of the descriptor if it is a socket, otherwise None.

    Another thread can close the descriptor at any time, and the system then reuses its number.
    """
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        duplicate = os.dup(descriptor)
    except OSError:
        return None
    if not stat.S_ISSOCK(os.fstat(duplicate).st_mode):
        # The number was reused. The duplicate stays open: closing one of a database file would drop the locks
        # of all connections to the database (POSIX).
        log.warning("descriptor %d is no longer a socket", descriptor)
        return None
    return socket.socket(fileno=duplicate)


def _read_counts(connection: socket.socket) -> Counts:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    acknowledged, received = _RECEIVED_AND_ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_OFFSET)
    sent, retransmitted = _SENT_AND_RETRANSMITTED.unpack_from(info, _SENT_OFFSET)
    (not_sent,) = _NOT_SENT.unpack_from(info, _NOT_SENT_OFFSET)
    written = sent - retransmitted + not_sent
    return Counts(acknowledged + received, written, written - acknowledged)
