"""Notifications to systemd: ready, alive, stopping (sd_notify(3)).

A unit with `Type=notify` passes the path of a datagram socket in NOTIFY_SOCKET, and with `WatchdogSec=` the
limit between two signs of life in WATCHDOG_USEC. Without these variables nothing is sent. The protocol is a
text in one datagram, so no library is needed. Only the supervisor sends: systemd accepts messages of the main
process (NotifyAccess=main).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping

log = logging.getLogger(__name__)

SIGNS_PER_LIMIT = 4
"""Signs of life within the limit of the watchdog, so that a late one is no failure."""


class ServiceManager:
    """Sender of notifications.

    Removes the variables from `environ`, because child processes must not send. `interval_seconds`: seconds
    between two signs of life, None without a watchdog.
    """

    def __init__(self, environ: MutableMapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", "")
        limit, process = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        # A leading @ is an abstract socket: its first byte is NUL.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        is_for_this_process = process in ("", str(os.getpid()))
        has_watchdog = address and limit.isdecimal() and int(limit) and is_for_this_process
        self.interval_seconds = int(limit) / 1e6 / SIGNS_PER_LIMIT if has_watchdog else None

    def report_ready(self, status: str) -> None:
        """Report the end of the start. `status` is shown by `systemctl status`."""
        self._send(f"READY=1\nSTATUS={status}")

    def report_alive(self) -> None:
        """Send a sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def report_stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=Stopping")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify_socket:
                notify_socket.setblocking(False)
                notify_socket.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("cannot notify the service manager: %s", error)
