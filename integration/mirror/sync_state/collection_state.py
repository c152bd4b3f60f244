"""Sync state of each collection: high-water mark, progress, completeness and errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.ids import id_list
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
    accepted INTEGER NOT NULL DEFAULT 0,
    form TEXT
) STRICT, WITHOUT ROWID;
"""


ALL_RECORDS = 2**62
"""Value of `accepted` if a user accepted deletions while none were held."""

LIVE_COLLECTIONS = frozenset({"calls"})
"""Collections of live objects.

Each poll returns the entire list, but a list of live objects never stays complete. Events of webhooks
update it between two polls.
"""


Form = Literal["list", "object", "bare"]
"""Form of the stored response of a collection without keys.

`{data: [...]}`, `{data: {...}}`, or an object without `data`.
"""


@dataclass(frozen=True, slots=True)
class State:
    """Sync state of a collection: one row of `_walks`.

    Times are UTC text. `complete_at`: end of the last full sync; None if none has ended. `last_success_at`:
    time from which the age of the mirror counts. `last_error`: None after a success. `total`: last count
    reported by the platform. `mark`: high-water mark; all records up to this id were read. None with
    `has_starting_point`: the full sync found no record, so every record is above the mark. `seen_until`:
    platform time up to which incremental syncs have read, or of a live collection the time of its newest
    event. `begun_at`, `walk_key`, `walk_rows`: start, last
    key and number of records of a running full sync. `items_at`: when every record was last read by its own
    path. `walked_from`: start of the last finished full sync; records that it did not see are missing.
    `reread_at`: last refresh of recent records. `off_since`: time since which the platform refuses this
    collection (403, 404). `held`: number of missing records above the deletion limit. `accepted`: number of
    missing records that a user accepted. `form`: None if not known, and for collections with keys.
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
    form: Form | None = None

    @property
    def is_live(self) -> bool:
        """Return whether the collection lists live objects."""
        return self.collection in LIVE_COLLECTIONS

    @property
    def awaits_first_sync(self) -> bool:
        """Return whether the first full sync has not ended, without an error so far."""
        return not (self.complete_at or self.last_error or self.off_since)

    @property
    def is_complete(self) -> bool:
        """Return whether the collection was ever read completely."""
        return self.complete_at is not None

    @property
    def is_failing(self) -> bool:
        """Return whether requests for the collection fail.

        The platform is reachable if it refuses the collection or sends records that cannot be read.
        """
        return self.failures > 0 and self.off_since is None

    @property
    def can_serve_reads(self) -> bool:
        """Return whether the mirror can replace the platform's response.

        A live collection has no full sync: one poll is enough, unless the platform now refuses the list.
        """
        if self.is_live:
            return self.last_success_at is not None and self.off_since is None
        return self.is_complete

    @property
    def is_current(self) -> bool:
        """Return whether the mirror can serve complete, current reads."""
        return self.can_serve_reads and not (self.is_live and self.last_error is not None)

    @property
    def updated_at(self) -> str | None:
        """Return the time of the last sync, poll or event."""
        if self.is_live:
            return max(filter(None, (self.last_success_at, self.seen_until)), default=None)
        return self.last_success_at

    @property
    def has_starting_point(self) -> bool:
        """Return whether the records above the mark are a defined set.

        Before the first full sync ends, an empty mark means that no record was read. After it, an empty mark
        means that the collection was empty: the records above the mark are all records.
        """
        # `mark_incomplete` clears `complete_at`, and older mirrors have no `walked_from`.
        return self.mark is not None or self.is_complete or self.walked_from is not None


_SELECT = f"SELECT {', '.join(column.name for column in fields(State))} FROM _walks"


def get_state(connection: sqlite3.Connection | Transaction, collection: str) -> State:
    """Return the state of a collection, given by its path."""
    row = connection.execute(f"{_SELECT} WHERE collection = ?", (collection,)).fetchone()
    return State(collection) if row is None else State(*row)


def is_complete(tx: Transaction, collection: str) -> bool:
    """Return whether a collection was ever read completely."""
    return get_state(tx, collection).is_complete


def list_states(connection: sqlite3.Connection) -> list[State]:
    """Return the states of all collections that were ever requested, by path."""
    return [State(*row) for row in connection.execute(f"{_SELECT} ORDER BY collection")]


def count_rows(connection: sqlite3.Connection | Transaction, resource: Resource) -> int:
    """Return the number of present records."""
    # count(*) without WHERE adds up the headers of the leaf pages of an index, and reads no entry: 20 ms at a
    # million rows.
    row = connection.execute(
        f'SELECT (SELECT count(*) FROM "{resource.table}") '
        f'- (SELECT count(*) FROM "{resource.table}" WHERE _missing_since IS NOT NULL)'
    ).fetchone()
    return int(row[0])


def list_keys(
    connection: sqlite3.Connection, resource: Resource, *, without_item: bool
) -> Sequence[int | str]:
    """Return the keys of present records, ascending.

    `without_item`: only keys of records whose own path must be read: since their list form changed it was
    not read, or it was never read.
    """
    rows = connection.execute(
        f'SELECT "{resource.key}" FROM "{resource.table}" WHERE _missing_since IS NULL AND (NOT ? OR ('
        "_item IS NULL AND NOT EXISTS (SELECT 1 FROM _item_forms AS forms WHERE forms.table_name = ?"
        f' AND forms.key = +"{resource.table}"."{resource.key}" AND forms.adds_fields = 0)))'
        f' ORDER BY "{resource.key}"',
        (without_item, resource.table),
    )
    return [row[0] for row in rows]


def list_field_values(
    connection: sqlite3.Connection, resource: Resource, name: str, keys: Sequence[int | str]
) -> Sequence[int | str]:
    """Return the values of field `name` in records with these keys.

    Null and empty text are excluded. Raises ValueError if `resource` has no such field.
    """
    if resource.field(name) is None:
        raise ValueError(f"{resource.name} has no field {name!r}")
    rows = connection.execute(
        f'SELECT "{name}" FROM "{resource.table}" WHERE "{name}" IS NOT NULL AND "{name}" <> \'\' '
        f'AND "{resource.key}" IN (SELECT value FROM json_each(?)) ORDER BY "{resource.key}"',
        (id_list(keys),),
    )
    return [row[0] for row in rows]


def record_items_read(tx: Transaction, collection: str) -> None:
    """Record that every record was read by its own path."""
    _update(tx, collection, items_at=clock.utc_text())


def begin_full_sync(tx: Transaction, collection: str) -> None:
    """Record the start of a full sync from the first record."""
    _update(tx, collection, begun_at=clock.utc_text(), walk_key=None, walk_rows=0)


def record_progress(tx: Transaction, collection: str, key: int | str, rows: int, total: int | None) -> None:
    """Record that a full sync has read all records up to `key`.

    `rows`: number of records read since the previous call. An interrupted full sync resumes after `key`.
    """
    walk_rows = get_state(tx, collection).walk_rows + rows
    _update(tx, collection, walk_key=key, total=total, walk_rows=walk_rows)


def finish_full_sync(
    tx: Transaction,
    collection: str,
    mark: int | str | None,
    total: int | None,
    started_at: str | None = None,
) -> None:
    """Record the end of a full sync.

    `started_at`: its start as UTC text; None for the time that `begin_full_sync` recorded. `mark`: the new
    high-water mark, ignored if it is below the stored one.
    """
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


def record_form(tx: Transaction, collection: str, form: Form) -> None:
    """Record the form of the stored response of a collection without keys."""
    _update(tx, collection, form=form)


def finish_incremental_sync(
    tx: Transaction, collection: str, mark: int | str | None, seen_until: str
) -> None:
    """Record the end of an incremental sync.

    `mark` None keeps the stored mark.
    """
    values: dict[str, Any] = {"seen_until": seen_until, **_get_success_values()}
    if mark is not None:
        values["mark"] = mark
    _update(tx, collection, **values)


def record_failure(tx: Transaction, collection: str, error: str) -> None:
    """Record a failed sync. The state of earlier syncs is kept."""
    failures = get_state(tx, collection).failures + 1
    _update(tx, collection, last_error=error[:500], last_error_at=clock.utc_text(), failures=failures)


def record_unreadable(tx: Transaction, collection: str, error: str) -> None:
    """Record unreadable records of a sync. Its requests succeeded, so it does not count as a failure."""
    _update(tx, collection, last_error=error[:500], last_error_at=clock.utc_text(), failures=0)


def record_poll(tx: Transaction, collection: str, total: int, requested_at: str) -> None:
    """Record a poll of a live collection, requested at `requested_at` (UTC text).

    This sets the age of the data, not its completeness: webhooks do not contain complete records.
    """
    _update(tx, collection, total=total, **{**_get_success_values(), "last_success_at": requested_at})


def record_event(tx: Transaction, collection: str, happened_at: str) -> None:
    """Record an event of a live collection, with its time (UTC text)."""
    newest = max(get_state(tx, collection).seen_until or "", happened_at)
    _update(tx, collection, seen_until=newest)


def mark_incomplete(tx: Transaction, collection: str) -> None:
    """Mark a collection as incomplete until its next full sync.

    For writes with unknown effects. Collections with the same first path segment are marked too:
    'calltracking/campaigns' with 'calltracking/ddis'.
    """
    first, separator, _ = collection.partition("/")
    tx.execute(
        "UPDATE _walks SET complete_at = NULL WHERE collection = ? OR (? AND collection LIKE ?)",
        (collection, bool(separator), f"{first}/%"),
    )


def record_refresh(tx: Transaction, collection: str) -> None:
    """Record a refresh of recent records."""
    _update(tx, collection, reread_at=clock.utc_text())


def set_initial_mark(tx: Transaction, collection: str, newest_key: int | str) -> None:
    """Raise the high-water mark to `newest_key`.

    This is the first key of a full sync in descending order. Incremental syncs need not read the records
    below it, because the full sync does.
    """
    mark = get_state(tx, collection).mark
    if mark is None or (isinstance(newest_key, int) and isinstance(mark, int) and newest_key > mark):
        _update(tx, collection, mark=newest_key)


def record_refusal(tx: Transaction, collection: str, error: str) -> None:
    """Record that the platform refuses a collection (403 or 404).

    `off_since` keeps the time of the first refusal until a sync succeeds.
    """
    now, off_since = clock.utc_text(), get_state(tx, collection).off_since
    _update(tx, collection, last_error=error[:500], last_error_at=now, off_since=off_since or now)


def hold_deletions(tx: Transaction, collection: str, count: int | None) -> None:
    """Hold `count` missing records above the deletion limit; None releases them.

    An earlier acceptance is deleted. See sync/reading/deletions.py.
    """
    _update(tx, collection, held=count, accepted=0)


def accept_deletions(tx: Transaction, collection: str) -> None:
    """Record that a user accepts the held deletions.

    If none are held, all records missing from the next full sync are accepted.
    """
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
