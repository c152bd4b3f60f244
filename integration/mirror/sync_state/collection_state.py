"""How far each collection has been read: marks of look-backs and walks, completeness, what went wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.ids import id_list
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _walks (
    collection TEXT PRIMARY KEY,
    mark ANY,
    seen_until TEXT,
    begun_at TEXT,
    walk_key ANY,
    walk_rows INTEGER NOT NULL DEFAULT 0,
    complete_at TEXT,
    items_at TEXT,
    total INTEGER,
    last_success_at TEXT,
    last_error TEXT,
    last_error_at TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    walked_from TEXT,
    reread_at TEXT,
    off_since TEXT,
    held INTEGER,
    accepted INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
"""


ALL_RECORDS = 2**62

LIVE_COLLECTIONS = frozenset({"calls"})
"""Collections that list what goes on now: each poll is all of it, and none stays complete."""


def add_columns(schema: Schema) -> None:
    """A step for mirrors that were created before these columns were."""
    table = schema.table("_walks")
    existing_columns = table.columns_dict
    if not existing_columns:
        return
    for name, column_type in (("walked_from", str), ("reread_at", str), ("off_since", str), ("held", int)):
        if name not in existing_columns:
            table.add_column(name, column_type)
    if "accepted" not in existing_columns:
        table.add_column("accepted", int, not_null_default=0)


@dataclass(frozen=True, slots=True)
class State:
    """Where a collection stands. Times are UTC text.

    `complete_at`: when a walk that read all of it ended; None: never. `last_success_at`: what the mirror's
    age is counted from. `last_error`: None when the last try went well. `total`: on the platform when last
    reported. `mark`: everything up to this id was read. `seen_until`: the platform's
    time up to which look-backs have read. `begun_at`, `walk_key`, `walk_rows`: a walk that is under way.
    `items_at`: when every record was last read by its own path. `walked_from`: when the last complete walk
    began: what it did not see since is missing. `reread_at`: when recent records were last read again.
    `off_since`: the platform refuses this collection (403, 404) since then. `held`: records that a complete
    walk missed, too many to be believed; `accepted`: so many somebody said are gone.
    """

    collection: str
    complete_at: str | None = None
    last_success_at: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    failures: int = 0
    total: int | None = None
    mark: int | str | None = None
    seen_until: str | None = None
    begun_at: str | None = None
    walk_key: int | str | None = None
    walk_rows: int = 0
    items_at: str | None = None
    walked_from: str | None = None
    reread_at: str | None = None
    off_since: str | None = None
    held: int | None = None
    accepted: int = 0

    @property
    def is_live(self) -> bool:
        return self.collection in LIVE_COLLECTIONS

    @property
    def is_complete(self) -> bool:
        """Whether the collection was ever read completely."""
        return self.complete_at is not None


_SELECT = f"SELECT {', '.join(column.name for column in fields(State))} FROM _walks"


def get_state(connection: sqlite3.Connection | Transaction, collection: str) -> State:
    """The state of a collection, named by its path."""
    row = connection.execute(f"{_SELECT} WHERE collection = ?", (collection,)).fetchone()
    return State(collection) if row is None else State(*row)


def is_complete(tx: Transaction, collection: str) -> bool:
    return get_state(tx, collection).is_complete


def list_states(connection: sqlite3.Connection) -> list[State]:
    """Every collection that was ever requested, by name."""
    return [State(*row) for row in connection.execute(f"{_SELECT} ORDER BY collection")]


def count_rows(connection: sqlite3.Connection | Transaction, resource: Resource) -> int:
    # count(*) without WHERE only adds up page headers: under 1 ms at 1 M rows, 40 ms otherwise.
    row = connection.execute(
        f'SELECT (SELECT count(*) FROM "{resource.table}") '
        f'- (SELECT count(*) FROM "{resource.table}" WHERE _missing_since IS NOT NULL)'
    ).fetchone()
    return int(row[0])


def list_keys(
    connection: sqlite3.Connection, resource: Resource, *, without_item: bool
) -> Sequence[int | str]:
    """Keys of a collection's records, ascending; with `without_item` those never read by their own path."""
    rows = connection.execute(
        f'SELECT "{resource.key}" FROM "{resource.table}" WHERE _missing_since IS NULL '
        f'AND (NOT ? OR _item IS NULL) ORDER BY "{resource.key}"',
        (without_item,),
    )
    return [row[0] for row in rows]


def list_field_values(
    connection: sqlite3.Connection, resource: Resource, name: str, keys: Sequence[int | str]
) -> Sequence[int | str]:
    """What the field `name` of the records with these keys holds, where it holds anything."""
    if resource.field(name) is None:
        raise ValueError(f"{resource.name} has no field {name!r}")
    rows = connection.execute(
        f'SELECT "{name}" FROM "{resource.table}" WHERE "{name}" IS NOT NULL AND "{name}" <> \'\' '
        f'AND "{resource.key}" IN (SELECT value FROM json_each(?)) ORDER BY "{resource.key}"',
        (id_list(keys),),
    )
    return [row[0] for row in rows]


