"""Archive: its files, with the last check and finding of each (the scrub log).

Stored files can become corrupt without an error. The scrub (sync/files/scrub.py) reads the files in order of
their last read, oldest first. A file that differs from its download is queued for another download.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.mirror.sync_state.media_files import count_by_state
from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """File in state 'have'.

    `path` is relative to data_dir, `size` is in bytes, `sha256` is hexadecimal. `kind` and `record_id` are
    the key of table `media`.
    """

    kind: str
    record_id: int
    path: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A damaged file: finding, its time (UTC text) and state in `media`."""

    kind: str
    record_id: int
    path: str
    finding: str
    found_at: str
    state: str


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """State of the archive.

    `file_count`: number of files. `oldest_read_at`: oldest time of a last read, by download or check (UTC
    text, None without files). `damaged_files`: latest findings, newest first.
    """

    file_count: int
    oldest_read_at: str | None
    damaged_files: Sequence[DamagedFile]


def iterate_files(connection: sqlite3.Connection) -> Iterator[ArchivedFile]:
    """Iterate over the files in state 'have', by kind and record id."""
    return _select(connection, "WHERE state = 'have' ORDER BY kind, record_id")


def due(connection: sqlite3.Connection, before: str, limit: int) -> list[ArchivedFile]:
    """Return files last read before `before` (UTC text), oldest read first."""
    clauses = "WHERE state = 'have' AND checked_at < ? ORDER BY checked_at LIMIT ?"
    return list(_select(connection, clauses, before, limit))


def list_after(connection: sqlite3.Connection, kind: str, record_id: int, limit: int) -> list[ArchivedFile]:
    """Return files in the order of (kind, record_id), after the given file."""
    clauses = "WHERE state = 'have' AND (kind, record_id) > (?, ?) ORDER BY kind, record_id LIMIT ?"
    return list(_select(connection, clauses, kind, record_id, limit))


def is_unchanged(connection: sqlite3.Connection, file: ArchivedFile) -> bool:
    """Return whether the row of `file` is still the same.

    A file may be replaced or removed while a caller reads other files.
    """
    return list_after(connection, file.kind, file.record_id - 1, 1) == [file]


def sample_files(connection: sqlite3.Connection, limit: int) -> list[ArchivedFile]:
    """Return random files of the archive."""
    return list(_select(connection, "WHERE state = 'have' ORDER BY random() LIMIT ?", limit))


def sample_missing_files(connection: sqlite3.Connection, limit: int) -> list[ArchivedFile]:
    """Return random files, stored once, that the platform has deleted."""
    condition = "WHERE state = 'gone' AND sha256 IS NOT NULL ORDER BY random() LIMIT ?"
    return list(_select(connection, condition, limit))


def _select(connection: sqlite3.Connection, clauses: str, *values: object) -> Iterator[ArchivedFile]:
    rows = connection.execute(f"SELECT kind, record_id, path, size, sha256 FROM media {clauses}", values)
    return (ArchivedFile(*row) for row in rows)


def mark_restored(tx: Transaction, file: ArchivedFile) -> None:
    """Record that the file with the stored sha256 is in the archive."""
    tx.execute(
        "UPDATE media SET state = 'have', last_error = NULL, next_try_at = NULL, updated_at = ?1,"
        " checked_at = ?1 WHERE kind = ?2 AND record_id = ?3 AND state <> 'have' AND sha256 = ?4",
        (clock.utc_text(), file.kind, file.record_id, file.sha256),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "have"})


def mark_intact(tx: Transaction, files: Sequence[ArchivedFile]) -> None:
    """Record that these files equal their downloads."""
    tx.executemany(
        "UPDATE media SET checked_at = ? WHERE kind = ? AND record_id = ?",
        [(clock.utc_text(), file.kind, file.record_id) for file in files],
    )


def mark_damaged(tx: Transaction, file: ArchivedFile, finding: str) -> bool:
    """Record a damaged file and queue its download, due immediately.

    Returns False, without a change, if the row of `media` has changed since `file` was read.
    """
    updated_rows = tx.execute(
        "UPDATE media SET state = 'wanted', tries = 0, last_error = 'the file ' || ?1, finding = ?1,"
        " next_try_at = ?2, updated_at = ?3, checked_at = ?3, found_at = ?3"
        " WHERE kind = ?4 AND record_id = ?5 AND state = 'have' AND path = ?6 AND sha256 IS ?7",
        (
            finding,
            clock.unix(),
            clock.utc_text(),
            file.kind,
            file.record_id,
            file.path,
            file.sha256,
        ),
    ).rowcount
    if not updated_rows:
        return False
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "wanted"})
    return True


def get_archive_state(connection: sqlite3.Connection, limit: int = 10) -> ArchiveState:
    """Return the state of the archive, with at most `limit` damaged files."""
    file_count = sum(count for (_, state), count in count_by_state(connection, ()).items() if state == "have")
    (oldest,) = connection.execute("SELECT min(checked_at) FROM media WHERE state = 'have'").fetchone()
    rows = connection.execute(
        "SELECT kind, record_id, path, finding, found_at, state FROM media"
        " WHERE finding IS NOT NULL ORDER BY found_at DESC LIMIT ?",
        (limit,),
    )
    return ArchiveState(file_count, oldest, [DamagedFile(*row) for row in rows])
