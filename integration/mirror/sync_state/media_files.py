"""Table `media`: download state of every file of the platform."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from integration.core import backoff, clock, retry_delays
from integration.core.ids import as_id, id_list
from integration.mirror.records.rows import UpsertResult
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS media (
    kind TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    size INTEGER,
    sha256 TEXT,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    next_try_at REAL,
    updated_at TEXT NOT NULL,
    checked_at TEXT,
    found_at TEXT,
    finding TEXT,
    PRIMARY KEY (kind, record_id)
) STRICT, WITHOUT ROWID;
-- serves the downloads: pending files, newest record first
CREATE INDEX IF NOT EXISTS media_wanted ON media (kind, record_id) WHERE state IN ('wanted', 'failed');
-- serves the scheduler: when the next download is due
CREATE INDEX IF NOT EXISTS media_due ON media (kind, next_try_at) WHERE state IN ('wanted', 'failed');
-- serves the order of the scrub: the file that was read longest ago
CREATE INDEX IF NOT EXISTS media_checked ON media (checked_at) WHERE state = 'have';
-- serves the System page: files that were damaged
CREATE INDEX IF NOT EXISTS media_found ON media (found_at) WHERE finding IS NOT NULL;
"""
"""SQL script. `checked_at`: last download or check. `found_at`, `finding`: last damage (scrub_log.py)."""

FILE_STATE_LABELS = {"have": "Saved", "wanted": "Queued", "failed": "Failed", "gone": "Deleted"}
"""Words for the column `state`."""


def _build_tally_update(row: str, sign: str) -> str:
    return (
        f"INSERT INTO _media_tally SELECT {row}.kind, {row}.state, 0, 0 WHERE NOT EXISTS"
        f" (SELECT 1 FROM _media_tally WHERE kind = {row}.kind AND state = {row}.state);"
        f" UPDATE _media_tally SET files = files {sign} 1, bytes = bytes {sign} coalesce({row}.size, 0)"
        f" WHERE kind = {row}.kind AND state = {row}.state;"
    )


_ADD_NEW = _build_tally_update("NEW", "+")
_SUBTRACT_OLD = _build_tally_update("OLD", "-")

TABLES += f"""
-- Number and bytes of files by kind and state: counting a million files takes longer than a page allows
CREATE TABLE IF NOT EXISTS _media_tally (
    kind TEXT NOT NULL, state TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS media_tally_insert AFTER INSERT ON media BEGIN {_ADD_NEW} END;
CREATE TRIGGER IF NOT EXISTS media_tally_delete AFTER DELETE ON media BEGIN {_SUBTRACT_OLD} END;
CREATE TRIGGER IF NOT EXISTS media_tally_update AFTER UPDATE OF kind, state, size ON media BEGIN
  {_SUBTRACT_OLD}
  {_ADD_NEW}
END;
"""

MediaKind = Literal["recording", "voicemail", "trace", "pcap", "msdr_trace", "msdr_pcap", "fax"]
"""`msdr_…`: files of media session records, whose ids can equal those of CDRs (`trace`, `pcap`)."""
AUTOMATIC_KINDS: tuple[MediaKind, ...] = ("recording", "voicemail", "fax")
"""Kinds that are downloaded automatically. The others are downloaded on request."""


@dataclass(frozen=True, slots=True)
class _MediaSource:
    table: str
    date_field: str
    folder: str
    size_sql: str
    """SQL of the size in bytes; NULL if records do not have it."""
    extension: str = "mp3"
    seconds_sql: str = "NULL"
    """SQL of the duration in seconds; NULL if records do not have it."""


_SOURCES: dict[MediaKind, _MediaSource] = {
    "recording": _MediaSource(
        "monitors", "timestamp", "recordings", "record.size", seconds_sql="record.duration"
    ),
    "voicemail": _MediaSource(
        "voicemessages", "origtime", "voicemail", "NULL", seconds_sql="record.duration"
    ),
    "trace": _MediaSource("cdrs", "calldate", "traces/cdrs", "NULL", "trace"),
    "pcap": _MediaSource("cdrs", "calldate", "traces/cdrs", "NULL", "pcap"),
    "msdr_trace": _MediaSource("msdrs", "created_at", "traces/msdrs", "NULL", "trace"),
    "msdr_pcap": _MediaSource("msdrs", "created_at", "traces/msdrs", "NULL", "pcap"),
    "fax": _MediaSource("faxes", "created_at", "faxes", "NULL", "pdf"),
}

