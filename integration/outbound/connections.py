"""Connections and pools limited by the deadline of the exchange.

urllib3 and http.client apply the same timeout to each step. Here each step gets the time left until the
deadline. Malformed headers raise an error.
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
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from integration.core import clock
from integration.outbound.public_addresses import PublicHosts

CHUNK = 64 * 1024
"""Bytes of one read from a socket."""
REPEATABLE_METHODS = frozenset(("GET", "HEAD"))
"""Methods that change nothing.

A request with such a method can be repeated after it failed on a stale connection.
"""
_MALFORMED = (
    FirstHeaderLineIsContinuationDefect,
    MissingHeaderBodySeparatorDefect,
    InvalidHeaderDefect,
)


class MalformedHeaders(http.client.HTTPException):
    """Malformed header lines, which the platform sends when it throttles.

    See docs/platform.md#15-rate-limits.
    """


class Deadline:
    """End of an exchange: the monotonic time `ends_at`, in seconds."""

    def __init__(self, ends_at: float = float("inf")) -> None:
        self.ends_at = ends_at

    def seconds_left(self) -> float:
        """Return the seconds until the deadline. Raises TimeoutError after it."""
        seconds = self.ends_at - clock.monotonic()
        if seconds <= 0:
            raise TimeoutError("the deadline of the exchange has passed")
        return seconds


class _ExchangeState(threading.local):
    """State of the current exchange, for code that http.client calls without arguments."""

    deadline: Deadline = Deadline()
    read_timeout: float = float("inf")
    """Maximum seconds that one read may wait for a byte."""
    is_new_connection: bool = False
    """True if the connection was opened for this request instead of reused."""


current_exchange = _ExchangeState()
"""State of this thread's exchange, set before each request.

A response body keeps the values of its request.
"""


class _DeadlineReader(io.RawIOBase):
    """Socket reader whose timeouts end at the deadline of the exchange."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = current_exchange.deadline
        self._read_timeout = current_exchange.read_timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(min(self._deadline.seconds_left(), self._read_timeout))
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
            raise MalformedHeaders("the response has malformed header lines")


class _CheckedConnection(HTTPConnection):
    """Connection to an address that `public_hosts` allows.

    Without `public_hosts` any address is allowed.
    urllib3 resolves the name while it connects. A check of another lookup before would not hold: a name
    server can return a public address to the first lookup and an internal one to the second.
    """

    def __init__(self, *args: Any, public_hosts: PublicHosts | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._public_hosts = public_hosts

    def connect(self) -> None:
        _prepare_connect(self)
        if self._public_hosts is None:
            super().connect()
            return
        name = self.host
        try:
            addresses = self._public_hosts.resolve(name, self.port)
        except socket.gaierror as error:
            raise NameResolutionError(name, self, error) from error
        failure: NewConnectionError | ConnectTimeoutError | None = None
        for address in addresses:
            self.host = address
            try:
                super().connect()
            except (NewConnectionError, ConnectTimeoutError) as error:
                failure = error
            else:
                return
            finally:
                # The header `Host` has the name.
                self.host = name
        raise failure or NewConnectionError(self, f"{name} has no address")


class _PlainConnection(_CheckedConnection):
    response_class = _Response


class _SecureConnection(_CheckedConnection, HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        # The certificate is checked against the name, not the address.
        self.server_hostname = self.host
        super().connect()


def _prepare_connect(connection: HTTPConnection) -> None:
    """Limit connect and TLS handshake to the time left.

    The wait for a free connection of the pool may have used most of it.
    """
    current_exchange.is_new_connection = True
    connection.timeout = min(connection.timeout or float("inf"), current_exchange.deadline.seconds_left())


class _DeadlinePool(urllib3.HTTPConnectionPool):
    """Connection pool whose waits are limited by the deadline.

    Callers wait for a connection at most until the deadline of their exchange.
    """

    def urlopen(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:  # type: ignore[override]
        """Send a request; repeat a read on a stale connection.

        requests passes no `pool_timeout`, so the wait for a full pool would have no limit. A connection is
        stale if the server closed it while it was idle, which does not indicate a failure.
        """
        try:
            while True:
                current_exchange.is_new_connection = False
                options["pool_timeout"] = current_exchange.deadline.seconds_left()
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
                # This pool serves a single write: its connection is closed with the response, not kept.
                self.close()


class PlainPool(_DeadlinePool):
    ConnectionCls = _PlainConnection


class SecurePool(_DeadlinePool, urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def find_cause(error: Exception) -> BaseException | None:
    """Return the error that urllib3 or requests wrapped."""
    last_argument = error.args[-1] if error.args else None
    return last_argument if isinstance(last_argument, BaseException) else error.__cause__
