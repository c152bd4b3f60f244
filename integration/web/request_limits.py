"""Requests whose bodies don't come and answers that nobody takes: a bounded number of threads waits for them.

The server hands over a request when its header has come; reading its body, and writing an answer bit by bit,
hold a thread for as long as the other side likes. Without a bound whoever can reach the login form could hold
them all (promise P20).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from werkzeug.exceptions import ServiceUnavailable

from integration.core.errors import error_body

BUFFERED_BYTES = 256 * 1024
"""Bytes up to which an answer is handed to the server at once, which keeps it for a slow reader."""

RETRY_SECONDS = 5
_BUSY_MESSAGE = "Too many are being waited for; ask again in a moment."


class WaitingSlots:
    """At most `limit` waits at once, half of them for one address: one slow client keeps no other out.

    Raises ServiceUnavailable (503) for one too many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limit_per_address = (limit + 1) // 2
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()

    def acquire(self, address: str) -> None:
        with self._lock:
            if self._used[address] >= self._limit_per_address or self._used.total() >= self._limit:
                raise ServiceUnavailable(_BUSY_MESSAGE, retry_after=RETRY_SECONDS)
            self._used[address] += 1

    def release(self, address: str) -> None:
        with self._lock:
            self._used[address] -= 1
            if not self._used[address]:
                del self._used[address]

    @contextmanager
    def slot(self, address: str) -> Iterator[None]:
        self.acquire(address)
        try:
            yield
        finally:
            self.release(address)


class RequestLimits:
    """The WSGI application `application` with at most `max_waiting` slow request bodies and slow responses.

    Reading one body too many raises ServiceUnavailable; one large response too many is replaced by a 503.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], max_waiting: int) -> None:
        self._application = application
        self._request_slots, self._response_slots = WaitingSlots(max_waiting), WaitingSlots(max_waiting)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"] = _LimitedInput(environ["wsgi.input"], environ, self._request_slots)
        start_arguments: list[Any] = []

        def capture_start(
            status: str, headers: list[tuple[str, str]], _error: Any = None
        ) -> Callable[..., None]:
            start_arguments[:] = [status, headers]
            return _reject_write

        body = self._application(environ, capture_start)
        headers = {name.lower(): value for name, value in start_arguments[1]}
        if isinstance(body, list | tuple) or headers.get("content-type", "").startswith("text/event-stream"):
            # Live streams have a bound of their own.
            start_response(*start_arguments)
            return body
        if (length := headers.get("content-length", "")).isdecimal() and int(length) <= BUFFERED_BYTES:
            try:
                content = b"".join(body)
            finally:
                _close_body(body)
            start_response(*start_arguments)
            # One that ended early is sent bit by bit: then the server cuts the connection, so that it shows.
            return [content] if len(content) == int(length) else iter([content])
        address = environ.get("REMOTE_ADDR", "")
        try:
            self._response_slots.acquire(address)
        except ServiceUnavailable:
            _close_body(body)
            start_response(
                "503 Service Unavailable",
                [("Content-Type", "application/json"), ("Retry-After", str(RETRY_SECONDS))],
            )
            return [orjson.dumps(error_body(_BUSY_MESSAGE))]
        start_response(*start_arguments)
        return _LimitedBody(body, lambda: self._response_slots.release(address))


class _LimitedInput:
    """`wsgi.input`. The address is asked when it is read: a trusted proxy's word may have changed it."""

    def __init__(self, body: Any, environ: dict[str, Any], slots: WaitingSlots) -> None:
        self._body = body
        self._environ = environ
        self._slots = slots

    def read(self, size: int = -1) -> bytes:
        with self._slots.slot(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.read(size))

    def readline(self, size: int = -1) -> bytes:
        with self._slots.slot(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.readline(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


class _LimitedBody:
    """An answer bit by bit; its place is free once the server closes it (PEP 3333)."""

    def __init__(self, body: Iterable[bytes], release: Callable[[], None]) -> None:
        self._body = body
        self._chunks = iter(body)
        self._release: Callable[[], None] | None = release

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            try:
                _close_body(self._body)
            finally:
                release()


def _close_body(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()


def _reject_write(_data: bytes) -> None:
    raise NotImplementedError("answers are returned, not written (PEP 3333)")