FOLDERS: dict[MediaKind, str] = {kind: origin.folder for kind, origin in _SOURCES.items()}
"""Folder of each kind, below data_dir."""


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file to download.

    `path`: below data_dir. `size` in bytes and `seconds` of audio: as in the record, None if it does not have
    them. `tries`: failed tries so far. `last_error`: error of the last one.
    """

    kind: MediaKind
    record_id: int
    path: str
    size: int | None
    tries: int
    seconds: int | None = None
    last_error: str | None = None


def relative_path(kind: MediaKind, record_id: int, timestamp: object) -> str:
    """Return the path below data_dir: '<folder>/YYYY/MM/DD/<id>.mp3' by the record's UTC timestamp.

    Without a valid one: '<folder>/undated/<id>.mp3'. Built from integers only (promise S13).
    """
    source = _SOURCES[kind]
    parsed = clock.parse_utc(timestamp)
    day = f"{parsed.year:04d}/{parsed.month:02d}/{parsed.day:02d}" if parsed else "undated"
    return f"{source.folder}/{day}/{int(record_id)}.{source.extension}"


def get_platform_record_path(kind: MediaKind, record_id: int) -> str:
    """Return the platform path of a file's record, below the service root."""
    return f"/{_SOURCES[kind].table}/{record_id}"


def get_platform_file_path(kind: MediaKind, record_id: int) -> str:
    """Return the platform path of the file, below the service root."""
    return f"{get_platform_record_path(kind, record_id)}.{_SOURCES[kind].extension}"


def get_record_table(kind: MediaKind) -> str:
    """Return the table of the records that files of `kind` belong to."""
    return _SOURCES[kind].table


def register_hooks(mirror_db: Database, kinds: Iterable[MediaKind]) -> None:
    """Register hooks that queue the file of each stored record of `kinds`."""
    for kind in kinds:
        mirror_db.hooks.setdefault(_SOURCES[kind].table, []).append(_make_hook(kind))


def enqueue_missing(tx: Transaction, kind: MediaKind) -> int:
    """Queue files of records without a row in `media`; return how many."""
    source = _SOURCES[kind]
    rows = tx.execute(
        f'SELECT id, "{source.date_field}" FROM {source.table} AS record WHERE NOT EXISTS '
        "(SELECT 1 FROM media WHERE media.kind = ? AND media.record_id = record.id)",
        (kind,),
    ).fetchall()
    _enqueue(tx, kind, [(row[0], row[1]) for row in rows])
    return len(rows)


def enqueue_resized(tx: Transaction, kind: MediaKind, ids: Iterable[int] | None = None) -> int:
    """Queue files with another size than their record; return how many.

    `ids` None: all records. The platform had not finished such a file. It is kept until it is replaced.
    """
    source, id_condition = _SOURCES[kind], "AND record_id IN (SELECT value FROM json_each(:ids))"
    return tx.execute(
        "UPDATE media SET state = 'wanted', tries = 0, next_try_at = :now, updated_at = :stamp "
        f"FROM {source.table} AS record WHERE record.id = media.record_id AND kind = :kind "
        f"AND state = 'have' AND CAST({source.size_sql} AS INTEGER) NOT IN (0, media.size) "
        f"{'' if ids is None else id_condition}",
        {
            "now": clock.unix(),
            "stamp": clock.utc_text(),
            "kind": kind,
            "ids": None if ids is None else id_list(ids),
        },
    ).rowcount


