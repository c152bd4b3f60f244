"""Records that the platform lists no longer: suspected, confirmed, kept against it (interface.md §6).

What decides is sync/deletions.py; here is only how it stands in the tables. A row counts as not seen by a
walk if it was last seen before that walk began.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _deletions (
    collection TEXT NOT NULL,
    key ANY NOT NULL,
    state TEXT NOT NULL,
    how TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (collection, key)
) STRICT, WITHOUT ROWID;
"""

Key = int | str
How = Literal["404", "walk", "aged", "accepted"]
"""What confirmed it: its own path, a second complete walk, the old end of the history, a person."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """How a complete walk left a collection: `present` rows, how many of them it did not see, and the lowest
    key of those it did."""

    present: int
    unseen: int
    lowest_seen: Key | None


def unseen(connection: sqlite3.Connection, of: Resource, walked_from: str) -> Unseen:
    row = connection.execute(
        f'SELECT count(*), sum(_last_seen < :walk), min(CASE WHEN _last_seen >= :walk THEN "{of.key}" END) '
        f'FROM "{of.table}" WHERE _missing_since IS NULL',
        {"walk": walked_from},
    ).fetchone()
    kept = connection.execute(
        f'SELECT count(*) FROM _deletions AS d JOIN "{of.table}" AS t ON t."{of.key}" = d.key '
        "WHERE d.collection = ? AND d.state = 'kept' AND t._missing_since IS NULL AND t._last_seen < ?",
        (of.collection, walked_from),
    ).fetchone()[0]
    return Unseen(row[0], (row[1] or 0) - kept, row[2])


def keys(
    connection: sqlite3.Connection, of: Resource, walked_from: str, *, below: Key | None = None
) -> list[Key]:
    """The unseen rows' keys, ascending; with `below` only those under it."""
    rows = connection.execute(
        f'SELECT "{of.key}" FROM "{of.table}" AS t WHERE _missing_since IS NULL AND _last_seen < :walk '
        f'AND (:below IS NULL OR "{of.key}" < :below) '
        f'AND NOT EXISTS (SELECT 1 FROM _deletions AS d WHERE d.collection = :name AND d.key = t."{of.key}" '
        f"AND d.state = 'kept') ORDER BY \"{of.key}\"",
        {"walk": walked_from, "below": below, "name": of.collection},
    )
    return [row[0] for row in rows]


def suspected_before(connection: sqlite3.Connection, of: Resource, walked_from: str) -> set[Key]:
    """Keys that an earlier walk missed already."""
    rows = connection.execute(
        "SELECT key FROM _deletions WHERE collection = ? AND state = 'suspected' AND since < ?",
        (of.collection, walked_from),
    )
    return {row[0] for row in rows}


def suspect(tx: Transaction, of: Resource, keys: Collection[Key], walked_from: str) -> None:
    """A walk that began at `walked_from` missed them; the next one that does confirms it."""
    tx.executemany(
        "INSERT OR IGNORE INTO _deletions VALUES (?, ?, 'suspected', 'walk', ?)",
        [(of.collection, key, walked_from) for key in keys],
    )


def seen_again(tx: Transaction, of: Resource, walked_from: str) -> None:
    """Forget what was noted about rows that the walk saw."""
    tx.execute(
        f'DELETE FROM _deletions WHERE collection = ? AND key IN (SELECT "{of.key}" FROM "{of.table}" '
        "WHERE _missing_since IS NULL AND _last_seen >= ?)",
        (of.collection, walked_from),
    )


def alive(tx: Transaction, of: Resource, keys: Collection[Key], at: str) -> None:
    """Their own paths answered: they were seen, whatever the list says."""
    tx.execute(
        f'UPDATE "{of.table}" SET _last_seen = max(_last_seen, ?) '
        f'WHERE "{of.key}" IN (SELECT value FROM json_each(?))',
        (at, json.dumps(list(keys))),
    )


def confirm(tx: Transaction, of: Resource, keys: Sequence[Key], walked_from: str, how: How) -> list[Key]:
    """Mark rows as gone. What was seen meanwhile is left alone; returns the keys that were marked."""
    now = clock.stamp()
    marked = [
        row[0]
        for row in tx.execute(
            f'UPDATE "{of.table}" SET _missing_since = ? WHERE _missing_since IS NULL AND _last_seen < ? '
            f'AND "{of.key}" IN (SELECT value FROM json_each(?)) RETURNING "{of.key}"',
            (now, walked_from, json.dumps(list(keys))),
        )
    ]
    tx.executemany(
        "INSERT OR REPLACE INTO _deletions VALUES (?, ?, 'confirmed', ?, ?)",
        [(of.collection, key, how, now) for key in marked],
    )
    return marked


def legs(tx: Transaction, of: Resource, fields: Sequence[str], keys: Sequence[Key]) -> list[int]:
    """The legs that these records are facts about, by the `fields` that name them."""
    found: set[int] = set()
    for name in fields:
        rows = tx.execute(
            f'SELECT "{name}" FROM "{of.table}" WHERE "{of.key}" IN (SELECT value FROM json_each(?))',
            (json.dumps(list(keys)),),
        )
        found.update(row[0] for row in rows if isinstance(row[0], int) and row[0])
    return sorted(found)


def bring_back(tx: Transaction, of: Resource) -> list[Key]:
    """Undo: confirmed rows are present again and stay so whatever walks miss. Returns their keys."""
    back = [
        row[0]
        for row in tx.execute(
            f'UPDATE "{of.table}" SET _missing_since = NULL WHERE _missing_since IS NOT NULL '
            f'AND "{of.key}" IN (SELECT key FROM _deletions WHERE collection = ? '
            f"AND state = 'confirmed') "
            f'RETURNING "{of.key}"',
            (of.collection,),
        )
    ]
    tx.executemany(
        "UPDATE _deletions SET state = 'kept', since = ? WHERE collection = ? AND key = ?",
        [(clock.stamp(), of.collection, key) for key in back],
    )
    tx.execute("DELETE FROM _deletions WHERE collection = ? AND state = 'suspected'", (of.collection,))
    return back
