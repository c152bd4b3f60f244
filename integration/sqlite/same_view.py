"""Several read-only connections with the same view of a database.

A file that is computed by several threads must come from one commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

ATTEMPTS = 20
"""Attempts to begin all transactions between two commits. One takes less than a millisecond."""


@contextmanager
def open_same_view(
    read: Callable[[], AbstractContextManager[sqlite3.Connection]], count: int
) -> Iterator[list[sqlite3.Connection]]:
    """Open `count` connections that all see the same commit, for the block.

    `read()` opens a connection in a transaction. If other processes commit during each attempt, the list has
    only one connection. SQLite can copy the view of a connection (`sqlite3_snapshot_open`), but Python's
    sqlite3 has no access to it.
    """
    with ExitStack() as stack:
        for _ in range(ATTEMPTS if count > 1 else 0):
            with read() as watch, ExitStack() as attempt:
                watch.rollback()  # Within a transaction the version would not change.
                version = _read_version(watch)
                connections = [attempt.enter_context(read()) for _ in range(count)]
                for connection in connections:
                    connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()  # Begins the view.
                if _read_version(watch) == version:
                    stack.push(attempt.pop_all())
                    break
        else:
            connections = [stack.enter_context(read())]
        yield connections


def _read_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with each commit of another connection."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
