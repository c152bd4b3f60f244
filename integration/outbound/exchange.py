"""Bytes to and from the platform: one host, no redirects, no proxies, a deadline for the whole exchange.

`requests` and urllib3 both time out per read, so that a server that sends one byte every few seconds holds
a caller for ever; and `requests` carries `X-Auth-Token` along when it follows a redirect to another host.
So the pool below knows one host only, follows nothing, reads no environment, and gives the socket, before
each read, no more time than the exchange has left.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import certifi
import urllib3

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, PlatformThrottled, PlatformUnreachable
from integration.outbound.connections import CHUNK, PlainPool, SecurePool, current_exchange

CONNECT_SECONDS = 5.0
JSON_LIMIT = 64 * 1024 * 1024
"""Bytes of one JSON answer, unpacked. A page that is larger is asked for again in smaller pages."""


@dataclass(frozen=True, slots=True)
class PlatformResponse:
    """What the platform said. `date` is its own clock (header `Date`), None where it sent none."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    date: datetime | None


@dataclass(slots=True)
class ResponseBody:
    """A body as it arrives. `length` is what Content-Length promises, None where it says nothing."""

    status: int
    headers: Mapping[str, str]
    length: int | None
    _response: urllib3.BaseHTTPResponse
    received: int = field(default=0)

    @property
    def has_known_end(self) -> bool:
        """Whether an early end would be noticed; else the body lasts as long as the connection does."""
        return self.length is not None or "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    @property
    def date(self) -> datetime | None:
        return parse_http_date(self.headers.get("Date"))

    def chunks(self, limit: int, *, unbuffered: bool = False) -> Iterator[bytes]:
        """The body in pieces, unpacked; `unbuffered` as soon as anything is there instead of by 64 KiB.
        Raises PlatformBroken beyond `limit` bytes or at an early end."""
        # A body without a length ends by its chunks, which only stream() tells from an early end.
        read_available = unbuffered and self.length is not None
        try:
            for chunk in (
                self._read_available()
                if read_available
                else self._response.stream(CHUNK, decode_content=True)
            ):
                self.received += len(chunk)
                if self.received > limit:
                    raise PlatformBroken(f"the answer is larger than {limit:,} bytes", status=self.status)
                yield chunk
        except urllib3.exceptions.HTTPError as error:
            raise _translate_error(error, self.status) from error

    def _read_available(self) -> Iterator[bytes]:
        while chunk := self._response.read1(CHUNK, decode_content=True):
            yield chunk


class Transport:
    """Connections to one host. Thread-safe; `connections` at most are kept open."""

    def __init__(self, base_url: str, connections: int) -> None:
        url_parts = urlsplit(base_url)
        if url_parts.scheme not in ("http", "https") or not url_parts.hostname:
            raise ValueError(f"base URL {base_url!r}")
        self._base_path = url_parts.path.rstrip("/")
        self._host = url_parts.hostname
        self._port = url_parts.port
        self._context = _make_tls_context() if url_parts.scheme == "https" else None
        self._pool = self._make_pool(connections)
        self._open_responses: set[urllib3.BaseHTTPResponse] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
        read_timeout: float | None = None,
    ) -> Iterator[ResponseBody]:
        """Send one request, once, to `target` (path and query below the base URL) and read its answer.

        The whole of it, body included, must end within `seconds`; `read_timeout` is how long no byte may come
        meanwhile, where that is less. Raises PlatformUnreachable for no
        answer, PlatformThrottled for unreadable headers, PlatformBroken for a body that ends early.
        """
        if not target.startswith("/"):
            raise ValueError(f"path {target!r} does not begin with a slash")
        if self._is_closed:
            raise PlatformUnreachable("Switchroom is stopping")
        # A connection kept open may be closed by the other side while the request is on its way. A GET can
        # be sent again; a POST can't, so whatever changes something gets a connection of its own.
        pool = self._pool if method in ("GET", "HEAD") else self._make_pool(1)
        read_timeout = min(read_timeout or seconds, seconds)
        current_exchange.deadline = clock.monotonic() + seconds
        current_exchange.read_timeout = read_timeout
        response: urllib3.BaseHTTPResponse | None = None
        try:
            response = self._send_request(pool, method, target, headers, body, seconds, read_timeout)
            with self._lock:
                self._open_responses.add(response)
            yield ResponseBody(response.status, response.headers, _parse_length(response.headers), response)
        except urllib3.exceptions.HTTPError as error:
            raise _translate_error(error, None) from error
        finally:
            if response is not None:
                with self._lock:
                    self._open_responses.discard(response)
                self._release(response)
            if pool is not self._pool:
                pool.close()

    def close(self) -> None:
        """Cut what is under way and refuse what comes. Safe to call twice."""
        self._is_closed = True
        with self._lock:
            open_responses = list(self._open_responses)
        for response in open_responses:
            try:
                response.shutdown()
            except (OSError, ValueError, RuntimeError):
                continue  # It ended by itself in the meantime.
        self._pool.close()

    def _send_request(
        self,
        pool: urllib3.HTTPConnectionPool,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
        read_timeout: float,
    ) -> urllib3.BaseHTTPResponse:
        """Send the request and read the answer's head."""
        timeout = urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=read_timeout)
        while True:
            current_exchange.is_new_connection = False
            try:
                return pool.urlopen(
                    method,
                    self._base_path + target,
                    body=body,
                    headers=dict(headers),
                    retries=False,
                    redirect=False,
                    assert_same_host=False,
                    timeout=timeout,
                    pool_timeout=seconds,  # type: ignore[arg-type]
                    preload_content=False,
                    decode_content=False,
                )
            except urllib3.exceptions.ProtocolError as error:
                # An old connection that the other side had closed meanwhile says nothing about the platform.
                is_stale = not current_exchange.is_new_connection and isinstance(
                    _find_cause(error), ConnectionError
                )
                if pool is not self._pool or not is_stale:
                    raise

    def _make_pool(self, connections: int) -> urllib3.HTTPConnectionPool:
        if self._context is None:
            return PlainPool(self._host, self._port, maxsize=connections, block=True)
        return SecurePool(self._host, self._port, maxsize=connections, block=True, ssl_context=self._context)

    @staticmethod
    def _release(response: urllib3.BaseHTTPResponse) -> None:
        """Give the connection back if its body was read to the end; else close it, the rest is never read."""
        is_unread = not isinstance(response, urllib3.HTTPResponse) or not response.isclosed()
        if is_unread and response.connection is not None:
            response.connection.close()
        response.release_conn()


