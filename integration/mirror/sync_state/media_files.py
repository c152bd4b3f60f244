"""Table `media`: which files of the platform are wanted, had, failed or gone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from integration.core import backoff, clock
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
    PRIMARY KEY (kind, record_id)
) STRICT, WITHOUT ROWID;
-- serves the downloads: what is wanted, newest record first
CREATE INDEX IF NOT EXISTS media_wanted ON media (kind, record_id) WHERE state IN ('wanted', 'failed');
-- serves the scheduler: when the next download is due
CREATE INDEX IF NOT EXISTS media_due ON media (kind, next_try_at) WHERE state IN ('wanted', 'failed');
CREATE TABLE IF NOT EXISTS _checks (
    kind TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    checked_at TEXT NOT NULL,
    found_at TEXT,
    finding TEXT,
    PRIMARY KEY (kind, record_id)
) STRICT, WITHOUT ROWID;
-- serves the System page: files that were damaged
CREATE INDEX IF NOT EXISTS _checks_found ON _checks (found_at) WHERE finding IS NOT NULL;
"""
"""`_checks` is scrub_log.py's."""


def _build_tally_update(row: str, sign: str) -> str:
    return (
        f"INSERT INTO _media_tally SELECT {row}.kind, {row}.state, 0, 0 WHERE NOT EXISTS"
        f" (SELECT 1 FROM _media_tally WHERE kind = {row}.kind AND state = {row}.state);"
        f" UPDATE _media_tally SET files = files {sign} 1, bytes = bytes {sign} coalesce({row}.size, 0)"
        f" WHERE kind = {row}.kind AND state = {row}.state;"
    )


_RECORD_READ_SQL = (
    "INSERT INTO _checks (kind, record_id, checked_at) SELECT NEW.kind, NEW.record_id, NEW.updated_at"
    " WHERE NOT EXISTS (SELECT 1 FROM _checks WHERE kind = NEW.kind AND record_id = NEW.record_id);"
    " UPDATE _checks SET checked_at = NEW.updated_at WHERE kind = NEW.kind AND record_id = NEW.record_id"
    " AND checked_at < NEW.updated_at;"
)
_ADD_NEW = _build_tally_update("NEW", "+")
_SUBTRACT_OLD = _build_tally_update("OLD", "-")

TABLES += f"""
-- How many files are in which state and how large they are: counting a million takes longer than a page may
CREATE TABLE IF NOT EXISTS _media_tally (
    kind TEXT NOT NULL, state TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;
INSERT INTO _media_tally SELECT kind, state, count(*), coalesce(sum(size), 0) FROM media
 WHERE NOT EXISTS (SELECT 1 FROM _media_tally) GROUP BY kind, state;
-- serves the turn of the checks: the file that nobody has read for longest. A download is a reading, too
CREATE INDEX IF NOT EXISTS _checks_checked ON _checks (checked_at);
INSERT INTO _checks (kind, record_id, checked_at) SELECT kind, record_id, updated_at FROM media AS m
 WHERE state = 'have' AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'media_read_insert')
   AND NOT EXISTS (SELECT 1 FROM _checks AS c WHERE c.kind = m.kind AND c.record_id = m.record_id);
CREATE TRIGGER IF NOT EXISTS media_read_insert AFTER INSERT ON media
 WHEN NEW.state = 'have' BEGIN {_RECORD_READ_SQL} END;
CREATE TRIGGER IF NOT EXISTS media_read_update AFTER UPDATE OF state, updated_at ON media
 WHEN NEW.state = 'have' BEGIN {_RECORD_READ_SQL} END;
CREATE TRIGGER IF NOT EXISTS media_tally_insert AFTER INSERT ON media BEGIN {_ADD_NEW} END;
CREATE TRIGGER IF NOT EXISTS media_tally_delete AFTER DELETE ON media BEGIN {_SUBTRACT_OLD} END;
CREATE TRIGGER IF NOT EXISTS media_tally_update AFTER UPDATE OF kind, state, size ON media BEGIN
  {_SUBTRACT_OLD}
  {_ADD_NEW}
END;
"""

