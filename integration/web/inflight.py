"""Requests under way, counted, so that a stop can wait for them and for nothing else.

Granian's own draining also waits for connections that are merely open: the idle one of any browser, or one
whose header never ends, would delay a stop without end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from integration.core import clock


class Drain:
    """The WSGI application `inner`, with its requests counted from their call until their body has ended."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner
        self._changed = threading.Condition()
        self._under_way = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._changed:
            self._under_way += 1
        try:
            body = self._inner(environ, start_response)
        except BaseException:
            self.leave()
            raise
        if isinstance(body, list):
            # Granian writes a list at once: wrapping would turn it into a stream.
            self.leave()
            return body
        return _Body(body, self)

    def leave(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def quiet(self, seconds: float, within: float) -> bool:
        """Wait for `seconds` on end with nothing under way; False if there are none `within` that time."""
        deadline = clock.monotonic() + within
        with self._changed:
            while True:
                left = deadline - clock.monotonic()
                if left <= 0 or not self._changed.wait_for(lambda: self._under_way == 0, left):
                    return False
                if not self._changed.wait_for(lambda: self._under_way != 0, seconds):
                    return True


class _Body:
    def __init__(self, body: Iterable[bytes], drain: Drain) -> None:
        self._body = body
        self._parts = iter(body)
        self._drain = drain
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._parts)

    def close(self) -> None:
        """Called by the server at the end of the body, and when its reader went away (PEP 3333)."""
        if self._ended:
            return
        self._ended = True
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._drain.leave()
