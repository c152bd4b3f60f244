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
from integration.server import BLOCKING_THREADS

MOST = BLOCKING_THREADS // 5
"""Bodies that are waited for at once, and answers; with the live streams' half that leaves a few."""

MOST_OF_ONE = MOST // 2
"""Of these, of one address: one slow client keeps no other out."""

WHOLE = 256 * 1024
"""Bytes up to which an answer is handed to the server at once, which keeps it for a slow reader."""

RETRY_SECONDS = 5
_LATER = "Too many are being waited for; ask again in a moment."


class Places:
    """What threads may wait for at once. Raises ServiceUnavailable (503) for one too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def enter(self, address: str) -> None:
        with self._lock:
            if self._taken[address] >= MOST_OF_ONE or self._taken.total() >= MOST:
                raise ServiceUnavailable(_LATER, retry_after=RETRY_SECONDS)
            self._taken[address] += 1

    def leave(self, address: str) -> None:
        with self._lock:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        self.enter(address)
        try:
            yield
        finally:
            self.leave(address)


class Bodies:
    """The WSGI application `inner`. Reading one body too many raises ServiceUnavailable in it; one big answer
    too many is replaced by a 503."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner
        self._coming, self._going = Places(), Places()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"] = _Coming(environ["wsgi.input"], environ, self._coming)
        told: list[Any] = []

        def heard(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[..., None]:
            told[:] = [status, headers]
            return _unwritten

        body = self._inner(environ, heard)
        headers = {name.lower(): value for name, value in told[1]}
        if isinstance(body, list | tuple) or headers.get("content-type", "").startswith("text/event-stream"):
            # Live streams have a bound of their own.
            start_response(*told)
            return body
        if (length := headers.get("content-length", "")).isdecimal() and int(length) <= WHOLE:
            try:
                whole = b"".join(body)
            finally:
                _close(body)
            start_response(*told)
            # One that ended early is sent bit by bit: then the server cuts the connection, so that it shows.
            return [whole] if len(whole) == int(length) else iter([whole])
        address = environ.get("REMOTE_ADDR", "")
        try:
            self._going.enter(address)
        except ServiceUnavailable:
            _close(body)
            start_response(
                "503 Service Unavailable",
                [("Content-Type", "application/json"), ("Retry-After", str(RETRY_SECONDS))],
            )
            return [orjson.dumps(error_body(_LATER))]
        start_response(*told)
        return _Going(body, lambda: self._going.leave(address))


class _Coming:
    """`wsgi.input`. The address is asked when it is read: a trusted proxy's word may have changed it."""

    def __init__(self, body: Any, environ: dict[str, Any], places: Places) -> None:
        self._body = body
        self._environ = environ
        self._places = places

    def read(self, size: int = -1) -> bytes:
        with self._places.place(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.read(size))

    def readline(self, size: int = -1) -> bytes:
        with self._places.place(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.readline(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


class _Going:
    """An answer bit by bit; its place is free once the server closes it (PEP 3333)."""

    def __init__(self, body: Iterable[bytes], leave: Callable[[], None]) -> None:
        self._body = body
        self._parts = iter(body)
        self._leave: Callable[[], None] | None = leave

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._parts)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            try:
                _close(self._body)
            finally:
                leave()


def _close(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()


def _unwritten(_data: bytes) -> None:
    raise NotImplementedError("answers are returned, not written (PEP 3333)")
