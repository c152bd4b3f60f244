"""Change log: numbered changes for live streams that reconnect."""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
from pathlib import Path

from integration.core import clock
from integration.core.errors import StorageError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Change, Transaction

log = logging.getLogger(__name__)

MAX_EVENT_AGE_SECONDS = 12 * 3600
"""Seconds after the end of a call, or after a message, in which it is an event when it is first stored."""

MAX_DELETED = 10_000
"""Changes that one transaction deletes at most."""

HIDDEN_TOPIC = "past_call"
"""Topic of changes that pages do not receive."""

MAX_REPLAYED_CHANGES = 1_000
"""Number of changes replayed to one page. Above it, a reload is cheaper."""


def find_bounds(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the number after the last deleted change, and the newest number, 0 without one.

    Rows have increasing numbers, but not all numbers: `Transaction.announce_many`.
    """
    row = connection.execute(
        "SELECT (SELECT CAST(value AS INTEGER) FROM _meta WHERE key = 'pruned'),"
        " (SELECT seq FROM sqlite_sequence WHERE name = '_changes')"
    ).fetchone()
    return row[0] + 1, row[1] or 0


def since(mirror_db: Database, number: int) -> list[Change] | None:
    """Return the changes after change `number`, in order.

    None if some of them are no longer stored, if `number` is above the newest change, or if there are more
    than MAX_REPLAYED_CHANGES.
    """
    with mirror_db.read() as connection:
        oldest, newest = find_bounds(connection)
        if not oldest - 1 <= number <= newest:
            return None
        rows = connection.execute(
            "SELECT id, topic, key, data FROM _changes WHERE id > ? AND topic <> ? ORDER BY id LIMIT ?",
            (number, HIDDEN_TOPIC, MAX_REPLAYED_CHANGES + 1),
        ).fetchall()
    if len(rows) > MAX_REPLAYED_CHANGES:
        return None
    return [Change(row["id"], row["topic"], row["key"], json.loads(row["data"])) for row in rows]


def find_first_event_time(connection: sqlite3.Connection, now: float) -> str:
    """Return the UTC text from which what is stored for the first time is an event for programs.

    What was over before this mirror.db existed is none, or an initial sync would send it. A time after `now`
    (Unix seconds) comes from a clock that was wrong.
    """
    limit, current = clock.utc_text(now - MAX_EVENT_AGE_SECONDS), clock.utc_text(now)
    row = connection.execute("SELECT value FROM _meta WHERE key = 'events since'").fetchone()
    return max(limit, row[0]) if row is not None and row[0] <= current else limit


def get_epoch(connection: sqlite3.Connection) -> str:
    """Return the epoch of this mirror.db.

    A rebuilt mirror.db has another epoch, which distinguishes its change numbers.
    """
    return str(connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()[0])


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""File whose content changes with each start of the computer: random(4)."""


def renew_epoch(connection: sqlite3.Connection) -> None:
    """Set a new epoch: open pages reload."""
    connection.execute("UPDATE _meta SET value = ? WHERE key = 'epoch'", (secrets.token_hex(8),))


def follow_file(mirror_db: Database) -> None:
    """Set a new epoch if the last commits may be lost, or if the file was replaced.

    A power failure can lose the last commits, and an older copy lacks them: the next changes would repeat
    numbers that pages and programs have received. A killed process loses no commit, nor does a computer that
    was stopped after a clean stop of Switchroom.
    """
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    file = f"{boot} {mirror_db.path.stat().st_ino}"

    def work(tx: Transaction) -> bool:
        stored = dict(
            tuple(row)
            for row in tx.execute("SELECT key, value FROM _meta WHERE key IN ('file', 'clean stop')")
        )
        if stored == {"file": file}:
            return False
        previous = stored.get("file", "")
        is_other_file = previous.rpartition(" ")[2] != file.rpartition(" ")[2]
        if is_other_file or (previous != file and "clean stop" not in stored):
            renew_epoch(tx.connection)
        tx.execute("INSERT OR REPLACE INTO _meta VALUES ('file', ?)", (file,))
        tx.execute("DELETE FROM _meta WHERE key = 'clean stop'")
        return "clean stop" in stored

    # Pages work on a full disk too. A worker that replaces a killed one writes nothing.
    try:
        if mirror_db.write(work):
            # Synced before any change, or a power failure could bring back the mark with an older state.
            mirror_db.run_exclusive(lambda writer: writer.execute("PRAGMA wal_checkpoint(FULL)").fetchone())
    except StorageError as error:
        log.warning("programs may miss changes after a power failure, because of this start: %s", error)


def record_clean_stop(tx: Transaction) -> None:
    """Record that no later commit exists."""
    tx.execute("INSERT OR REPLACE INTO _meta VALUES ('clean stop', '')")


def prune(tx: Transaction, keep: int) -> int:
    """Delete the oldest changes, at most MAX_DELETED, of which `keep` stay; return how many."""
    row = tx.execute("SELECT id FROM _changes ORDER BY id DESC LIMIT 1 OFFSET ?", (keep,)).fetchone()
    if row is None:
        return 0
    row = tx.execute(
        "SELECT max(id) FROM (SELECT id FROM _changes WHERE id <= ? ORDER BY id LIMIT ?)",
        (row[0], MAX_DELETED),
    ).fetchone()
    tx.execute("INSERT OR REPLACE INTO _meta VALUES ('pruned', ?)", (str(row[0]),))
    return tx.execute("DELETE FROM _changes WHERE id <= ?", (row[0],)).rowcount
