"""Change log: numbered changes for live streams that reconnect."""

from __future__ import annotations

import json

from integration.sqlite.database import Database
from integration.sqlite.transaction import Change, Transaction

MAX_STORED_CHANGES = 20_000
"""Number of newest changes kept. A page that missed more has to reload."""

MAX_REPLAYED_CHANGES = 1_000
"""Number of changes replayed to one page. Above it, a reload is cheaper."""


def since(mirror_db: Database, number: int) -> list[Change] | None:
    """Return the changes after change `number`, in order.

    None if some of them are no longer stored, if `number` is above the newest change, or if there are more
    than MAX_REPLAYED_CHANGES.
    """
    with mirror_db.read() as connection:
        first, last = connection.execute("SELECT min(id), max(id) FROM _changes").fetchone()
        if last is None:
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


def prune(tx: Transaction) -> int:
    """Delete all but the newest MAX_STORED_CHANGES changes; return how many."""
    return tx.execute(
        "DELETE FROM _changes WHERE id <= (SELECT max(id) FROM _changes) - ?", (MAX_STORED_CHANGES,)
    ).rowcount
