"""Connections and pools with the deadline of the exchange, and an error for malformed headers.

urllib3 and http.client apply one timeout to each step; here a step gets the time that the exchange has left.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
from email.errors import (
    FirstHeaderLineIsContinuationDefect,
    InvalidHeaderDefect,
    MissingHeaderBodySeparatorDefect,
)
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from integration.core import clock

CHUNK = 64 * 1024
REPEATABLE_METHODS = frozenset(("GET", "HEAD"))
"""Methods that change nothing, so that a request on a stale connection can be sent again."""
_MALFORMED = (
    FirstHeaderLineIsContinuationDefect,
    MissingHeaderBodySeparatorDefect,
    InvalidHeaderDefect,
)


class MalformedHeaders(http.client.HTTPException):
    """Header lines that can't be read; real clients met them as throttling.

    See docs/platform.md#15-rate-limits.
    """


class _ExchangeState(threading.local):
    """What the response reader, deep inside http.client, must know of the request it answers."""

    deadline: float = float("inf")
    read_timeout: float = float("inf")
    """How long no byte may come."""
    is_new_connection: bool = False
    """Whether the connection was made for this very request, rather than kept open from another."""

    def seconds_left(self) -> float:
        return _seconds_until(self.deadline)


current_exchange = _ExchangeState()
"""This thread's, set before a request is made; a body keeps what it began with."""


def _seconds_until(deadline: float) -> float:
    """Return the time to `deadline`. Raises TimeoutError when it has passed."""
    seconds = deadline - clock.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline of the whole request has passed")
    return seconds


class _DeadlineReader(io.RawIOBase):
    """A socket's reading end that gives each read only what is left until the exchange's deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = current_exchange.deadline
        self._read_timeout = current_exchange.read_timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(min(_seconds_until(self._deadline), self._read_timeout))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_DeadlineReader(raw, sock), CHUNK)

    def begin(self) -> None:
        super().begin()
        if any(isinstance(defect, _MALFORMED) for defect in self.msg.defects):
            raise MalformedHeaders("header lines that can't be read")


class _PlainConnection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        _prepare_connect(self)
        super().connect()


class _SecureConnection(HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        _prepare_connect(self)
        super().connect()


def _prepare_connect(connection: HTTPConnection) -> None:
    """Limit connect and TLS handshake: the wait for the pool may have used most of the time."""
    current_exchange.is_new_connection = True
    connection.timeout = min(connection.timeout or float("inf"), current_exchange.seconds_left())


class _DeadlinePool(urllib3.HTTPConnectionPool):
    """Pool whose callers wait for a connection no longer than the exchange lasts."""

    def urlopen(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:  # type: ignore[override]
        """Send a request; repeat a read on a stale connection.

        requests passes no `pool_timeout`, so a full pool would wait without a limit. Stale means that the
        server closed the idle connection, which is no sign of a failure.
        """
        try:
            while True:
                current_exchange.is_new_connection = False
                options["pool_timeout"] = current_exchange.seconds_left()
                try:
                    return super().urlopen(method, url, **options)
                except urllib3.exceptions.ProtocolError as error:
                    is_stale = not current_exchange.is_new_connection and isinstance(
                        find_cause(error), ConnectionError
                    )
                    if method not in REPEATABLE_METHODS or not is_stale:
                        raise
        finally:
            if method not in REPEATABLE_METHODS:
                # The pool of a single write: its connection is closed with the response instead of kept.
                self.close()


class PlainPool(_DeadlinePool):
    ConnectionCls = _PlainConnection


class SecurePool(_DeadlinePool, urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def find_cause(error: Exception) -> BaseException | None:
    """Return the error that urllib3 or requests wrapped."""
    last_argument = error.args[-1] if error.args else None
    return last_argument if isinstance(last_argument, BaseException) else error.__cause__
