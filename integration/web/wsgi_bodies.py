"""Request and response bodies of the WSGI middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any


class ObservedInput:
    """`wsgi.input` that is read inside of the context `reading()`."""

    def __init__(self, body: Any, reading: Callable[[], AbstractContextManager[None]]) -> None:
        self._body = body
        self._reading = reading

    def read(self, size: int = -1) -> bytes:
        with self._reading():
            return bytes(self._body.read(size))

    def readline(self, size: int = -1) -> bytes:
        with self._reading():
            return bytes(self._body.readline(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


class ClosingBody:
    """Response body in pieces that calls `on_close` once.

    The server closes it after the body, or if the client disconnects (PEP 3333).
    """

    def __init__(self, body: Iterable[bytes], on_close: Callable[[], None]) -> None:
        self._body = body
        self._chunks = iter(body)
        self._on_close = on_close
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            close_body(self._body)
        finally:
            self._on_close()


def close_body(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()
