"""Limits of request lines, and of threads that wait for slow clients.

Slow clients send a request body slowly, or read a response slowly. The server passes a request on when its
header is complete. Reading the body, and writing a response in pieces, occupy a thread for as long as the
client takes. Without a limit any client that can reach the login form could occupy all threads (promise P20).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from werkzeug.exceptions import ServiceUnavailable

from integration.core import clock
from integration.core.errors import error_body
from integration.settings.values import find_client_network
from integration.web.wsgi_bodies import ClosingBody, ObservedInput, close_body

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MAX_REQUEST_LINE_BYTES = 64_000
"""Bytes of a request line as sent, with method, encoded path, query and version.

The HTTP server itself responds 414 without a body if path and query have more than 65,534 bytes.
"""

BUFFERED_BYTES = 256 * 1024
"""Maximum bytes of a response that is passed on in one piece.

The server buffers it for a slow reader.
"""

SLOW_CLIENT_SECONDS = 30.0
"""Seconds that the bodies of a client may wait, in total, until the client counts as slow."""
SLOW_CLIENT_WINDOW = 600.0
"""Seconds after which the waiting time of a client is counted from 0."""
MIN_WAIT_SECONDS = 0.1
"""Minimum seconds of a wait that is counted. A busy client has many short ones."""
SLOW_CLIENT_SLOTS = 2
"""Slots for bodies of a slow client.

Seven addresses that reconnect at once could otherwise keep all slots.
"""

RETRY_SECONDS = 5
"""Value of Retry-After, in seconds, when the limit is reached."""
_BUSY_MESSAGE = f"The server is busy with slow requests. Try again in {RETRY_SECONDS} seconds."


_KEPT_HEADERS = ("access-control-", "vary")
"""Beginnings of the headers that a refusal keeps of the response that it replaces, in lower case."""


def find_line_error(environ: WSGIEnvironment) -> str | None:
    """Return the message for a request line that is too long, or None."""
    # Clients encode the path; the server decoded it.
    path = quote(environ["PATH_INFO"], safe="/:@!$&'()*+,;=~", encoding="latin-1")
    query = environ.get("QUERY_STRING", "")
    line_bytes = len(f"{environ['REQUEST_METHOD']} {path}{'?' if query else ''}{query} HTTP/1.1")
    if line_bytes <= MAX_REQUEST_LINE_BYTES:
        return None
    return (
        f"The request line has {line_bytes:,} bytes, more than the limit of {MAX_REQUEST_LINE_BYTES:,}."
        " Use fewer or shorter values, or several requests."
    )


class WaitingSlots:
    """Slots for at most `limit` concurrent waits.

    A client gets a slot while it has fewer than are free: one slow client gets half of all slots, the next
    one half of the rest. Two cannot block a third, as they could with half of all slots for each. A slow
    client gets at most `slow_client_limit`. Raises ServiceUnavailable (503) if the client gets no slot.
    """

    def __init__(self, limit: int, slow_client_limit: int) -> None:
        self._limit = limit
        self._slow_client_limit = slow_client_limit
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()
        self._waited: dict[str, tuple[float, float]] = {}
        """Start of the window, and seconds waited in it, by client."""

    def acquire(self, environ: WSGIEnvironment) -> Callable[[], None]:
        """Take a slot for the client of a request. Returns the function that releases the slot."""
        client = find_client_network(environ.get("REMOTE_ADDR", ""))
        now = clock.monotonic()
        with self._lock:
            share = self._limit - self._used.total()
            if self._is_slow(client, now):
                share = min(share, self._slow_client_limit)
            if self._used[client] >= share:
                raise ServiceUnavailable(_BUSY_MESSAGE, retry_after=RETRY_SECONDS)
            self._used[client] += 1
        return partial(self._release, client, now)

    def _is_slow(self, client: str, now: float) -> bool:
        began_at, seconds = self._waited.get(client, (now, 0.0))
        return seconds >= SLOW_CLIENT_SECONDS and now - began_at < SLOW_CLIENT_WINDOW

    def _release(self, client: str, acquired_at: float) -> None:
        now = clock.monotonic()
        with self._lock:
            self._used[client] -= 1
            if not self._used[client]:
                del self._used[client]
            if now - acquired_at >= MIN_WAIT_SECONDS:
                self._add_wait(client, acquired_at, now)

    def _add_wait(self, client: str, acquired_at: float, now: float) -> None:
        oldest = now - SLOW_CLIENT_WINDOW
        self._waited = {one: waited for one, waited in self._waited.items() if waited[0] > oldest}
        began_at, seconds = self._waited.get(client, (acquired_at, 0.0))
        self._waited[client] = began_at, seconds + now - acquired_at

    @contextmanager
    def slot(self, environ: WSGIEnvironment) -> Iterator[None]:
        release = self.acquire(environ)
        try:
            yield
        finally:
            release()


class RequestLimits:
    """WSGI middleware that limits slow request bodies and slow responses.

    At most `max_waiting` threads wait for bodies, and as many for readers.
    Beyond, reading a body raises ServiceUnavailable, and a large response is replaced by a 503.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], max_waiting: int) -> None:
        self._application = application
        self._request_slots = WaitingSlots(max_waiting, SLOW_CLIENT_SLOTS)
        # A large download takes long for honest clients too.
        self._response_slots = WaitingSlots(max_waiting, max_waiting)

    def __call__(self, environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Iterable[bytes]:
        # The client address is read with the body: headers of a trusted proxy may change it before.
        environ["wsgi.input"] = ObservedInput(
            environ["wsgi.input"], partial(self._request_slots.slot, environ)
        )
        start_arguments: list[Any] = []

        def capture_start(
            status: str, headers: list[tuple[str, str]], _error: Any = None
        ) -> Callable[..., None]:
            start_arguments[:] = [status, headers]
            return _reject_write

        body = self._application(environ, capture_start)
        headers = {name.lower(): value for name, value in start_arguments[1]}
        if isinstance(body, list | tuple) or headers.get("content-type", "").startswith("text/event-stream"):
            # Live streams have a separate limit (`live/stream.py`).
            start_response(*start_arguments)
            return body
        if (length := headers.get("content-length", "")).isdecimal() and int(length) <= BUFFERED_BYTES:
            try:
                content = b"".join(body)
            finally:
                close_body(body)
            start_response(*start_arguments)
            # A truncated body is sent as an iterator. The server then closes the connection, so the client
            # detects the truncation.
            return [content] if len(content) == int(length) else iter([content])
        try:
            release = self._response_slots.acquire(environ)
        except ServiceUnavailable:
            close_body(body)
            # Without the headers for scripts of other origins they could not read the status.
            kept = [
                (name, value) for name, value in start_arguments[1] if name.lower().startswith(_KEPT_HEADERS)
            ]
            refusal = [("Content-Type", "application/json"), ("Retry-After", str(RETRY_SECONDS))]
            start_response("503 Service Unavailable", [*kept, *refusal])
            return [orjson.dumps(error_body(_BUSY_MESSAGE))]
        start_response(*start_arguments)
        return ClosingBody(body, release)


def _reject_write(_data: bytes) -> None:
    raise NotImplementedError("Return the response body instead of calling write() (PEP 3333).")
