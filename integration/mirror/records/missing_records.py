"""Records that the platform lists no longer: suspected, confirmed, kept against it (docs/sync.md).

What decides is sync/reading/deletions.py; here is only how it stands in the tables. A row counts as not seen
by a walk if it was last seen before that walk began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.ids import id_list
from integration.mirror.records.rows import Key
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

ConfirmedBy = Literal["404", "walk", "aged", "accepted"]
"""What confirmed it: its own path, a second complete walk, the old end of the history, a person."""


@dataclass(frozen=True, slots=True)
class UnseenRecords:
    """How a complete walk left a collection: `present` rows, how many of them it did not see, and the lowest
    key of those it did."""

    present: int
    unseen: int
    lowest_seen: Key | None


def count_unseen(connection: sqlite3.Connection, resource: Resource, sync_started_at: str) -> UnseenRecords:
    row = connection.execute(
        "SELECT count(*), sum(_last_seen < :walk), min(CASE WHEN _last_seen >= :walk"
        f' THEN "{resource.key}" END) '
        f'FROM "{resource.table}" WHERE _missing_since IS NULL',
        {"walk": sync_started_at},
    ).fetchone()
    kept_count = connection.execute(
        f'SELECT count(*) FROM _deletions AS d JOIN "{resource.table}" AS t ON t."{resource.key}" = d.key '
        "WHERE d.collection = ? AND d.state = 'kept' AND t._missing_since IS NULL AND t._last_seen < ?",
        (resource.collection, sync_started_at),
    ).fetchone()[0]
    return UnseenRecords(row[0], (row[1] or 0) - kept_count, row[2])


def list_unseen_keys(
    connection: sqlite3.Connection, resource: Resource, sync_started_at: str, *, below_key: Key | None = None
) -> list[Key]:
    """The unseen rows' keys, ascending; with `below_key` only those under it."""
    rows = connection.execute(
        f'SELECT "{resource.key}" FROM "{resource.table}" AS t WHERE _missing_since IS NULL'
        " AND _last_seen < :walk "
        f'AND (:below IS NULL OR "{resource.key}" < :below) '
        "AND NOT EXISTS (SELECT 1 FROM _deletions AS d WHERE d.collection = :name"
        f' AND d.key = t."{resource.key}" '
        f"AND d.state = 'kept') ORDER BY \"{resource.key}\"",
        {"walk": sync_started_at, "below": below_key, "name": resource.collection},
    )
    return [row[0] for row in rows]


def list_suspected(connection: sqlite3.Connection, resource: Resource, sync_started_at: str) -> set[Key]:
    """Keys that an earlier walk missed already."""
    rows = connection.execute(
        "SELECT key FROM _deletions WHERE collection = ? AND state = 'suspected' AND since < ?",
        (resource.collection, sync_started_at),
    )
    return {row[0] for row in rows}


def mark_suspected(tx: Transaction, resource: Resource, keys: Collection[Key], sync_started_at: str) -> None:
    """A walk that began at `sync_started_at` missed them; the next one that does confirms it."""
    tx.executemany(
        "INSERT OR IGNORE INTO _deletions VALUES (?, ?, 'suspected', 'walk', ?)",
        [(resource.collection, key, sync_started_at) for key in keys],
    )


def clear_seen(tx: Transaction, resource: Resource, sync_started_at: str) -> None:
    """Forget what was noted about rows that the walk saw."""
    tx.execute(
        f'DELETE FROM _deletions WHERE collection = ? AND key IN (SELECT "{resource.key}"'
        f' FROM "{resource.table}" '
        "WHERE _missing_since IS NULL AND _last_seen >= ?)",
        (resource.collection, sync_started_at),
    )


def mark_seen(tx: Transaction, resource: Resource, keys: Collection[Key], seen_at: str) -> None:
    """Their own paths answered: they were seen, whatever the list says."""
    tx.execute(
        f'UPDATE "{resource.table}" SET _last_seen = max(_last_seen, ?) '
        f'WHERE "{resource.key}" IN (SELECT value FROM json_each(?))',
        (seen_at, id_list(keys)),
    )


def confirm(
    tx: Transaction, resource: Resource, keys: Sequence[Key], sync_started_at: str, confirmed_by: ConfirmedBy
) -> list[Key]:
    """Mark rows as gone. What was seen meanwhile is left alone; returns the keys that were marked."""
    now = clock.utc_text()
    confirmed_keys = [
        row[0]
        for row in tx.execute(
            f'UPDATE "{resource.table}" SET _missing_since = ? WHERE _missing_since IS NULL'
            " AND _last_seen < ? "
            f'AND "{resource.key}" IN (SELECT value FROM json_each(?)) RETURNING "{resource.key}"',
            (now, sync_started_at, id_list(keys)),
        )
    ]
    tx.executemany(
        "INSERT OR REPLACE INTO _deletions VALUES (?, ?, 'confirmed', ?, ?)",
        [(resource.collection, key, confirmed_by, now) for key in confirmed_keys],
    )
    return confirmed_keys


def find_leg_ids(
    tx: Transaction, resource: Resource, fields: Sequence[str], keys: Sequence[Key]
) -> list[int]:
    """The legs that these records are facts about, by the `fields` that name them."""
    leg_ids: set[int] = set()
    for name in fields:
        rows = tx.execute(
            f'SELECT "{name}" FROM "{resource.table}" WHERE "{resource.key}"'
            " IN (SELECT value FROM json_each(?))",
            (id_list(keys),),
        )
        leg_ids.update(row[0] for row in rows if isinstance(row[0], int) and row[0])
    return sorted(leg_ids)


def restore(tx: Transaction, resource: Resource) -> list[Key]:
    """Undo: confirmed rows are present again and stay so whatever walks miss. Returns their keys."""
    restored_keys = [
        row[0]
        for row in tx.execute(
            f'UPDATE "{resource.table}" SET _missing_since = NULL WHERE _missing_since IS NOT NULL '
            f'AND "{resource.key}" IN (SELECT key FROM _deletions WHERE collection = ? '
            f"AND state = 'confirmed') "
            f'RETURNING "{resource.key}"',
            (resource.collection,),
        )
    ]
    tx.executemany(
        "UPDATE _deletions SET state = 'kept', since = ? WHERE collection = ? AND key = ?",
        [(clock.utc_text(), resource.collection, key) for key in restored_keys],
    )
    tx.execute("DELETE FROM _deletions WHERE collection = ? AND state = 'suspected'", (resource.collection,))
    return restored_keys
