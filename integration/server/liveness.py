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


def watch(url: str, interval: float, report: Callable[[], None]) -> None:
    """Call `report()` now, and after each response to a request of `/healthz`, every `interval` seconds.

    `url`: address of this server. On a thread of its own, which ends with the process. A response during the
    start counts as well.
    """
    threading.Thread(target=_run, args=(url, interval, report), name="liveness check", daemon=True).start()


def _run(url: str, interval: float, report: Callable[[], None]) -> None:
    report()
    pause = threading.Event()
    while not pause.wait(interval):
        try:
            _request(url, interval)
        except (OSError, http.client.HTTPException) as error:
            log.error("this server does not respond to itself: %s", error)
        else:
            report()


def _request(url: str, timeout: float) -> None:
    address = urlsplit(url)
    host = address.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, address.port, timeout=timeout, context=_make_context())
        if address.scheme == "https"
        else http.client.HTTPConnection(host, address.port, timeout=timeout)
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