def list_due(
    connection: sqlite3.Connection, now: float, kinds: Iterable[MediaKind] = AUTOMATIC_KINDS, limit: int = 50
) -> list[MediaFile]:
    """Return the files to download at `now` (Unix seconds).

    The newest records of each kind come first. At most `limit` per kind. A file that would wait longer than
    the longest delay is due, because the clock was set back.
    """
    files: list[MediaFile] = []
    for kind in kinds:
        rows = connection.execute(
            f"{_build_select(kind)} WHERE media.kind = ? AND media.state IN ('wanted', 'failed') "
            "AND coalesce(media.next_try_at, 0) NOT BETWEEN ? AND ? ORDER BY media.record_id DESC LIMIT ?",
            (kind, now + 0.001, now + retry_delays.DOWNLOADS[-1], limit),
        )
        files += [_make_file(row) for row in rows]
    return files


def find(connection: sqlite3.Connection, kind: MediaKind, record_id: int) -> MediaFile | None:
    """Return a record's file in any state; None without the record."""
    row = connection.execute(
        f"{_build_select(kind)} WHERE media.kind = ? AND media.record_id = ?", (kind, record_id)
    ).fetchone()
    if row is not None:
        return _make_file(row)
    source = _SOURCES[kind]
    row = connection.execute(
        f'SELECT "{source.date_field}", {source.size_sql}, {source.seconds_sql} FROM {source.table} AS record'
        " WHERE id = ?",
        (record_id,),
    ).fetchone()
    if row is None:
        return None
    path = relative_path(kind, record_id, row[0])
    return MediaFile(kind, record_id, path, _parse_positive_int(row[1]), 0, _parse_positive_int(row[2]))


def state(connection: sqlite3.Connection, kind: MediaKind, record_id: int) -> sqlite3.Row | None:
    """Return the row of `media` of a record, or None."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM media WHERE kind = ? AND record_id = ?", (kind, record_id)
    ).fetchone()
    return row


def count_by_state(
    connection: sqlite3.Connection, awaited: Collection[MediaKind]
) -> dict[tuple[str, str], int]:
    """Return the number of files by (kind, state).

    `awaited`: kinds that are downloaded automatically. Only their files are counted as 'wanted' and 'failed'.
    Files of other kinds are downloaded once, on request, so nothing waits for them.
    """
    rows = connection.execute("SELECT kind, state, files FROM _media_tally WHERE files > 0")
    return {
        (kind, state): files
        for kind, state, files in rows
        if kind in awaited or state not in ("wanted", "failed")
    }


def summarize_failed(connection: sqlite3.Connection, kinds: Collection[str]) -> sqlite3.Row:
    """Return number, time and error of failed downloads.

    Columns: n (files of `kinds` in state 'failed'), since (UTC text, the earliest time of their last
    attempts), why (the error of the latest attempt). since and why are None without failed downloads.
    """
    row: sqlite3.Row = connection.execute(
        "WITH failed AS (SELECT updated_at, last_error FROM media"
        " WHERE kind IN (SELECT value FROM json_each(?)) AND state = 'failed'"
        # As the condition of the index media_wanted.
        " AND state IN ('wanted', 'failed'))"
        " SELECT count(*) AS n, min(updated_at) AS since,"
        " (SELECT last_error FROM failed ORDER BY updated_at DESC LIMIT 1) AS why FROM failed",
        (json.dumps(list(kinds)),),
    ).fetchone()
    return row


def count_stored_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of all files in the archive in bytes."""
    return sum(count_bytes_by_kind(connection).values())