def record_items_read(tx: Transaction, collection: str) -> None:
    """Every record was read by its own path."""
    _update(tx, collection, items_at=clock.utc_text())


def begin_full_sync(tx: Transaction, collection: str) -> None:
    """A complete walk begins afresh."""
    _update(tx, collection, begun_at=clock.utc_text(), walk_key=None, walk_rows=0)


def record_progress(tx: Transaction, collection: str, key: int | str, rows: int, total: int | None) -> None:
    """A walk has read everything up to `key`, `rows` of them with this step; a later run goes on there."""
    _update(tx, collection, walk_key=key, total=total)
    tx.execute("UPDATE _walks SET walk_rows = walk_rows + ? WHERE collection = ?", (rows, collection))


def finish_full_sync(
    tx: Transaction,
    collection: str,
    mark: int | str | None,
    total: int | None,
    started_at: str | None = None,
) -> None:
    """A walk that began at `started_at` (UTC text; None: as `begin_full_sync` noted) has read all of the
    collection. The mark never falls."""
    state = get_state(tx, collection)
    previous_mark = state.mark
    if previous_mark is not None and (
        mark is None or (isinstance(mark, type(previous_mark)) and mark < previous_mark)  # type: ignore[operator]
    ):
        mark = previous_mark
    _update(
        tx,
        collection,
        mark=mark,
        complete_at=clock.utc_text(),
        begun_at=None,
        walk_key=None,
        total=total,
        walked_from=started_at or state.begun_at,
        **_get_success_values(),
    )


def finish_incremental_sync(
    tx: Transaction, collection: str, mark: int | str | None, seen_until: str
) -> None:
    """A look-back has read all that is new. `mark` None leaves it where it is."""
    values: dict[str, Any] = {"seen_until": seen_until, **_get_success_values()}
    if mark is not None:
        values["mark"] = mark
    _update(tx, collection, **values)


def record_failure(tx: Transaction, collection: str, error: str) -> None:
    """A try went wrong; what was read before stays."""
    _update(tx, collection, last_error=error[:500], last_error_at=clock.utc_text())
    tx.execute("UPDATE _walks SET failures = failures + 1 WHERE collection = ?", (collection,))


def record_poll(tx: Transaction, collection: str, total: int) -> None:
    """All of what goes on was listed. That is an age, no completeness: what a webhook told since is less than
    a whole record."""
    _update(tx, collection, total=total, **_get_success_values())


def mark_incomplete(tx: Transaction, collection: str) -> None:
    """A write of ours changed it, nobody knows how: it is not complete until it is read again, nor are those
    beside it, such as 'calltracking/campaigns' beside 'calltracking/ddis'."""
    first, separator, _ = collection.partition("/")
    tx.execute(
        "UPDATE _walks SET complete_at = NULL WHERE collection = ? OR (? AND collection LIKE ?)",
        (collection, bool(separator), f"{first}/%"),
    )


def record_refresh(tx: Transaction, collection: str) -> None:
    """What is recent in it was read again."""
    _update(tx, collection, reread_at=clock.utc_text())


def set_initial_mark(tx: Transaction, collection: str, newest_key: int | str) -> None:
    """A walk from the newest record on began at `newest_key`: look-backs need not come to what is below
    it."""
    mark = get_state(tx, collection).mark
    if mark is None or (isinstance(newest_key, int) and isinstance(mark, int) and newest_key > mark):
        _update(tx, collection, mark=newest_key)


def record_refusal(tx: Transaction, collection: str, error: str) -> None:
    """The platform does not let us read it (403), or does not have it (404): it is off until it answers."""
    _update(tx, collection, last_error=error[:500], last_error_at=clock.utc_text())
    tx.execute(
        "UPDATE _walks SET off_since = coalesce(off_since, ?) WHERE collection = ?",
        (clock.utc_text(), collection),
    )


def hold_deletions(tx: Transaction, collection: str, count: int | None) -> None:
    """So many records are missing that nobody believes it (None: no more); see sync/reading/deletions.py."""
    _update(tx, collection, held=count, accepted=0)


def accept_deletions(tx: Transaction, collection: str) -> None:
    """Somebody said that what is held is gone; where nothing is, whatever the next walk misses."""
    _update(tx, collection, accepted=get_state(tx, collection).held or ALL_RECORDS)


def _get_success_values() -> dict[str, Any]:
    return {"last_success_at": clock.utc_text(), "last_error": None, "failures": 0, "off_since": None}


def _update(tx: Transaction, collection: str, **values: Any) -> None:
    tx.execute("INSERT OR IGNORE INTO _walks (collection) VALUES (?)", (collection,))
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.execute(
        f"UPDATE _walks SET {assignments} WHERE collection = ?",
        (*values.values(), collection),
    )
