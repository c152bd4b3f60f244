"""Requests whose bodies don't come: a bounded number of threads waits for them, so that others are answered.

The server hands over a request when its header has come, and reading the body holds a thread for as long as
the sender likes. Without a bound whoever can reach the login form could hold them all (promise P20).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.exceptions import ServiceUnavailable

from integration.processes import BLOCKING_THREADS

MOST = BLOCKING_THREADS // 4
"""Bodies that are waited for at once."""

MOST_OF_ONE = MOST // 4
"""Of these, of one address: one slow client keeps no other from logging in."""

RETRY_SECONDS = 5


class Bodies:
    """The WSGI application `inner`. Reading one body too many raises ServiceUnavailable (503) in it."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"] = _Body(environ["wsgi.input"], environ, self)
        return self._inner(environ, start_response)

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Wait for a body within this block."""
        with self._lock:
            if self._waiting[address] >= MOST_OF_ONE or self._waiting.total() >= MOST:
                raise ServiceUnavailable(
                    "Too many requests are being waited for; send it again.", retry_after=RETRY_SECONDS
                )
            self._waiting[address] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[address] -= 1
                if not self._waiting[address]:
                    del self._waiting[address]


class _Body:
    """`wsgi.input`. The address is asked when it is read: a trusted proxy's word may have changed it."""

    def __init__(self, body: Any, environ: dict[str, Any], bodies: Bodies) -> None:
        self._body = body
        self._environ = environ
        self._bodies = bodies

    def read(self, size: int = -1) -> bytes:
        with self._bodies.place(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.read(size))

    def readline(self, size: int = -1) -> bytes:
        with self._bodies.place(self._environ.get("REMOTE_ADDR", "")):
            return bytes(self._body.readline(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")
