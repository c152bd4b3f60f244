"""Table `media`: which files of the platform are wanted, had, failed or gone (interface.md §5, §6 Media)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.mirror.records.rows import Upserted
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
"""`_checks` is checks.py's."""


def _tally(row: str, way: str) -> str:
    return (
        f"INSERT INTO _media_tally SELECT {row}.kind, {row}.state, 0, 0 WHERE NOT EXISTS"
        f" (SELECT 1 FROM _media_tally WHERE kind = {row}.kind AND state = {row}.state);"
        f" UPDATE _media_tally SET files = files {way} 1, bytes = bytes {way} coalesce({row}.size, 0)"
        f" WHERE kind = {row}.kind AND state = {row}.state;"
    )


_READ = (
    "INSERT INTO _checks (kind, record_id, checked_at) SELECT NEW.kind, NEW.record_id, NEW.updated_at"
    " WHERE NOT EXISTS (SELECT 1 FROM _checks WHERE kind = NEW.kind AND record_id = NEW.record_id);"
    " UPDATE _checks SET checked_at = NEW.updated_at WHERE kind = NEW.kind AND record_id = NEW.record_id"
    " AND checked_at < NEW.updated_at;"
)
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
 WHEN NEW.state = 'have' BEGIN {_READ} END;
CREATE TRIGGER IF NOT EXISTS media_read_update AFTER UPDATE OF state, updated_at ON media
 WHEN NEW.state = 'have' BEGIN {_READ} END;
CREATE TRIGGER IF NOT EXISTS media_tally_insert AFTER INSERT ON media BEGIN {_tally("NEW", "+")} END;
CREATE TRIGGER IF NOT EXISTS media_tally_delete AFTER DELETE ON media BEGIN {_tally("OLD", "-")} END;
CREATE TRIGGER IF NOT EXISTS media_tally_update AFTER UPDATE OF kind, state, size ON media BEGIN
  {_tally("OLD", "-")}
  {_tally("NEW", "+")}
END;
"""

Kind = Literal["recording", "voicemail", "trace", "pcap", "msdr_trace", "msdr_pcap", "fax"]
"""`trace` and `pcap` are a CDR's; a media session record's, whose id may be the same, have kinds of
their own."""
KINDS: tuple[Kind, ...] = ("recording", "voicemail", "fax")
"""What is fetched by itself; the others when somebody asks for them."""

GAPS: tuple[float, ...] = (2, 10, 60, 600, 3600, 21600, 86400)
"""Seconds between a failed download and the next; the last again and again."""


@dataclass(frozen=True, slots=True)
class _Origin:
    table: str
    date: str
    folder: str
    size: str
    """The column that tells a file's bytes, or NULL."""
    ending: str = "mp3"
    seconds: str = "NULL"
    """The column that tells how long its sound lasts, or NULL."""


_ORIGINS: dict[Kind, _Origin] = {
    "recording": _Origin("monitors", "timestamp", "recordings", "record.size", seconds="record.duration"),
    "voicemail": _Origin("voicemessages", "origtime", "voicemail", "NULL", seconds="record.duration"),
    "trace": _Origin("cdrs", "calldate", "traces/cdrs", "NULL", "trace"),
    "pcap": _Origin("cdrs", "calldate", "traces/cdrs", "NULL", "pcap"),
    "msdr_trace": _Origin("msdrs", "created_at", "traces/msdrs", "NULL", "trace"),
    "msdr_pcap": _Origin("msdrs", "created_at", "traces/msdrs", "NULL", "pcap"),
    "fax": _Origin("faxes", "created_at", "faxes", "NULL", "pdf"),
}


