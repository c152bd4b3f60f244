"""Read-only connections of a database.

Each connection is used by one block of code at a time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from integration.core import clock
from integration.core.errors import StorageError
from integration.sqlite import live_reads
from integration.sqlite.errors import is_damage, translate_error

T = TypeVar("T")

BUSY_SECONDS = 5.0
"""Seconds that a reader waits for a lock."""

MMAP_PRAGMA = "PRAGMA mmap_size=16777216"
"""Maps up to 16 MiB of the file into memory.

Mapped pages of 5,000 records are read 20 % faster. Rejected: 64 MiB, with which 100 MB of mapped pages
counted as memory of the process after an hour of webhooks. Each connection has a mapping of its own, so that
tools which count each mapping show ten times as much.
"""

CACHE_PRAGMA = "PRAGMA cache_size=-512"
"""Limits the page cache of a reader to 512 KiB, a quarter of the default.

It holds only pages that are not mapped: those of the write-ahead log, after the first 16 MiB, and of full
scans. The cache of the system holds the others.
"""

MAX_IDLE_SECONDS = 60.0
"""Seconds after which an idle connection is closed, unless it is one of KEPT_IDLE.

After a rush of requests a hundred connections would keep their caches and statements until the process ends.
"""
KEPT_IDLE = 8
"""Idle connections that stay open.

A connection keeps the schema in many small blocks. While five connections were closed and opened every
minute, these blocks filled gaps in all memory that the process had used, which could then not be returned.
"""

CHECK_STEPS = 50_000
"""Steps of SQLite's machine between two checks of the time limit.

Each check waits for Python's lock. With 10,000 steps a tenth of a query's time were checks.
"""

STATEMENTS = 64
"""Prepared statements that a reader keeps; one takes 5 to 50 KB."""


def build_readonly_uri(path: Path) -> str:
    """Return the read-only URI of a database, for `connect(uri=True)` and ATTACH."""
    return f"{path.resolve().as_uri()}?mode=ro"


@contextmanager
def open_readonly(path: Path, seconds: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection for the block, outside a transaction.

    `seconds`: maximum wait for a lock. Raises StorageError, also for errors of SQLite in the block.
    """
    if not path.is_file():
        raise StorageError(f"The database {path} does not exist.")
    try:
        with closing(_connect(path, seconds)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise translate_error(error, path) from error


def read_tolerantly(connection: sqlite3.Connection, read: Callable[[], T]) -> T:
    """Call `read()`, which reads with `connection`.

    If a stored text is not UTF-8, `read` is called a second time, and its invalid bytes become lone
    surrogates. sqlite3 raises an error for such a text. It is not decoded so at first, because that takes
    three times as long.
    """
    try:
        return read()
    except sqlite3.OperationalError as error:
        if "Could not decode to UTF-8" not in str(error):
            raise
    text_factory = connection.text_factory
    connection.text_factory = lambda content: content.decode("utf-8", "surrogateescape")
    try:
        return read()
    finally:
        connection.text_factory = text_factory


def _connect(path: Path, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    connection = sqlite3.connect(
        build_readonly_uri(path),
        uri=True,
        timeout=seconds,
        check_same_thread=False,
        isolation_level=None,
        cached_statements=STATEMENTS,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


class ReaderPool:
    """Pool of read-only connections. `functions(connection)` adds SQL functions to a new connection.

    `on_damage(error)` is called if SQLite reports an invalid page in a block.
    """

    def __init__(
        self,
        path: Path,
        functions: Callable[[sqlite3.Connection], None] | None,
        on_damage: Callable[[sqlite3.Error], None],
    ) -> None:
        self._path = path
        self._functions = functions
        self._on_damage = on_damage
        self._idle: deque[tuple[sqlite3.Connection, float]] = deque()
        """Idle connections, with the time of their last use, oldest first."""
        self._closed = threading.Event()

    @contextmanager
    def read(self, seconds: float | None, full_scan: bool) -> Iterator[sqlite3.Connection]:
        """Open a connection for the block. See `Database.read`."""
        connection = self._acquire()
        has_damage = False
        is_live = seconds is not None
        if is_live:
            live_reads.begin()
        try:
            if full_scan:
                connection.execute("PRAGMA mmap_size=0")
            if seconds is not None:
                # Elapsed time would also count the disk: a query that takes 0.4 s was cancelled after 2 s
                # while its pages were not cached yet.
                limit = clock.thread_cpu() + seconds
                connection.set_progress_handler(lambda: int(clock.thread_cpu() > limit), CHECK_STEPS)
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            if is_damage(error):
                has_damage = True
                self._on_damage(error)
            raise
        finally:
            if is_live:
                live_reads.end()
                connection.set_progress_handler(None, 0)
            if connection.in_transaction:
                connection.rollback()
            if full_scan:
                connection.execute(MMAP_PRAGMA)
            # An invalid page would stay in the cache of the connection.
            if self._closed.is_set() or has_damage:
                connection.close()
            else:
                self._release(connection)

    def close(self) -> None:
        """Close idle connections now, the others at the end of their blocks."""
        self._closed.set()
        while self._idle:
            self._close_oldest()

    def _acquire(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()[0]
        except IndexError:
            pass
        connection = _connect(self._path)
        connection.execute(MMAP_PRAGMA)
        connection.execute(CACHE_PRAGMA)
        if self._functions:
            self._functions(connection)
        return connection

    def _release(self, connection: sqlite3.Connection) -> None:
        """Return a connection to the pool; close those idle for too long."""
        now = clock.monotonic()
        self._idle.append((connection, now))
        try:
            while len(self._idle) > KEPT_IDLE and self._idle[0][1] < now - MAX_IDLE_SECONDS:
                self._close_oldest()
        except IndexError:
            pass  # Other threads use all connections.
        if self._closed.is_set():
            self.close()

    def _close_oldest(self) -> None:
        try:
            connection, _ = self._idle.popleft()
        except IndexError:
            return  # Another thread was faster.
        connection.close()


class Readable(Protocol):
    """Interface of databases for functions that only read: `Database` and `ReadOnlyDatabase`."""

    def read(self, seconds: float | None = None) -> AbstractContextManager[sqlite3.Connection]: ...


class ReadOnlyDatabase:
    """Database file opened read-only. The file is neither created nor migrated."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """Open a connection with one consistent view for the block.

        `seconds`: maximum wait for a lock, by default 5 s. Raises StorageError.
        """
        with open_readonly(self.path, BUSY_SECONDS if seconds is None else seconds) as connection:
            connection.execute("BEGIN")
            yield connection
