"""Copy of the audit log to syslog.

A user of this host cannot change a copy on another host.
"""

from __future__ import annotations

import json
import logging
import queue
import socket
import threading
from dataclasses import asdict
from functools import partial
from logging.handlers import SysLogHandler
from urllib.parse import urlsplit

from integration.access.audit import HOOK, AuditEntry
from integration.core.health import Health
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

HEALTH_NAME = "copy of the audit log"
"""Name of the health check."""

CLOSE_SECONDS = 1.0
"""Maximum seconds that `close` waits for queued entries."""


class SyslogCopy:
    """Sends new entries of the audit log to `target` on a thread.

    `target`: value of `audit.syslog`, None to send nothing. Each entry is one line of JSON.
    """

    def __init__(self, app_db: Database, target: str | None, health: Health) -> None:
        self._target = target or ""
        self._entries: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="audit syslog", daemon=True)
        if target is not None:
            self._thread.start()
            app_db.hooks[HOOK] = [self._send_after_commit]
            health.probe(HEALTH_NAME, lambda: self._error)

    def _send_after_commit(self, tx: Transaction, entry: AuditEntry) -> None:
        # JSON escapes line breaks, so an entry is one line whatever it contains (promise S18).
        tx.after_commit(partial(self._entries.put, json.dumps(asdict(entry))))

    def close(self) -> None:
        """Send the queued entries, for at most CLOSE_SECONDS."""
        if self._thread.is_alive():
            self._entries.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        handler: _Handler | None = None
        while (text := self._entries.get()) is not None:
            try:
                handler = handler or _open_handler(self._target)
                handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))
                self._error = None
            except OSError as error:
                self._error = f"{self._target}: {error}. Check the key syslog of [audit]."
                if handler is not None:
                    # The next entry opens a new connection.
                    handler.close()
                    handler = None
        if handler is not None:
            handler.close()


class _Handler(SysLogHandler):
    """Handler that raises an error instead of printing a traceback."""

    ident = "switchroom-audit: "
    append_nul = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        raise


def _open_handler(target: str) -> _Handler:
    """Open the connection. Raises OSError."""
    if target.startswith("/"):
        return _Handler(target)
    url = urlsplit(target)
    is_stream = url.scheme == "tcp"
    handler = _Handler(
        (url.hostname or "", url.port or 514),
        socktype=socket.SOCK_STREAM if is_stream else socket.SOCK_DGRAM,
    )
    if is_stream:
        # Messages on one connection are separated by line breaks (RFC 6587, 3.4.2).
        handler.setFormatter(logging.Formatter("%(message)s\n"))
    return handler