MediaKind = Literal["recording", "voicemail", "trace", "pcap", "msdr_trace", "msdr_pcap", "fax"]
"""`trace` and `pcap` are a CDR's; a media session record's, whose id may be the same, have kinds of
their own."""
AUTOMATIC_KINDS: tuple[MediaKind, ...] = ("recording", "voicemail", "fax")
"""What is fetched by itself; the others when somebody asks for them."""

RETRY_DELAYS: tuple[float, ...] = (2, 10, 60, 600, 3600, 21600, 86400)
"""Seconds between a failed download and the next; the last again and again."""


@dataclass(frozen=True, slots=True)
class _MediaSource:
    table: str
    date_field: str
    folder: str
    size_sql: str
    """The column that tells a file's bytes, or NULL."""
    extension: str = "mp3"
    seconds_sql: str = "NULL"
    """The column that tells how long its sound lasts, or NULL."""


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


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file to fetch: `path` below data_dir, `size` in bytes and `seconds` of its sound where the record
    tells them, tries so far and what came of the last."""

    kind: MediaKind
    record_id: int
    path: str
    size: int | None
    tries: int
    seconds: int | None = None
    last_error: str | None = None


def relative_path(kind: MediaKind, record_id: int, timestamp: object) -> str:
    """Where the file lies below data_dir: '<folder>/YYYY/MM/DD/<id>.mp3' by the record's UTC time stamp,
    '<folder>/undated/<id>.mp3' without a valid one. Made from integers only (promise S13)."""
    source = _SOURCES[kind]
    parsed = clock.parse_utc(timestamp)
    day = f"{parsed.year:04d}/{parsed.month:02d}/{parsed.day:02d}" if parsed else "undated"
    return f"{source.folder}/{day}/{int(record_id)}.{source.extension}"


def get_platform_record_path(kind: MediaKind, record_id: int) -> str:
    """The platform's path of the record that a file belongs to, below its base."""
    return f"/{_SOURCES[kind].table}/{record_id}"


def get_platform_file_path(kind: MediaKind, record_id: int) -> str:
    """The platform's path of the file itself."""
    return f"{get_platform_record_path(kind, record_id)}.{_SOURCES[kind].extension}"


def get_record_table(kind: MediaKind) -> str:
    """The collection's table whose record a file belongs to."""
    return _SOURCES[kind].table


def register_hooks(mirror_db: Database, kinds: Iterable[MediaKind]) -> None:
    """From now on, want the file of every record of these kinds that is stored."""
    for kind in kinds:
        mirror_db.hooks.setdefault(_SOURCES[kind].table, []).append(_make_hook(kind))


def enqueue_missing(tx: Transaction, kind: MediaKind) -> int:
    """Want the files of all records that have no row yet. Returns how many."""
    source = _SOURCES[kind]
    rows = tx.execute(
        f'SELECT id, "{source.date_field}" FROM {source.table} AS record WHERE NOT EXISTS '
        "(SELECT 1 FROM media WHERE media.kind = ? AND media.record_id = record.id)",
        (kind,),
    ).fetchall()
    _enqueue(tx, kind, [(row[0], row[1]) for row in rows])
    return len(rows)


def enqueue_resized(tx: Transaction, kind: MediaKind, ids: Iterable[int] | None = None) -> int:
    """Want again each file of another size than its record says by now: it was fetched while the platform
    still wrote it. Of these records, or of all; returns how many. The file stays until the next is there."""
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
    """Files to fetch at `now` (Unix seconds), the newest record of each kind first.

    None waits longer than the longest gap: a clock that was set back may have said so.
    """
    files: list[MediaFile] = []
    for kind in kinds:
        rows = connection.execute(
            f"{_build_select(kind)} WHERE media.kind = ? AND media.state IN ('wanted', 'failed') "
            "AND coalesce(media.next_try_at, 0) NOT BETWEEN ? AND ? ORDER BY media.record_id DESC LIMIT ?",
            (kind, now + 0.001, now + RETRY_DELAYS[-1], limit),
        )
        files += [_make_file(row) for row in rows]
    return files


