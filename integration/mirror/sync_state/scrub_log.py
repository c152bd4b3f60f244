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

_LAST_READ_AT = "coalesce(max(_checks.checked_at, media.updated_at), media.updated_at)"
"""SQL of a file's last read: its download or a check."""


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
    return list(
        _select(
            connection,
            "LEFT JOIN _checks ON _checks.kind = media.kind AND _checks.record_id = media.record_id"
            f" WHERE media.state = 'have' AND {_LAST_READ_AT} < ? ORDER BY {_LAST_READ_AT} LIMIT ?",
            before,
            limit,
        )
    )


def list_after(connection: sqlite3.Connection, kind: str, record_id: int, limit: int) -> list[ArchivedFile]:
    """Return files in the order of (kind, record_id), after the given file."""
    return list(
        _select(
            connection,
            "WHERE state = 'have' AND (kind, record_id) > (?, ?) ORDER BY kind, record_id LIMIT ?",
            kind,
            record_id,
            limit,
        )
    )


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
    rows = connection.execute(
        f"SELECT media.kind, media.record_id, media.path, media.size, media.sha256 FROM media {clauses}",
        values,
    )
    return (ArchivedFile(*row) for row in rows)


def mark_restored(tx: Transaction, file: ArchivedFile) -> None:
    """Record that the file with the stored sha256 is in the archive."""
    tx.execute(
        "UPDATE media SET state = 'have', last_error = NULL, next_try_at = NULL, updated_at = ? "
        "WHERE kind = ? AND record_id = ? AND state <> 'have' AND sha256 = ?",
        (clock.utc_text(), file.kind, file.record_id, file.sha256),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "have"})


def mark_intact(tx: Transaction, files: Sequence[ArchivedFile]) -> None:
    """Record that these files equal their downloads."""
    tx.executemany(
        "INSERT INTO _checks (kind, record_id, checked_at) VALUES (?, ?, ?) "
        "ON CONFLICT (kind, record_id) DO UPDATE SET checked_at = excluded.checked_at",
        [(file.kind, file.record_id, clock.utc_text()) for file in files],
    )


def mark_damaged(tx: Transaction, file: ArchivedFile, finding: str) -> bool:
    """Record a damaged file and queue its download, due immediately.

    Returns False, without a change, if the row of `media` has changed since `file` was read.
    """
    updated_rows = tx.execute(
        "UPDATE media SET state = 'wanted', tries = 0, last_error = ?, next_try_at = ?, updated_at = ? "
        "WHERE kind = ? AND record_id = ? AND state = 'have' AND path = ? AND sha256 IS ?",
        (
            f"the file {finding}",
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
    tx.execute(
        "INSERT INTO _checks VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, record_id) DO UPDATE SET "
        "checked_at = excluded.checked_at, found_at = excluded.found_at, finding = excluded.finding",
        (file.kind, file.record_id, clock.utc_text(), clock.utc_text(), finding),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "wanted"})
    return True


def get_archive_state(connection: sqlite3.Connection, limit: int = 10) -> ArchiveState:
    """Return the state of the archive, with at most `limit` damaged files."""
    file_count = sum(count for (_, state), count in count_by_state(connection, ()).items() if state == "have")
    oldest_row = connection.execute(
        # CROSS JOIN makes SQLite use the index by time. Otherwise it reads hundreds of thousands of rows.
        "SELECT checked_at FROM _checks CROSS JOIN media ON media.kind = _checks.kind"
        " AND media.record_id = _checks.record_id WHERE media.state = 'have' ORDER BY checked_at LIMIT 1"
    ).fetchone()
    rows = connection.execute(
        "SELECT _checks.kind, _checks.record_id, path, finding, found_at, state FROM _checks "
        "JOIN media ON media.kind = _checks.kind AND media.record_id = _checks.record_id "
        "WHERE finding IS NOT NULL ORDER BY found_at DESC LIMIT ?",
        (limit,),
    )
    return ArchiveState(
        file_count, oldest_row[0] if oldest_row else None, [DamagedFile(*row) for row in rows]
    )
