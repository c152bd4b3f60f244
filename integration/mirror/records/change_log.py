"""Changes kept for pages that were away for a moment: numbered, announced after commit, pruned by count."""

from __future__ import annotations

import json

from integration.sqlite.database import Database
from integration.sqlite.transaction import Change, Transaction

MAX_STORED_CHANGES = 20_000
"""A page that missed more is told to load itself again."""

MAX_REPLAYED_CHANGES = 1_000
"""Changes worth replaying to one page; above that it is cheaper to load it again."""


def since(mirror_db: Database, number: int) -> list[Change] | None:
    """The changes after `number`, in order; None when not all of them are known, or they are too many."""
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
    """Forget all but the newest MAX_STORED_CHANGES; returns how many went."""
    return tx.execute(
        "DELETE FROM _changes WHERE id <= (SELECT max(id) FROM _changes) - ?", (MAX_STORED_CHANGES,)
    ).rowcount