def parse_http_date(value: str | None) -> datetime | None:
    """An HTTP date (RFC 9110 §5.6.7) in UTC; None for anything else."""
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _make_tls_context() -> ssl.SSLContext:
    """The system's trust (SSL_CERT_FILE and SSL_CERT_DIR honoured), or Mozilla's where there is none."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


def _parse_length(headers: Mapping[str, str]) -> int | None:
    value = headers.get("Content-Length", "")
    return int(value) if value.isdecimal() and len(value) < 16 else None


def _translate_error(error: urllib3.exceptions.HTTPError, status: int | None) -> PlatformError:
    """urllib3's error as one of ours. What is certain to be no answer is Unreachable; a cut one is Broken."""
    cause = _find_cause(error)
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return PlatformUnreachable("the platform's name can't be resolved; check platform.base_url and DNS")
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return PlatformUnreachable("the platform refuses connections; check platform.base_url")
    if isinstance(error, urllib3.exceptions.ReadTimeoutError | urllib3.exceptions.ConnectTimeoutError):
        missing = (
            "no connection" if isinstance(error, urllib3.exceptions.ConnectTimeoutError) else "no answer"
        )
        return PlatformUnreachable(f"the platform gave {missing} in time", status=status)
    if isinstance(cause, http.client.RemoteDisconnected):
        return PlatformUnreachable("the platform closed the connection without an answer")
    if isinstance(cause, http.client.IncompleteRead | urllib3.exceptions.IncompleteRead):
        return PlatformBroken("the platform's answer ended early", status=status)
    if isinstance(error, urllib3.exceptions.DecodeError):
        return PlatformBroken("the platform's answer can't be unpacked", status=status)
    if isinstance(cause, http.client.HTTPException) or isinstance(error, urllib3.exceptions.InvalidHeader):
        return PlatformThrottled(f"the platform's answer has unreadable headers ({type(cause).__name__})")
    if status is not None:
        return PlatformBroken(f"the platform's answer was cut ({cause or error})", status=status)
    if isinstance(error, urllib3.exceptions.SSLError) or isinstance(cause, ssl.SSLError):
        return PlatformUnreachable(f"no secure connection to the platform: {cause or error}")
    return PlatformUnreachable(f"the connection to the platform broke ({cause or error})")


def _find_cause(error: urllib3.exceptions.HTTPError) -> BaseException | None:
    """What urllib3 wrapped."""
    last_argument = error.args[-1] if error.args else None
    return last_argument if isinstance(last_argument, BaseException) else error.__cause__
