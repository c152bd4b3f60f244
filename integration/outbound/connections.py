"""Connections whose reads end with the exchange they belong to, and whose malformed headers show.

urllib3 and http.client give each read a time of its own; here a read gets what the whole exchange has left.
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
_MALFORMED = (
    FirstHeaderLineIsContinuationDefect,
    MissingHeaderBodySeparatorDefect,
    InvalidHeaderDefect,
)


class MalformedHeaders(http.client.HTTPException):
    """Header lines that can't be read; real clients met them as throttling (observed.md §5)."""


class _ExchangeState(threading.local):
    """What the response reader, deep inside http.client, must know of the request it answers."""

    deadline: float = float("inf")
    read_timeout: float = float("inf")
    """How long no byte may come."""
    is_new_connection: bool = False
    """Whether the connection was made for this very request, rather than kept open from another."""


current_exchange = _ExchangeState()
"""This thread's, set before a request is made; a body keeps what it began with."""


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
        remaining = self._deadline - clock.monotonic()
        if remaining <= 0:
            raise TimeoutError("the deadline of the whole request has passed")
        self._sock.settimeout(min(remaining, self._read_timeout))
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
        current_exchange.is_new_connection = True
        super().connect()


class _SecureConnection(HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        current_exchange.is_new_connection = True
        super().connect()


class PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
