"""Requests during the start of a worker: webhooks are stored first, all other requests wait for the product.

A start takes a second or two; a migration, or the copy of the databases before it, can take minutes. Without
a response a sender of webhooks waits until it gives up.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from integration.core import clock
from integration.core.errors import error_body
from integration.web.inflight import BLOCKING_THREADS

log = logging.getLogger(__name__)

Application = Callable[..., Iterable[bytes]]

PATIENCE_SECONDS = 5.0
"""Seconds of a start in which requests wait, as long as for a locked database (promise P16)."""
RETRY_SECONDS = 5
"""Seconds after which a client sends its request again."""
MAX_WAITING = BLOCKING_THREADS // 2
"""Requests that wait at the same time. The other threads are for webhooks."""

BODY = json.dumps(
    error_body(f"Switchroom is starting. Send the request again in {RETRY_SECONDS} seconds.")
).encode()


class StartRequests:
    """WSGI application of a worker from its first moment.

    `receiver` gets webhooks as soon as it is set, `application` then gets all requests.
    """

    def __init__(self) -> None:
        self._began = clock.monotonic()
        self._changed = threading.Condition()
        self._places = threading.Semaphore(MAX_WAITING)
        self._receiver: Application | None = None
        self._prefix = ""
        self._application: Application | None = None

    def open_receiver(self, prefix: str, receiver: Application) -> None:
        """Let `receiver` answer the requests below the path `prefix`."""
        with self._changed:
            self._prefix, self._receiver = prefix, receiver
            self._changed.notify_all()

    def open_all(self, application: Application) -> None:
        with self._changed:
            self._application = application
            self._changed.notify_all()
        seconds = clock.monotonic() - self._began
        if seconds > PATIENCE_SECONDS:
            log.info("the start of the worker took %.1f s; other requests than webhooks got 503", seconds)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        application = self._application or self._wait(environ["PATH_INFO"])
        if application is not None:
            return application(environ, start_response)
        start_response(
            "503 Service Unavailable",
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(BODY))),
                ("Retry-After", str(RETRY_SECONDS)),
                ("Cache-Control", "no-store"),
            ],
        )
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [BODY]

    def _wait(self, path: str) -> Application | None:
        def find() -> Application | None:
            return self._application or (self._receiver if path.startswith(self._prefix) else None)

        seconds = self._began + PATIENCE_SECONDS - clock.monotonic()
        if (found := find()) is not None or seconds <= 0 or not self._places.acquire(blocking=False):
            return found
        try:
            with self._changed:
                return self._changed.wait_for(find, seconds)
        finally:
            self._places.release()
