"""Change log: numbered changes for live streams that reconnect."""

from __future__ import annotations

import json
import secrets
import sqlite3
from pathlib import Path

from integration.sqlite.database import Database
from integration.sqlite.transaction import Change, Transaction

MAX_STORED_CHANGES = 20_000
"""Number of newest changes kept. A page that missed more has to reload."""

MAX_REPLAYED_CHANGES = 1_000
"""Number of changes replayed to one page. Above it, a reload is cheaper."""


def find_bounds(connection: sqlite3.Connection) -> tuple[int | None, int | None]:
    """Return the oldest and the newest stored change; None without changes.

    SQLite finds a single min() or max() in the index, but reads all rows for both: 10,000 take 0.4 ms, and
    each webhook needs them.
    """
    row = connection.execute(
        "SELECT (SELECT min(id) FROM _changes), (SELECT max(id) FROM _changes)"
    ).fetchone()
    return row[0], row[1]


def since(mirror_db: Database, number: int) -> list[Change] | None:
    """Return the changes after change `number`, in order.

    None if some of them are no longer stored, if `number` is above the newest change, or if there are more
    than MAX_REPLAYED_CHANGES.
    """
    with mirror_db.read() as connection:
        first, last = find_bounds(connection)
        if first is None or last is None:
            return [] if number == 0 else None
        if number > last or number < first - 1:
            return None
        rows = connection.execute(
            "SELECT id, topic, key, data FROM _changes WHERE id > ? ORDER BY id LIMIT ?",
            (number, MAX_REPLAYED_CHANGES + 1),
        ).fetchall()
    if len(rows) > MAX_REPLAYED_CHANGES:
        return None
    return [Change(row["id"], row["topic"], row["key"], json.loads(row["data"])) for row in rows]


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


def follow_file(tx: Transaction, path: Path) -> None:
    """Set a new epoch if the computer was started, or the file was replaced, since the last call.

    A power failure can lose the last commits, and an older copy lacks them: the next changes would repeat
    numbers that open pages have received. These then reload. A killed process loses no commit.
    """
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    file = f"{boot} {path.stat().st_ino}"
    row = tx.execute("SELECT value FROM _meta WHERE key = 'file'").fetchone()
    if row is None or row[0] != file:
        tx.execute("INSERT OR REPLACE INTO _meta VALUES ('file', ?)", (file,))
        renew_epoch(tx.connection)


def prune(tx: Transaction) -> int:
    """Delete all but the newest MAX_STORED_CHANGES changes; return how many."""
    return tx.execute(
        "DELETE FROM _changes WHERE id <= (SELECT max(id) FROM _changes) - ?", (MAX_STORED_CHANGES,)
    ).rowcount
