"""HTTP exchanges with one host, under a deadline.

Redirects are not followed and no proxy is used. requests and urllib3 apply their timeout to each read, so a
server that sends one byte every few seconds would block a caller for ever. requests also sends `X-Auth-Token`
when it follows a redirect to another host. Therefore the session is limited to one host, follows no redirect,
reads no environment variable, and limits each read of the socket to the time left until the deadline.
"""

from __future__ import annotations

import http.client
import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from integration.core import clock
from integration.core.errors import (
    PlatformBroken,
    PlatformError,
    PlatformThrottled,
    PlatformUnreachable,
    UnusableBody,
)
from integration.outbound.adapter import PlatformSession, PoolAdapter
from integration.outbound.connections import CHUNK, Deadline, current_exchange, find_cause
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.tls import TlsFaultKind, find_tls_fault, make_context

CONNECT_SECONDS = 5.0
"""Seconds that a connect may take (connect timeout)."""
JSON_LIMIT = 64 * 1024 * 1024
"""Bytes of one decompressed JSON response.

A larger page is requested again as smaller pages.
"""

_UNREQUESTED_ENCODINGS = frozenset(("br", "zstd", "compress", "x-compress"))
"""Values of Content-Encoding that no request allows."""

_TLS_ADVICE: dict[TlsFaultKind, str] = {
    "authority": "if the platform has a private authority, set platform.ca_file to its certificate",
    "expired": "check the clock of this host; if it is right, the platform must renew its certificate",
    "early": "check the clock of this host",
    "name": "correct the host name in platform.base_url",
    "plain": "correct the port in platform.base_url, or begin it with http://",
    "other": "check platform.base_url and programs between this host and the platform that inspect TLS",
}
"""What to do about a fault of TLS at the platform."""


