"""The connections that read a database: read-only, each used by one block of code at a time."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.core import clock

MAPPED = "PRAGMA mmap_size=268435456"
"""Pages of 5,000 records are read a fifth faster from a mapped file; what was read stays in our memory."""


class Readers:
    """`functions(connection)` gives a new connection the SQL functions that queries use."""

    def __init__(self, path: Path, functions: Callable[[sqlite3.Connection], None] | None) -> None:
        self._path = path
        self._functions = functions
        self._idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._closed = threading.Event()

    @contextmanager
    def read(self, seconds: float | None, whole: bool) -> Iterator[sqlite3.Connection]:
        """As `Database.read`."""
        connection = self._take()
        try:
            if whole:
                connection.execute("PRAGMA mmap_size=0")
            if seconds is not None:
                deadline = clock.monotonic() + seconds
                connection.set_progress_handler(lambda: int(clock.monotonic() > deadline), 10_000)
            connection.execute("BEGIN")
            yield connection
        finally:
            if seconds is not None:
                connection.set_progress_handler(None, 0)
            if connection.in_transaction:
                connection.rollback()
            if whole:
                connection.execute(MAPPED)
            if self._closed.is_set():
                connection.close()
            else:
                self._idle.put(connection)

    def close(self) -> None:
        """Close what is idle now; the others close when their blocks end."""
        self._closed.set()
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        connection = sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode=ro",
            uri=True,
            check_same_thread=False,
            isolation_level=None,
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA busy_timeout=5000")
        connection.execute(MAPPED)
        if self._functions:
            self._functions(connection)
        return connection
