"""Copy of the audit log to syslog.

A user of this host cannot change a copy on another host.
"""

from __future__ import annotations

import json
import logging
import queue
import socket
import sys
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
        self._handler: _Handler | None = None
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
        while (text := self._entries.get()) is not None:
            error = self._send(text)
            self._error = error and f"{self._target}: {error}. Check the key syslog of [audit]."
        if self._handler is not None:
            self._handler.close()

    def _send(self, text: str) -> str | None:
        """Send one entry and return the error, None without one."""
        try:
            if self._handler is None:
                self._handler = _open_handler(self._target)
            self._handler.error = None
            self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))
        except OSError as error:
            return str(error)
        if self._handler.error is not None:
            error_text = str(self._handler.error)
            # The next entry opens a new connection.
            self._handler.close()
            self._handler = None
            return error_text
        return None


class _Handler(SysLogHandler):
    """Handler that stores an error instead of printing a traceback."""

    ident = "switchroom-audit: "
    append_nul = False
    error: BaseException | None = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        self.error = sys.exc_info()[1]


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
