"""Reading house.db from a command while another process writes it, or none does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

from integration.sqlite.errors import translate


class Readable(Protocol):
    """What a reading function needs of a database: `Database` has it, and `Beside`."""

    def read(self, seconds: float | None = None) -> AbstractContextManager[sqlite3.Connection]: ...


class Beside:
    """house.db for reading only; it is neither created nor migrated."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """One consistent view; `seconds` is how long to wait for a lock (5). Raises StorageError."""
        try:
            with closing(
                sqlite3.connect(
                    f"{self.path.resolve().as_uri()}?mode=ro",
                    uri=True,
                    isolation_level=None,
                    timeout=5 if seconds is None else seconds,
                )
            ) as connection:
                connection.row_factory = sqlite3.Row
                connection.execute("BEGIN")
                yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
