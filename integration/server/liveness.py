"""Check that the HTTP server of a worker responds, for a watchdog.

A heartbeat of a thread would show a suspended process only. A request to `/healthz` also fails if all threads
for requests are blocked.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

log = logging.getLogger(__name__)


class LivenessCheck:
    """Requests `/healthz` every `interval` seconds, and calls `report()` after each response.

    `url`: address of this server. A thread of its own; ends with the process.
    """

    def __init__(self, url: str, interval: float, report: Callable[[], None]) -> None:
        self._url = urlsplit(url)
        self._interval = interval
        self._report = report
        self._stopping = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="liveness check", daemon=True).start()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self._request()
            except (OSError, http.client.HTTPException) as error:
                log.error("this server does not respond to itself: %s", error)
                continue
            self._report()

    def _request(self) -> None:
        host, port, timeout = self._url.hostname or "", self._url.port, self._interval
        connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=_make_context())
            if self._url.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=timeout)
        )
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        finally:
            connection.close()


def _make_context() -> ssl.SSLContext:
    # The certificate has the public name, not that of the loopback address; nothing is sent but the path.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