def find(connection: sqlite3.Connection, kind: MediaKind, record_id: int) -> MediaFile | None:
    """One record's file, whatever its state; None where no such record is mirrored."""
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
    """The record's row of `media`: path, size, sha256, state, tries, last_error, next_try_at, updated_at."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM media WHERE kind = ? AND record_id = ?", (kind, record_id)
    ).fetchone()
    return row


def count_by_state(connection: sqlite3.Connection) -> dict[tuple[str, str], int]:
    """(kind, state) → how many."""
    return {
        (row[0], row[1]): row[2]
        for row in connection.execute("SELECT kind, state, files FROM _media_tally WHERE files > 0")
    }


def find_last_error(
    connection: sqlite3.Connection, kinds: Iterable[MediaKind] = AUTOMATIC_KINDS
) -> str | None:
    """Why the file that failed last did; None where none waits for another try."""
    row = connection.execute(
        "SELECT last_error FROM media WHERE state = 'failed' AND kind IN (SELECT value FROM json_each(?)) "
        "ORDER BY updated_at DESC LIMIT 1",
        (json.dumps(list(kinds)),),
    ).fetchone()
    return None if row is None else str(row[0])


def count_stored_bytes(connection: sqlite3.Connection) -> int:
    """What the archive holds."""
    row = connection.execute(
        "SELECT coalesce(sum(bytes), 0) FROM _media_tally WHERE state = 'have'"
    ).fetchone()
    return int(row[0])


def next_at(connection: sqlite3.Connection, kinds: Iterable[MediaKind] = AUTOMATIC_KINDS) -> float | None:
    """When the next download is due (Unix seconds); None where none is wanted."""
    due_times = [
        connection.execute(
            "SELECT min(coalesce(next_try_at, 0)) FROM media "
            "WHERE kind = ? AND state IN ('wanted', 'failed')",
            (kind,),
        ).fetchone()[0]
        for kind in kinds
    ]
    return min((float(due_at) for due_at in due_times if due_at is not None), default=None)


def mark_present(tx: Transaction, file: MediaFile, size: int, sha256: str) -> None:
    """The file stands under its final name."""
    tx.execute(
        "INSERT INTO media (kind, record_id, path, size, sha256, state, tries, updated_at) "
        "VALUES (?, ?, ?, ?, ?, 'have', ?, ?) ON CONFLICT (kind, record_id) DO UPDATE SET "
        "path = excluded.path, size = excluded.size, sha256 = excluded.sha256, state = 'have', "
        "tries = excluded.tries, last_error = NULL, next_try_at = NULL, updated_at = excluded.updated_at",
        (file.kind, file.record_id, file.path, size, sha256, file.tries + 1, clock.utc_text()),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "have"})


def mark_failed(tx: Transaction, file: MediaFile, error: str) -> None:
    """A try failed: the next one after the next gap."""
    delay = backoff.delay(file.tries + 1, RETRY_DELAYS)
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
    """The platform has neither the file nor its record any more."""
    tx.execute(
        "UPDATE media SET state = 'gone', next_try_at = NULL, updated_at = ? "
        "WHERE kind = ? AND record_id = ? AND state <> 'have'",
        (clock.utc_text(), file.kind, file.record_id),
    )


def wake(tx: Transaction, since: str) -> None:
    """The platform is back: what failed since `since` (UTC text) is tried at once."""
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
    """A record's size where it is one; the platform also sends null, and 0 while it is still encoding."""
    number = as_id(value)
    return number if number is not None and number > 0 else None