def count_bytes_by_kind(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the bytes of the archive by kind of file."""
    return dict(connection.execute("SELECT kind, bytes FROM _media_tally WHERE state = 'have'").fetchall())


def next_at(connection: sqlite3.Connection, kinds: Iterable[MediaKind] = AUTOMATIC_KINDS) -> float | None:
    """Return when the next download is due (Unix seconds), or None."""
    due_times = [
        connection.execute(
            "SELECT min(coalesce(next_try_at, 0)) FROM media "
            "WHERE kind = ? AND state IN ('wanted', 'failed')",
            (kind,),
        ).fetchone()[0]
        for kind in kinds
    ]
    return min((float(due_at) for due_at in due_times if due_at is not None), default=None)


def mark_present(tx: Transaction, file: MediaFile, size: int, sha256: str, doubt: str | None = None) -> None:
    """Record a complete file, and a `doubt` about it in `last_error`."""
    tx.execute(
        "INSERT INTO media (kind, record_id, path, size, sha256, state, tries, last_error, updated_at,"
        " checked_at) VALUES (?1, ?2, ?3, ?4, ?5, 'have', ?6, ?7, ?8, ?8) ON CONFLICT (kind, record_id)"
        " DO UPDATE SET path = excluded.path, size = excluded.size, sha256 = excluded.sha256, state = 'have',"
        " tries = excluded.tries, last_error = excluded.last_error, next_try_at = NULL,"
        " updated_at = excluded.updated_at, checked_at = excluded.checked_at",
        (file.kind, file.record_id, file.path, size, sha256, file.tries + 1, doubt, clock.utc_text()),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "have"})


def mark_failed(tx: Transaction, file: MediaFile, error: str) -> None:
    """Record a failed try and schedule the next one."""
    delay = backoff.delay(file.tries + 1, retry_delays.DOWNLOADS)
    tx.execute(
        "INSERT INTO media (kind, record_id, path, state, tries, last_error, next_try_at, updated_at) "
        "VALUES (?, ?, ?, 'failed', ?, ?, ?, ?) ON CONFLICT (kind, record_id) DO UPDATE SET "
        "state = 'failed', tries = excluded.tries, last_error = excluded.last_error, "
        "next_try_at = excluded.next_try_at, updated_at = excluded.updated_at WHERE state <> 'have'",
        (
            file.kind,
            file.record_id,
            file.path,
            file.tries + 1,
            error[:500],
            clock.unix() + delay,
            clock.utc_text(),
        ),
    )


def mark_missing(tx: Transaction, file: MediaFile) -> None:
    """Record that the platform has deleted the file and its record."""
    tx.execute(
        "UPDATE media SET state = 'gone', next_try_at = NULL, updated_at = ? "
        "WHERE kind = ? AND record_id = ? AND state <> 'have'",
        (clock.utc_text(), file.kind, file.record_id),
    )


def wake(tx: Transaction, since: str) -> None:
    """Make due all files queued or failed since an outage (UTC text)."""
    tx.execute(
        "UPDATE media SET next_try_at = ? WHERE state IN ('wanted', 'failed') AND updated_at >= ?",
        (clock.unix(), since),
    )


def _make_hook(kind: MediaKind) -> Callable[[Transaction, UpsertResult], None]:
    source = _SOURCES[kind]

    def hook(tx: Transaction, result: UpsertResult) -> None:
        records = [
            (record_id, record.values.get(source.date_field))
            for record in result.changed
            if (record_id := as_id(record.values.get("id"))) is not None
        ]
        _enqueue(tx, kind, records)
        enqueue_resized(tx, kind, [record_id for record_id, _ in records])

    return hook


def _enqueue(tx: Transaction, kind: MediaKind, records: list[tuple[int, object]]) -> None:
    now, timestamp = clock.unix(), clock.utc_text()
    tx.executemany(
        "INSERT OR IGNORE INTO media (kind, record_id, path, state, next_try_at, updated_at) "
        "VALUES (?, ?, ?, 'wanted', ?, ?)",
        [
            (kind, record_id, relative_path(kind, record_id, date), now, timestamp)
            for record_id, date in records
        ],
    )


def _build_select(kind: MediaKind) -> str:
    source = _SOURCES[kind]
    return (
        f"SELECT media.kind, media.record_id, media.path, {source.size_sql} AS expected, media.tries, "
        f"{source.seconds_sql} AS seconds, media.last_error "
        f"FROM media LEFT JOIN {source.table} AS record ON record.id = media.record_id"
    )


def _make_file(row: sqlite3.Row) -> MediaFile:
    return MediaFile(
        row["kind"],
        row["record_id"],
        row["path"],
        _parse_positive_int(row["expected"]),
        row["tries"],
        _parse_positive_int(row["seconds"]),
        row["last_error"],
    )


def _parse_positive_int(value: object) -> int | None:
    """Return a positive integer; None for null and 0 (still encoding)."""
    number = as_id(value)
    return number if number is not None and number > 0 else None
