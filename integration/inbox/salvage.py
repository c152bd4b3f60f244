"""Webhooks of a damaged inbox.db, saved into a new file.

SQLite reads each number on its own. A row counts only if its body has the stored digest. Rows behind a
damaged page that leads to others are lost with it: to read pages without SQLite took 240 lines, for one page
in some hundreds.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from integration.core import atomic_files, clock
from integration.inbox.store import prepare
from integration.sqlite.damage import get_replacement_path
from integration.sqlite.database import Database
from integration.sqlite.errors import is_damage
from integration.sqlite.readers import open_readonly
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

FAULT = "was damaged"
"""`fault` of the losses that are recorded here."""

BATCH_ROWS = 1000
"""Numbers whose rows are stored in one transaction."""

_COLUMN_TYPES: dict[str, type | tuple[type, ...]] = {
    "seq": int,
    "event_id": str,
    "received_at": str,
    "event_name": (str, type(None)),
    "call_id": object,
    "body": bytes,
    "status": str,
    "deliveries": int,
    "error": (str, type(None)),
    "applied_at": (str, type(None)),
    "flagged": int,
    "body_hash": bytes,
}

_BODY, _HASH = map(list(_COLUMN_TYPES).index, ("body", "body_hash"))
_SELECT = f"SELECT {', '.join(_COLUMN_TYPES)} FROM inbox NOT INDEXED"  # noqa: S608
_INSERT = (
    f"INSERT OR IGNORE INTO inbox ({', '.join(_COLUMN_TYPES)}) VALUES ({', '.join('?' * len(_COLUMN_TYPES))})"  # noqa: S608
)

Row = tuple[Any, ...]


def build_replacement(path: Path) -> Path:
    """Build a new file with the readable rows of a damaged inbox.db.

    Returns its path. The lost seqs are stored in its table `losses`. Nothing may have the damaged file
    open. Raises StorageError.
    """
    new_path = get_replacement_path(path)
    part_path = new_path.with_name(f"{new_path.name}.part")
    for suffix in ("", "-wal", "-shm"):
        part_path.with_name(part_path.name + suffix).unlink(missing_ok=True)
    log.warning("saving the readable webhooks of %s into a new file", path.name)
    # NORMAL: closing the file syncs it, and an incomplete file is never used.
    database = Database(part_path, prepare=prepare, synchronous="NORMAL")
    saved_count, lost = 0, list[int]()
    try:
        with open_readonly(path) as connection:
            connection.row_factory = None
            last_seq = _find_last_seq(connection)
            for rows, lost_seqs in _read_rows(connection, last_seq):
                saved_count += database.write(partial(_insert, rows=rows))
                lost += lost_seqs
            losses = _read_losses(connection) + _join_ranges(lost)
        database.write(partial(_finish, losses=losses, last_seq=last_seq))
    finally:
        database.close()
    part_path.rename(new_path)
    atomic_files.fsync_path(path.parent)
    log.warning("%s: %s webhooks saved, %s lost", path.name, f"{saved_count:,}", f"{len(lost):,}")
    return new_path


def _insert(tx: Transaction, rows: Iterable[Row]) -> int:
    return tx.executemany(_INSERT, rows).rowcount


def _finish(tx: Transaction, losses: list[Row], last_seq: int) -> None:
    tx.executemany("INSERT INTO losses (found_at, fault, first_seq, last_seq) VALUES (?, ?, ?, ?)", losses)
    # SQLite creates the row with the first webhook, and has no UNIQUE constraint on the name.
    tx.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
    tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (last_seq,))


def _read_rows(connection: sqlite3.Connection, last_seq: int) -> Iterator[tuple[list[Row], list[int]]]:
    """Yield intact rows in the order of `seq`, with the lost seqs between them."""
    for first in range(1, last_seq + 1, BATCH_ROWS):
        seqs = range(first, min(first + BATCH_ROWS, last_seq + 1))
        results = {seq: _read(connection, f"{_SELECT} WHERE seq = ?", (seq,)) for seq in seqs}
        intact = [row for rows in results.values() for row in rows or () if _is_intact(row)]
        # Retention has deleted a seq that can be read but has no row.
        present = {seq for seq, rows in results.items() if rows != []}
        yield intact, sorted(present - {row[0] for row in intact})


def _read(connection: sqlite3.Connection, sql: str, parameters: Row = ()) -> list[Row] | None:
    """Return the rows of a query; None if SQLite finds damaged content.

    That is an invalid page, a missing table, or text that is not UTF-8.
    """
    try:
        return connection.execute(sql, parameters).fetchall()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if not is_damage(error) and code not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_OK):
            raise
        return None


def _is_intact(row: Row) -> bool:
    """Return whether column types and the digest of the body are right."""
    return (
        all(isinstance(value, types) for value, types in zip(row, _COLUMN_TYPES.values(), strict=True))
        and hashlib.sha256(row[_BODY]).digest() == row[_HASH]
    )


def _find_last_seq(connection: sqlite3.Connection) -> int:
    """Return the highest seq that the file has used; 0 if unreadable."""
    queries = (
        "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'",
        "SELECT max(seq) FROM inbox NOT INDEXED",
    )
    values = [row[0] for sql in queries for row in _read(connection, sql) or ()]
    return max((value for value in values if isinstance(value, int)), default=0)


def _join_ranges(seqs: list[int]) -> list[Row]:
    """Return a row of `losses` for each range of lost seqs."""
    found_at, ranges = clock.utc_text(), list[Row]()
    for _, group in groupby(enumerate(seqs), key=lambda item: item[1] - item[0]):
        numbers = [seq for _, seq in group]
        ranges.append((found_at, FAULT, numbers[0], numbers[-1]))
    return ranges


def _read_losses(connection: sqlite3.Connection) -> list[Row]:
    """Return the readable earlier losses of the damaged file."""
    rows = _read(connection, "SELECT found_at, fault, first_seq, last_seq FROM losses") or []
    return [row for row in rows if [type(value) for value in row] == [str, str, int, int]]
