"""Webhooks of a damaged inbox.db, saved into a new file.

SQLite reads the rows upwards to the first damaged page, then downwards to the last one. The rows between are
taken from every page of the file. A row counts only if its body has the stored digest.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from integration.core import atomic_files, clock
from integration.core.errors import StorageError
from integration.core.ids import MAX_ID
from integration.inbox.store import prepare
from integration.sqlite.damage import get_replacement_path
from integration.sqlite.database import Database
from integration.sqlite.errors import is_damage
from integration.sqlite.page_scan import scan_rows
from integration.sqlite.readers import open_readonly
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

FAULT = "was damaged"
"""`fault` of the losses that are recorded here."""

BATCH_ROWS = 20_000
"""Rows of one transaction of the new file."""
MAX_LOST_RANGES = 1000
"""Maximum number of lost ranges that are stored; the last one then extends to the end."""

_COLUMN_TYPES: dict[str, type | tuple[type, ...]] = {
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
"""Types of the columns after `seq`, in their order in the file."""

_BODY, _HASH = (list(_COLUMN_TYPES).index(name) + 1 for name in ("body", "body_hash"))
_COLUMNS = ", ".join(("seq", *_COLUMN_TYPES))
_INSERT = f"INSERT OR IGNORE INTO inbox ({_COLUMNS}) VALUES ({', '.join('?' * (len(_COLUMN_TYPES) + 1))})"  # noqa: S608

Row = tuple[Any, ...]


@dataclass(slots=True)
class _Progress:
    """Seqs that were read.

    Those between `below` and `above` are on damaged pages or behind them.
    """

    below: int = 0
    above: int = MAX_ID
    saved_count: int = 0
    found: set[int] = field(default_factory=set)
    """Seqs of rows between `below` and `above` that were found in the pages."""


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
    try:
        progress = _Progress()
        rows = _read_rows(path, progress)
        while batch := list(islice(rows, BATCH_ROWS)):
            progress.saved_count += database.write(partial(_insert, rows=batch))
        lost = _list_lost(path, progress)
        old_losses, last_seq = _read_losses(path), _read_last_seq(path)
        ranges = _join_ranges(lost)
        database.write(partial(_finish, ranges=ranges, old_losses=old_losses, last_seq=last_seq))
    except OSError as error:
        raise StorageError(f"{path.name}: {error.strerror}. Check the disk of {path.parent}.") from error
    finally:
        database.close()
    part_path.rename(new_path)
    atomic_files.fsync_path(path.parent)
    log.warning("%s: %s webhooks saved, %s lost", path.name, f"{progress.saved_count:,}", f"{len(lost):,}")
    return new_path


def _insert(tx: Transaction, rows: Iterable[Row]) -> int:
    return tx.executemany(_INSERT, rows).rowcount


def _finish(tx: Transaction, ranges: list[tuple[int, int]], old_losses: list[Row], last_seq: int) -> None:
    found_at = clock.utc_text()
    new_losses = [(found_at, FAULT, first, last) for first, last in ranges]
    tx.executemany(
        "INSERT INTO losses (found_at, fault, first_seq, last_seq) VALUES (?, ?, ?, ?)",
        [*old_losses, *new_losses],
    )
    row = tx.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").fetchone()
    last_seq = max([last_seq, 0 if row is None else int(row[0]), *(last for _, last in ranges)])
    # SQLite creates the row with the first webhook, and has no UNIQUE constraint on the name.
    tx.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
    tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (last_seq,))


def _read_rows(path: Path, progress: _Progress) -> Iterator[Row]:
    """Yield the valid rows, each once, and record which seqs were read."""
    for row in _read_by_sql(path, progress, is_upwards=True):
        progress.below = row[0]
        yield row
    if progress.below == MAX_ID:
        return
    for row in _read_by_sql(path, progress, is_upwards=False):
        progress.above = row[0]
        yield row
    is_needed = partial(_is_between, progress)
    for seq, values in scan_rows(path, is_needed):
        row = (seq, *values[1:])
        if not is_needed(seq, seq) or len(values) != len(_COLUMN_TYPES) + 1 or seq in progress.found:
            continue
        if _is_valid(row):
            progress.found.add(seq)
            yield row


def _is_between(progress: _Progress, first: int, last: int) -> bool:
    return last > progress.below and first < progress.above


def _read_by_sql(path: Path, progress: _Progress, *, is_upwards: bool) -> Iterator[Row]:
    """Yield rows in the order of `seq` until one is damaged.

    Ends also if SQLite reports a damaged page. Upwards, `progress.below` becomes MAX_ID if there is none.
    """
    order = "seq > ? ORDER BY seq" if is_upwards else "seq > ? ORDER BY seq DESC"
    previous = 0 if is_upwards else MAX_ID + 1
    try:
        with open_readonly(path) as connection:
            connection.row_factory = None
            for row in connection.execute(
                f"SELECT {_COLUMNS} FROM inbox NOT INDEXED WHERE {order}",  # noqa: S608
                (progress.below,),
            ):
                if (row[0] <= previous if is_upwards else row[0] >= previous) or not _is_valid(row):
                    return
                previous = row[0]
                yield row
            if is_upwards:
                progress.below = MAX_ID
    except StorageError as error:
        if not _is_content_error(error.__cause__):
            raise


def _is_content_error(error: BaseException | None) -> bool:
    """Return whether SQLite reports damaged content.

    That is an invalid page, a missing table, or text that is not UTF-8.
    """
    if error is None or is_damage(error):
        return True
    return isinstance(error, sqlite3.OperationalError) and getattr(
        error, "sqlite_errorcode", sqlite3.SQLITE_ERROR
    ) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_OK)


def _is_valid(row: Row) -> bool:
    """Return whether column types and the digest of the body are right."""
    return (
        all(isinstance(value, types) for value, types in zip(row[1:], _COLUMN_TYPES.values(), strict=True))
        and hashlib.sha256(row[_BODY]).digest() == row[_HASH]
    )


def _list_lost(path: Path, progress: _Progress) -> list[int]:
    """Return the stored seqs that were not saved, in order.

    An index has the seqs of damaged pages too. Without it, every number between the readable rows counts as
    lost, although retention may have deleted some.
    """
    if progress.below == MAX_ID:
        return []
    end = progress.above
    if end == MAX_ID:
        end = max(_read_last_seq(path), progress.below, *progress.found, 0) + 1
    seqs: Iterable[int]
    try:
        with open_readonly(path) as connection:
            rows = connection.execute(
                "SELECT seq FROM inbox INDEXED BY sqlite_autoindex_inbox_1"
                " WHERE event_id >= '' AND seq > ? AND seq < ?",
                (progress.below, end),
            )
            seqs = [row[0] for row in rows]
    except StorageError as error:
        log.warning("%s: its index cannot be read: %s", path.name, error)
        seqs = range(progress.below + 1, end)
    return sorted(set(seqs) - progress.found)


def _join_ranges(seqs: list[int]) -> list[tuple[int, int]]:
    ranges = []
    for _, group in groupby(enumerate(seqs), key=lambda item: item[1] - item[0]):
        numbers = [seq for _, seq in group]
        ranges.append((numbers[0], numbers[-1]))
    if len(ranges) > MAX_LOST_RANGES:
        ranges[MAX_LOST_RANGES - 1 :] = [(ranges[MAX_LOST_RANGES - 1][0], ranges[-1][1])]
    return ranges


def _read_losses(path: Path) -> list[Row]:
    """Return the readable earlier losses of the damaged file."""
    try:
        with open_readonly(path) as connection:
            rows = connection.execute("SELECT found_at, fault, first_seq, last_seq FROM losses")
            return [tuple(row) for row in rows if [type(value) for value in row] == [str, str, int, int]]
    except StorageError as error:
        log.warning("%s: earlier losses cannot be read: %s", path.name, error)
        return []


def _read_last_seq(path: Path) -> int:
    """Return the highest seq that the file has used; 0 if unreadable."""
    try:
        with open_readonly(path) as connection:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").fetchone()
    except StorageError as error:
        log.warning("%s: the highest number cannot be read: %s", path.name, error)
        return 0
    return int(row[0]) if row is not None and isinstance(row[0], int) else 0
