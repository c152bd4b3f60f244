"""HTTP exchanges with one host: no redirects, no proxies, a deadline for the entire exchange.

requests and urllib3 time out per read, so that a server that sends one byte every few seconds blocks a caller
for ever; and requests sends `X-Auth-Token` along when it follows a redirect to another host. So the session
knows one host, follows nothing, reads no environment, and gives the socket, before each read, no more time
than the exchange has left.
"""

from __future__ import annotations

import http.client
import io
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import certifi
import requests
import urllib3
from requests.structures import CaseInsensitiveDict

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, PlatformThrottled, PlatformUnreachable
from integration.outbound.adapter import PlatformSession, PoolAdapter
from integration.outbound.connections import CHUNK, current_exchange, find_cause

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


class HttpExchange(Protocol):
    """Interface of `Exchange`, for a replacement that sends nothing."""

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | io.RawIOBase | None,
        seconds: float,
        read_timeout: float | None = None,
    ) -> AbstractContextManager[ResponseBody]: ...

    def close(self) -> None: ...


class Exchange:
    """HTTP requests to one host. Thread-safe; at most `connections` are kept open."""

    def __init__(self, base_url: str, connections: int) -> None:
        url_parts = urlsplit(base_url)
        if url_parts.scheme not in ("http", "https") or not url_parts.hostname:
            raise ValueError(f"base URL {base_url!r}")
        self._base_url = urlunsplit((*url_parts[:2], url_parts.path.rstrip("/"), "", ""))
        context = _make_tls_context() if url_parts.scheme == "https" else None
        self._session = PlatformSession(
            f"{self._base_url}/", PoolAdapter(self._base_url, context, connections)
        )
        self._open_responses: set[requests.Response] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | io.RawIOBase | None,
        seconds: float,
        read_timeout: float | None = None,
    ) -> Iterator[ResponseBody]:
        """Send one request to `target` (path and query below the base URL) and read its response.

        `headers` are sent as given; a file as `body` needs a Content-Length there. The exchange, response
        body included, must end within `seconds`, and no read may wait longer than `read_timeout`. Raises
        PlatformUnreachable for no response, PlatformThrottled for unreadable headers, PlatformBroken for a
        body that ends early.
        """
        if not target.startswith("/"):
            raise ValueError(f"path {target!r} does not begin with a slash")
        if self._is_closed:
            raise PlatformUnreachable("Switchroom is stopping")
        read_timeout = min(read_timeout or seconds, seconds)
        current_exchange.deadline = clock.monotonic() + seconds
        current_exchange.read_timeout = read_timeout
        try:
            response = self._session.send(
                self._build_request(method, target, headers, body),
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_SECONDS, seconds), read_timeout),
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            cause = _unwrap_error(error)
            raise _translate_error(cause, None) from cause
        with self._lock:
            self._open_responses.add(response)
        if self._is_closed:
            # `close` ran while the headers were being received and did not see this response.
            _abort(response)
        try:
            yield ResponseBody(
                response.status_code, response.headers, _parse_length(response.headers), response.raw
            )
        finally:
            with self._lock:
                self._open_responses.discard(response)
            # Closes the connection too if the body was not read to its end.
            response.close()

    def close(self) -> None:
        """Abort open responses and refuse new requests. Safe to call twice."""
        self._is_closed = True
        with self._lock:
            open_responses = list(self._open_responses)
        for response in open_responses:
            _abort(response)
        self._session.close()

    def _build_request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | io.RawIOBase | None
    ) -> requests.PreparedRequest:
        """Fill in a request; `prepare()` would convert `%41` of a path to `A` and add headers."""
        request = requests.PreparedRequest()
        request.method = method
        request.url = self._base_url + target
        request.headers = CaseInsensitiveDict(headers)
        request.body = body  # type: ignore[assignment]  # The stubs omit files.
        if isinstance(body, bytes):
            # Without a length the adapter sends a body in chunks.
            request.headers["Content-Length"] = str(len(body))
        return request


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


def _abort(response: requests.Response) -> None:
    """End every read of this response, in whatever thread."""
    try:
        response.raw.shutdown()
    except (OSError, ValueError, RuntimeError):
        return  # The response ended in the meantime.


def _parse_length(headers: Mapping[str, str]) -> int | None:
    value = headers.get("Content-Length", "")
    return int(value) if value.isdecimal() and len(value) < 16 else None


def _unwrap_error(error: Exception) -> Exception:
    """Return urllib3's error, which arrives as it is or, with Retry(False), wrapped once by requests."""
    cause = find_cause(error)
    return cause if isinstance(error, requests.RequestException) and isinstance(cause, Exception) else error


def _translate_error(error: Exception, status: int | None) -> PlatformError:
    """Return an error of requests or urllib3 as a PlatformError."""
    cause = find_cause(error) or error
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return PlatformUnreachable("the platform's name can't be resolved; check platform.base_url and DNS")
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return PlatformUnreachable("the platform refuses connections; check platform.base_url")
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return PlatformUnreachable("the platform gave no connection in time", status=status)
    no_answer = urllib3.exceptions.ReadTimeoutError | urllib3.exceptions.EmptyPoolError
    if isinstance(error, no_answer) or isinstance(cause, TimeoutError):
        return PlatformUnreachable("the platform gave no answer in time", status=status)
    if isinstance(cause, http.client.RemoteDisconnected):
        return PlatformUnreachable("the platform closed the connection without an answer")
    if isinstance(cause, http.client.IncompleteRead | urllib3.exceptions.IncompleteRead):
        return PlatformBroken("the platform's answer ended early", status=status)
    if isinstance(error, urllib3.exceptions.DecodeError):
        return PlatformBroken("the platform's answer can't be unpacked", status=status)
    if isinstance(cause, http.client.HTTPException) or isinstance(error, urllib3.exceptions.InvalidHeader):
        return PlatformThrottled(f"the platform's answer has unreadable headers ({type(cause).__name__})")
    if status is not None:
        return PlatformBroken(f"the platform's answer was cut ({cause})", status=status)
    if isinstance(error, urllib3.exceptions.SSLError) or isinstance(cause, ssl.SSLError):
        return PlatformUnreachable(f"no secure connection to the platform: {cause}")
    return PlatformUnreachable(f"the connection to the platform broke ({cause})")