@dataclass(frozen=True, slots=True)
class PlatformResponse:
    """Response of the platform, with its complete body.

    `date` is the platform's clock in UTC (header `Date`), or None without a valid header.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    date: datetime | None


@dataclass(slots=True)
class ResponseBody:
    """Response whose body is still arriving.

    `length` is the Content-Length in bytes, or None without one. `received` counts decompressed bytes. A
    reader that waits before it reads on may move `deadline`.
    """

    status: int
    headers: Mapping[str, str]
    length: int | None
    _response: urllib3.BaseHTTPResponse
    received: int = field(default=0)
    deadline: Deadline = field(default_factory=Deadline)

    @property
    def has_known_end(self) -> bool:
        """True if an early end can be detected.

        Without Content-Length or chunks the body ends when the connection does.
        """
        return self.length is not None or "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    @property
    def date(self) -> datetime | None:
        return parse_http_date(self.headers.get("Date"))

    @property
    def is_json(self) -> bool:
        """True for a Content-Type of JSON, or without one."""
        return "json" in self.headers.get("Content-Type", "json").lower()

    @property
    def charset(self) -> str:
        """Charset of the Content-Type, '' without one."""
        return get_encoding_from_headers(CaseInsensitiveDict(self.headers)) or ""

    @property
    def headers_without_charset(self) -> Mapping[str, str]:
        """Headers of a JSON text that was converted to UTF-8."""
        return CaseInsensitiveDict({**self.headers, "Content-Type": "application/json"})

    def chunks(self, limit: int, *, unbuffered: bool = False) -> Iterator[bytes]:
        """Yield the decompressed body in chunks of at most 64 KiB.

        With `unbuffered`, yield each chunk as soon as any byte arrives. Raises PlatformBroken beyond `limit`
        bytes or if the body ends early, PlatformUnreachable after the deadline.
        """
        encoding = self.headers.get("Content-Encoding", "").strip().lower()
        if encoding in _UNREQUESTED_ENCODINGS:
            # Without its library urllib3 would return the compressed bytes.
            raise _make_body_error(
                f"the platform compressed its response with {encoding}, which was not requested", self.status
            )
        # Without a Content-Length the chunks mark the end, and only stream() detects an early end of chunks.
        read_available = unbuffered and self.length is not None
        try:
            for chunk in (
                self._read_available()
                if read_available
                else self._response.stream(CHUNK, decode_content=True)
            ):
                self.received += len(chunk)
                if self.received > limit:
                    raise PlatformBroken(f"the response is larger than {limit:,} bytes", status=self.status)
                yield chunk
        except urllib3.exceptions.HTTPError as error:
            raise _translate_error(error, self.status) from error

    def _read_available(self) -> Iterator[bytes]:
        while chunk := self._response.read1(CHUNK, decode_content=True):
            yield chunk


class Exchange:
    """HTTP client of one host.

    Thread-safe; opens at most `connections` connections for reads. With `public_hosts`, `send` raises
    AddressRefused for a host with an address that is refused. `ca_file` has the trusted authorities, instead
    of those of the system.
    """

    def __init__(
        self,
        base_url: str,
        connections: int,
        public_hosts: PublicHosts | None = None,
        *,
        ca_file: Path | None = None,
    ) -> None:
        split_url = urlsplit(base_url)
        if split_url.scheme not in ("http", "https") or not split_url.hostname:
            raise ValueError(f"invalid base URL {base_url!r}: use http:// or https:// and a host name")
        self._base_url = urlunsplit((*split_url[:2], split_url.path.rstrip("/"), "", ""))
        context = make_context(ca_file) if split_url.scheme == "https" else None
        self._session = PlatformSession(
            f"{self._base_url}/", PoolAdapter(self._base_url, context, connections, public_hosts)
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
        """Send one request and read its response.

        `target` is path and query below the base URL. `headers` are sent unchanged; with a file as `body`
        they must contain a Content-Length. The exchange with the response body must end within `seconds`. No
        read may wait longer than `read_timeout` seconds. Raises PlatformUnreachable without a response,
        PlatformThrottled for malformed headers and PlatformBroken for a body that ends early.
        """
        if not target.startswith("/"):
            raise ValueError(f"path {target!r} does not begin with a slash")
        if self._is_closed:
            raise PlatformUnreachable("Switchroom is stopping")
        read_timeout = min(read_timeout or seconds, seconds)
        deadline = current_exchange.deadline = Deadline(clock.monotonic() + seconds)
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
            # `close` ran while the headers arrived, so it has not aborted this response.
            _abort(response)
        try:
            yield ResponseBody(
                response.status_code,
                response.headers,
                _parse_length(response.headers),
                response.raw,
                deadline=deadline,
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
        """Build a request field by field.

        `PreparedRequest.prepare()` would convert `%41` of a path to `A` and add headers.
        """
        request = requests.PreparedRequest()
        request.method = method
        request.url = self._base_url + target
        request.headers = CaseInsensitiveDict(headers)
        request.body = body  # type: ignore[assignment]  # The stubs omit files.
        if isinstance(body, bytes):
            # Without a Content-Length, HTTPAdapter sends the body in chunks.
            request.headers["Content-Length"] = str(len(body))
        return request


def parse_http_date(value: str | None) -> datetime | None:
    """Parse an HTTP date (RFC 9110 §5.6.7) into UTC.

    Returns None for any other value.
    """
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _abort(response: requests.Response) -> None:
    """End each read of `response`, also a read in another thread."""
    try:
        response.raw.shutdown()
    except (OSError, ValueError, RuntimeError):
        return  # The response has already ended.


def _parse_length(headers: Mapping[str, str]) -> int | None:
    value = headers.get("Content-Length", "")
    return int(value) if value.isdecimal() and len(value) < 16 else None


def _unwrap_error(error: Exception) -> Exception:
    """Return the error of urllib3.

    With `Retry(False)`, requests wraps it once in some cases.
    """
    cause = find_cause(error)
    return cause if isinstance(error, requests.RequestException) and isinstance(cause, Exception) else error


def _translate_error(error: Exception, status: int | None) -> PlatformError:
    """Convert an error of requests or urllib3 to a PlatformError.

    `status` is None if no response header was received.
    """
    cause = find_cause(error) or error
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return PlatformUnreachable(
            "the host name of the platform cannot be resolved; check platform.base_url and DNS"
        )
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return PlatformUnreachable("the platform refuses connections; check platform.base_url")
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return PlatformUnreachable("the platform did not accept a connection in time", status=status)
    no_response = urllib3.exceptions.ReadTimeoutError | urllib3.exceptions.EmptyPoolError
    if isinstance(error, no_response) or isinstance(cause, TimeoutError):
        return PlatformUnreachable("the platform did not respond in time", status=status)
    if isinstance(cause, http.client.RemoteDisconnected):
        return PlatformUnreachable("the platform closed the connection without a response")
    if isinstance(cause, http.client.IncompleteRead | urllib3.exceptions.IncompleteRead):
        return _make_body_error("the response of the platform ended early", status)
    if isinstance(error, urllib3.exceptions.DecodeError):
        return _make_body_error("the response of the platform cannot be decompressed", status)
    if isinstance(cause, http.client.HTTPException) or isinstance(error, urllib3.exceptions.InvalidHeader):
        return PlatformThrottled(
            f"the response of the platform has malformed headers ({type(cause).__name__})"
        )
    if status is not None:
        return _make_body_error(f"the response of the platform was truncated ({cause})", status)
    fault = find_tls_fault(cause)
    if fault is not None:
        return PlatformUnreachable(
            f"no secure connection to the platform: {fault.finding}; {_TLS_ADVICE[fault.kind]}"
        )
    return PlatformUnreachable(f"the connection to the platform failed ({cause})")


def _make_body_error(message: str, status: int | None) -> PlatformBroken:
    is_success = status is not None and 200 <= status < 300
    return (UnusableBody if is_success else PlatformBroken)(message, status=status)
