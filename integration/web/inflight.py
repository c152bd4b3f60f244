"""Requests under way, counted, so that a stop can wait for them and for nothing else.

Granian's own draining also waits for connections that are merely open: the idle one of any browser, or one
whose header never ends, would delay a stop without end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from integration.core import clock


class InflightRequests:
    """The WSGI application `application`, with its requests counted from their call until their body has
    ended."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._changed = threading.Condition()
        self._count = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._changed:
            self._count += 1
        try:
            body = self._application(environ, start_response)
        except BaseException:
            self.finish_request()
            raise
        if isinstance(body, list):
            # Granian writes a list at once: wrapping would turn it into a stream.
            self.finish_request()
            return body
        return _CountedBody(body, self)

    def finish_request(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_until_idle(self, idle_seconds: float, timeout: float) -> bool:
        """Wait for `idle_seconds` on end with nothing under way; False if there are none `timeout` that
        time."""
        deadline = clock.monotonic() + timeout
        with self._changed:
            while True:
                remaining = deadline - clock.monotonic()
                if remaining <= 0 or not self._changed.wait_for(lambda: self._count == 0, remaining):
                    return False
                if not self._changed.wait_for(lambda: self._count != 0, idle_seconds):
                    return True


class _CountedBody:
    def __init__(self, body: Iterable[bytes], inflight: InflightRequests) -> None:
        self._body = body
        self._chunks = iter(body)
        self._inflight = inflight
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        """Called by the server at the end of the body, and when its reader went away (PEP 3333)."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._inflight.finish_request()