FOLDERS: dict[Kind, str] = {kind: origin.folder for kind, origin in _ORIGINS.items()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to fetch: `path` below data_dir, `size` in bytes and `seconds` of its sound where the record
    tells them, tries so far and what came of the last."""

    kind: Kind
    record_id: int
    path: str
    size: int | None
    tries: int
    seconds: int | None = None
    last_error: str | None = None


def relative_path(kind: Kind, record_id: int, stamp: object) -> str:
    """Where the file lies below data_dir: '<folder>/YYYY/MM/DD/<id>.mp3' by the record's UTC time stamp,
    '<folder>/undated/<id>.mp3' without a valid one. Made from integers only (promise S13)."""
    origin = _ORIGINS[kind]
    moment = clock.parse_stamp(stamp)
    day = f"{moment.year:04d}/{moment.month:02d}/{moment.day:02d}" if moment else "undated"
    return f"{origin.folder}/{day}/{int(record_id)}.{origin.ending}"


def record_path(kind: Kind, record_id: int) -> str:
    """The platform's path of the record that a file belongs to, below its base."""
    return f"/{_ORIGINS[kind].table}/{record_id}"


def file_path(kind: Kind, record_id: int) -> str:
    """The platform's path of the file itself."""
    return f"{record_path(kind, record_id)}.{_ORIGINS[kind].ending}"


def table_of(kind: Kind) -> str:
    """The collection's table whose record a file belongs to."""
    return _ORIGINS[kind].table


def follow(mirror: Database, kinds: Iterable[Kind]) -> None:
    """From now on, want the file of every record of these kinds that is stored."""
    for kind in kinds:
        mirror.hooks.setdefault(_ORIGINS[kind].table, []).append(_hook(kind))


def want_missing(tx: Transaction, kind: Kind) -> int:
    """Want the files of all records that have no row yet. Returns how many."""
    origin = _ORIGINS[kind]
    rows = tx.execute(
        f'SELECT id, "{origin.date}" FROM {origin.table} AS record WHERE NOT EXISTS '
        "(SELECT 1 FROM media WHERE media.kind = ? AND media.record_id = record.id)",
        (kind,),
    ).fetchall()
    _want(tx, kind, [(row[0], row[1]) for row in rows])
    return len(rows)


def want_resized(tx: Transaction, kind: Kind, ids: Iterable[int | None] | None = None) -> int:
    """Want again each file of another size than its record says by now: it was fetched while the platform
    still wrote it. Of these records, or of all; returns how many. The file stays until the next is there."""
    origin, among = _ORIGINS[kind], "AND record_id IN (SELECT value FROM json_each(:ids))"
    return tx.execute(
        "UPDATE media SET state = 'wanted', tries = 0, next_try_at = :now, updated_at = :stamp "
        f"FROM {origin.table} AS record WHERE record.id = media.record_id AND kind = :kind "
        f"AND state = 'have' AND CAST({origin.size} AS INTEGER) NOT IN (0, media.size) "
        f"{'' if ids is None else among}",
        {
            "now": clock.unix(),
            "stamp": clock.stamp(),
            "kind": kind,
            "ids": None if ids is None else json.dumps(list(ids)),
        },
    ).rowcount


def wanted(
    connection: sqlite3.Connection, now: float, kinds: Iterable[Kind] = KINDS, limit: int = 50
) -> list[Wanted]:
    """Files to fetch at `now` (Unix seconds), the newest record of each kind first.

    None waits longer than the longest gap: a clock that was set back may have said so.
    """
    found: list[Wanted] = []
    for kind in kinds:
        rows = connection.execute(
            f"{_select(kind)} WHERE media.kind = ? AND media.state IN ('wanted', 'failed') "
            "AND coalesce(media.next_try_at, 0) NOT BETWEEN ? AND ? ORDER BY media.record_id DESC LIMIT ?",
            (kind, now + 0.001, now + GAPS[-1], limit),
        )
        found += [_wanted(row) for row in rows]
    return found


def find(connection: sqlite3.Connection, kind: Kind, record_id: int) -> Wanted | None:
    """One record's file, whatever its state; None where no such record is mirrored."""
    row = connection.execute(
        f"{_select(kind)} WHERE media.kind = ? AND media.record_id = ?", (kind, record_id)
    ).fetchone()
    if row is not None:
        return _wanted(row)
    origin = _ORIGINS[kind]
    row = connection.execute(
        f'SELECT "{origin.date}", {origin.size}, {origin.seconds} FROM {origin.table} AS record WHERE id = ?',
        (record_id,),
    ).fetchone()
    if row is None:
        return None
    path = relative_path(kind, record_id, row[0])
    return Wanted(kind, record_id, path, _size(row[1]), 0, _size(row[2]))


def state(connection: sqlite3.Connection, kind: Kind, record_id: int) -> sqlite3.Row | None:
    """The record's row of `media`: path, size, sha256, state, tries, last_error, next_try_at, updated_at."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM media WHERE kind = ? AND record_id = ?", (kind, record_id)
    ).fetchone()
    return row


def counts(connection: sqlite3.Connection) -> dict[tuple[str, str], int]:
    """(kind, state) → how many."""
    return {
        (row[0], row[1]): row[2]
        for row in connection.execute("SELECT kind, state, files FROM _media_tally WHERE files > 0")
    }


def last_error(connection: sqlite3.Connection, kinds: Iterable[Kind] = KINDS) -> str | None:
    """Why the file that failed last did; None where none waits for another try."""
    row = connection.execute(
        "SELECT last_error FROM media WHERE state = 'failed' AND kind IN (SELECT value FROM json_each(?)) "
        "ORDER BY updated_at DESC LIMIT 1",
        (json.dumps(list(kinds)),),
    ).fetchone()
    return None if row is None else str(row[0])


def stored_bytes(connection: sqlite3.Connection) -> int:
    """What the archive holds."""
    row = connection.execute(
        "SELECT coalesce(sum(bytes), 0) FROM _media_tally WHERE state = 'have'"
    ).fetchone()
    return int(row[0])


def next_at(connection: sqlite3.Connection, kinds: Iterable[Kind] = KINDS) -> float | None:
    """When the next download is due (Unix seconds); None where none is wanted."""
    due = [
        connection.execute(
            "SELECT min(coalesce(next_try_at, 0)) FROM media "
            "WHERE kind = ? AND state IN ('wanted', 'failed')",
            (kind,),
        ).fetchone()[0]
        for kind in kinds
    ]
    return min((float(at) for at in due if at is not None), default=None)


def have(tx: Transaction, file: Wanted, size: int, sha256: str) -> None:
    """The file stands under its final name."""
    tx.execute(
        "INSERT INTO media (kind, record_id, path, size, sha256, state, tries, updated_at) "
        "VALUES (?, ?, ?, ?, ?, 'have', ?, ?) ON CONFLICT (kind, record_id) DO UPDATE SET "
        "path = excluded.path, size = excluded.size, sha256 = excluded.sha256, state = 'have', "
        "tries = excluded.tries, last_error = NULL, next_try_at = NULL, updated_at = excluded.updated_at",
        (file.kind, file.record_id, file.path, size, sha256, file.tries + 1, clock.stamp()),
    )
    tx.announce("media", f"{file.kind}/{file.record_id}", {"state": "have"})


def failed(tx: Transaction, file: Wanted, error: str) -> None:
    """A try failed: the next one after the next gap."""
    gap = GAPS[min(file.tries, len(GAPS) - 1)]
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
            clock.unix() + gap,
            clock.stamp(),
        ),
    )


def gone(tx: Transaction, file: Wanted) -> None:
    """The platform has neither the file nor its record any more."""
    tx.execute(
        "UPDATE media SET state = 'gone', next_try_at = NULL, updated_at = ? "
        "WHERE kind = ? AND record_id = ? AND state <> 'have'",
        (clock.stamp(), file.kind, file.record_id),
    )


def wake(tx: Transaction, since: str) -> None:
    """The platform is back: what failed since `since` (UTC text) is tried at once."""
    tx.execute(
        "UPDATE media SET next_try_at = ? WHERE state IN ('wanted', 'failed') AND updated_at >= ?",
        (clock.unix(), since),
    )


def _hook(kind: Kind) -> Callable[[Transaction, Upserted], None]:
    origin = _ORIGINS[kind]

    def hook(tx: Transaction, outcome: Upserted) -> None:
        records = [
            (document.values.get("id"), document.values.get(origin.date)) for document in outcome.changed
        ]
        _want(tx, kind, records)
        want_resized(tx, kind, [_whole(number) for number, _ in records])

    return hook


def _want(tx: Transaction, kind: Kind, records: list[tuple[object, object]]) -> None:
    now, stamp = clock.unix(), clock.stamp()
    tx.executemany(
        "INSERT OR IGNORE INTO media (kind, record_id, path, state, next_try_at, updated_at) "
        "VALUES (?, ?, ?, 'wanted', ?, ?)",
        [
            (kind, number, relative_path(kind, number, date), now, stamp)
            for number, date in ((_whole(value), date) for value, date in records)
            if number is not None
        ],
    )


def _select(kind: Kind) -> str:
    origin = _ORIGINS[kind]
    return (
        f"SELECT media.kind, media.record_id, media.path, {origin.size} AS expected, media.tries, "
        f"{origin.seconds} AS seconds, media.last_error "
        f"FROM media LEFT JOIN {origin.table} AS record ON record.id = media.record_id"
    )


def _wanted(row: sqlite3.Row) -> Wanted:
    return Wanted(
        row["kind"],
        row["record_id"],
        row["path"],
        _size(row["expected"]),
        row["tries"],
        _size(row["seconds"]),
        row["last_error"],
    )


def _size(value: object) -> int | None:
    """A record's size where it is one; the platform also sends null, and 0 while it is still encoding."""
    number = _whole(value)
    return number if number is not None and number > 0 else None


def _whole(value: object) -> int | None:
    """An integer in whatever type it came."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
