"""Missing records: suspected, confirmed or kept by a user.

sync/reading/deletions.py decides (docs/sync.md); this module reads and writes the tables. A full sync has not
seen a row if `_last_seen` is before the start of that sync. Table `_deletions` has the states `suspected`,
`confirmed` and `kept`.
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
"""Confirmation of a deletion.

A 404 of the record's own path, a second full sync or a second reading of its day without the record, aging
out at the old end of the collection, or a user.
"""


@dataclass(frozen=True, slots=True)
class UnseenRecords:
    """Number of present rows and result of a full sync.

    `unseen`: rows that the full sync did not see, except those kept by a user (`restore`). `lowest_seen`: the
    lowest key that it saw.
    """

    present: int
    unseen: int
    lowest_seen: Key | None


def count_unseen(connection: sqlite3.Connection, resource: Resource, sync_started_at: str) -> UnseenRecords:
    """Count the rows not seen by the full sync begun at `sync_started_at`."""
    row = connection.execute(
        f"SELECT count(*), coalesce(sum(_last_seen < :started_at AND NOT {build_kept_sql(resource)}), 0),"
        f' min(CASE WHEN _last_seen >= :started_at THEN "{resource.key}" END)'
        f' FROM "{resource.table}" AS t WHERE _missing_since IS NULL',
        {"started_at": sync_started_at, "name": resource.collection},
    ).fetchone()
    return UnseenRecords(*row)


def build_kept_sql(resource: Resource) -> str:
    """Return SQL of whether a user keeps the record `t`. Needs the value `name`: the collection."""
    return (
        "EXISTS (SELECT 1 FROM _deletions AS d WHERE d.collection = :name"
        f" AND d.key = t.\"{resource.key}\" AND d.state = 'kept')"
    )


def list_unseen_keys(
    connection: sqlite3.Connection,
    resource: Resource,
    read_from: str,
    *,
    below_key: Key | None = None,
    dates: tuple[str, str] | None = None,
) -> list[Key]:
    """Return the keys of present rows that a reading begun at `read_from` did not see, ascending.

    `below_key`: only lower keys. `dates`: only rows dated from the first to before the second. Times are UTC
    text. Records that a user keeps are excluded.
    """
    key = f'"{resource.key}"'
    since, until = dates or (None, None)
    conditions = ["_missing_since IS NULL", "_last_seen < :read_from", f"NOT {build_kept_sql(resource)}"]
    if below_key is not None:
        conditions.append(f"{key} < :below")
    if dates is not None:
        conditions.append(f'"{resource.date}" >= :since AND "{resource.date}" < :until')
    rows = connection.execute(
        f'SELECT {key} FROM "{resource.table}" AS t WHERE {" AND ".join(conditions)} ORDER BY {key}',
        {
            "read_from": read_from,
            "below": below_key,
            "since": since,
            "until": until,
            "name": resource.collection,
        },
    )
    return [row[0] for row in rows]


def list_suspected_days(connection: sqlite3.Connection, resource: Resource) -> list[str]:
    """Return the UTC days of present records under suspicion."""
    rows = connection.execute(
        f'SELECT DISTINCT substr(t."{resource.date}", 1, 10) FROM _deletions AS d'
        f' JOIN "{resource.table}" AS t ON t."{resource.key}" = d.key WHERE d.collection = ?'
        f" AND d.state = 'suspected' AND t._missing_since IS NULL AND t.\"{resource.date}\" IS NOT NULL",
        (resource.collection,),
    )
    return [row[0] for row in rows]


def list_suspected(connection: sqlite3.Connection, resource: Resource, sync_started_at: str) -> set[Key]:
    """Return the keys that a full sync before `sync_started_at` already suspected."""
    rows = connection.execute(
        "SELECT key FROM _deletions WHERE collection = ? AND state = 'suspected' AND since < ?",
        (resource.collection, sync_started_at),
    )
    return {row[0] for row in rows}


def mark_suspected(tx: Transaction, resource: Resource, keys: Collection[Key], sync_started_at: str) -> None:
    """Mark `keys` as suspected by the full sync begun at `sync_started_at`.

    The next full sync that does not see them confirms the deletion.
    """
    tx.executemany(
        "INSERT OR IGNORE INTO _deletions VALUES (?, ?, 'suspected', 'walk', ?)",
        [(resource.collection, key, sync_started_at) for key in keys],
    )


def clear_seen(tx: Transaction, resource: Resource, read_from: str, *, only_suspicions: bool = False) -> None:
    """Delete the entries of present rows that were seen since `read_from` (UTC text), of every state."""
    tx.execute(
        "DELETE FROM _deletions WHERE collection = ? AND (state = 'suspected' OR NOT ?) AND EXISTS"
        f' (SELECT 1 FROM "{resource.table}" AS t WHERE t."{resource.key}" = _deletions.key'
        " AND _missing_since IS NULL AND _last_seen >= ?)",
        (resource.collection, only_suspicions, read_from),
    )


def mark_seen(tx: Transaction, resource: Resource, keys: Collection[Key], seen_at: str) -> None:
    """Update `_last_seen` of records that their own paths returned.

    The list did not contain them. `seen_at` is UTC text; a time before `_last_seen` is ignored.
    """
    tx.execute(
        f'UPDATE "{resource.table}" SET _last_seen = max(_last_seen, ?) '
        f'WHERE "{resource.key}" IN (SELECT value FROM json_each(?))',
        (seen_at, id_list(keys)),
    )


def confirm(
    tx: Transaction, resource: Resource, keys: Sequence[Key], sync_started_at: str, confirmed_by: ConfirmedBy
) -> list[Key]:
    """Mark rows as missing, except rows seen since `sync_started_at`. Return their keys."""
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


def restore(tx: Transaction, resource: Resource) -> list[Key]:
    """Undo all confirmed deletions of a collection and return their keys.

    Later full syncs do not mark the restored rows. Suspicions of the collection are deleted.
    """
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


def keep_unseen(tx: Transaction, resource: Resource, sync_started_at: str) -> int:
    """Keep the rows that a full sync did not see.

    `sync_started_at`: start of that full sync. Later full syncs do not mark them as missing. Returns their
    number.
    """
    return tx.execute(
        f"INSERT OR REPLACE INTO _deletions SELECT ?, \"{resource.key}\", 'kept', 'walk', ?"
        f' FROM "{resource.table}" WHERE _missing_since IS NULL AND _last_seen < ?',
        (resource.collection, clock.utc_text(), sync_started_at),
    ).rowcount


@dataclass(frozen=True, slots=True)
class AcceptedDeletions:
    """Deletions of a collection that a user accepted.

    `at`: UTC text, time of the last one.
    """

    collection: str
    count: int
    at: str


def list_accepted(connection: sqlite3.Connection) -> list[AcceptedDeletions]:
    """Return the collections with accepted deletions. `restore` undoes these."""
    rows = connection.execute(
        "SELECT collection, count(*), max(since) FROM _deletions"
        " WHERE state = 'confirmed' AND how = 'accepted' GROUP BY collection"
    )
    return [AcceptedDeletions(*row) for row in rows]
