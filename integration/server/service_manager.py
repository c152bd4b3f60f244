"""Notifications to systemd: ready, alive, stopping (sd_notify(3)); check of the HTTP server for its watchdog.

A unit with `Type=notify` passes the path of a datagram socket in NOTIFY_SOCKET, and with `WatchdogSec=` the
limit between two signs of life in WATCHDOG_USEC. Without these variables nothing is sent. The protocol is a
text in one datagram, so no library is needed. Only the supervisor sends: systemd accepts messages of the main
process (NotifyAccess=main).
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, MutableMapping
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

SIGNS_PER_LIMIT = 4
"""Signs of life within the limit of the watchdog, so that a late one is no failure."""


class ServiceManager:
    """Sender of notifications.

    Removes the variables from `environ`, because child processes must not send.
    """

    def __init__(self, environ: MutableMapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", "")
        limit, process = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        # A leading @ is an abstract socket: its first byte is NUL.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        is_for_this_process = process in ("", str(os.getpid()))
        has_watchdog = address and limit.isdecimal() and int(limit) and is_for_this_process
        self._interval = int(limit) / 1e6 / SIGNS_PER_LIMIT if has_watchdog else None
        """Seconds between two signs of life, None without a watchdog."""

    def report_ready(self, status: str) -> None:
        """Report the end of the start. `status` is shown by `systemctl status`."""
        self._send(f"READY=1\nSTATUS={status}")

    def report_alive(self) -> None:
        """Send a sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def report_stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=Stopping")

    def watch_worker(self, url: str, report: Callable[[], None]) -> None:
        """Call `report()` now, and then after each response of this process to a request of `/healthz`.

        `url`: address of its HTTP server. Does nothing without a watchdog. A heartbeat of a thread would show
        a suspended process only; the request also fails if all threads for requests are blocked. A response
        during the start counts as well.
        """
        if self._interval is not None:
            arguments = (url, self._interval, report)
            threading.Thread(target=_watch, args=arguments, name="liveness check", daemon=True).start()

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify_socket:
                notify_socket.setblocking(False)
                notify_socket.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("cannot notify the service manager: %s", error)


def _watch(url: str, interval: float, report: Callable[[], None]) -> None:
    report()
    pause = threading.Event()
    while not pause.wait(interval):
        try:
            _request_health(url, interval)
        except (OSError, http.client.HTTPException) as error:
            log.error("this server does not respond to itself: %s", error)
        else:
            report()


def _request_health(url: str, timeout: float) -> None:
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
