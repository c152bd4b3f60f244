"""What is due: the keys whose derived rows do not follow their sources yet.

A row of `_due` is a range of keys of one derived table. Triggers record single keys, in the transaction of
the change, so every writer is covered. A bulk store records its range first; the triggers then find each key
covered and insert no row for it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from integration.core import clock
from integration.core.ids import id_list
from integration.mirror.derived.declaration import Derived, Key, Range, get_previous
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

TABLES = """
-- Keys from `low` to `high` whose derived rows must be computed from `at` on (Unix seconds). `at` is 0 within
-- the transaction in which a trigger records a key.
CREATE TABLE IF NOT EXISTS _due (
    derived TEXT NOT NULL, low ANY NOT NULL, high ANY NOT NULL, at REAL NOT NULL, PRIMARY KEY (derived, low)
) STRICT, WITHOUT ROWID;
-- serves the end of each transaction
CREATE INDEX IF NOT EXISTS _due_now ON _due (derived, low, high) WHERE at = 0;
"""


ANY_TIME = 1e18
"""Unix time after all others."""


@dataclass(frozen=True, slots=True)
class DueState:
    """Number of due keys of a derived table. `since`: Unix time from which the oldest is due."""

    derived: Derived
    count: int
    since: float


def create_triggers(schema: Schema, all_derived: Sequence[Derived]) -> None:
    """Create the triggers of all declarations; replace those of another version."""
    rows = schema.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '_due_*'")
    stored = dict(rows.fetchall())
    declared = {name: sql for derived in all_derived for name, sql in derived.build_triggers().items()}
    for name in stored.keys() - {name for name, sql in declared.items() if stored.get(name) == sql}:
        schema.execute(f'DROP TRIGGER "{name}"')
        del stored[name]
    for name in declared.keys() - stored.keys():
        schema.execute(declared[name])


def mark(tx: Transaction, name: str, ranges: Iterable[Range]) -> None:
    """Record ranges of keys as due now. Rows of `_due` are disjoint: overlapping ones become one."""
    for low, high in ranges:
        first, last, at = tx.execute(
            "SELECT min(low), max(high), min(at) FROM _due WHERE derived = ?1 AND low BETWEEN"
            f" {_FIRST_OVERLAPPING} AND ?3 AND high >= ?2",
            (name, low, high),
        ).fetchone()
        if first is None:
            first, last, at = low, high, clock.unix()
        elif first <= low and last >= high:
            continue
        else:
            tx.execute("DELETE FROM _due WHERE derived = ? AND low BETWEEN ? AND ?", (name, first, high))
        # A range that was deferred, such as the sums of today, is due now with the keys before it.
        at = min(at, clock.unix())
        tx.execute("INSERT INTO _due VALUES (?, ?, ?, ?)", (name, min(low, first), max(high, last), at))


def mark_new(tx: Transaction, derived: Derived, keys: Sequence[int]) -> None:
    """Record keys that are about to be stored as one range, if few others are between them."""
    if not keys:
        return
    low, high = min(keys), max(keys)
    (others,) = tx.execute(
        f"SELECT count(*) FROM ({derived.keys[0]} BETWEEN ? AND ? LIMIT ?)", (low, high, len(keys))
    ).fetchone()
    if others < len(keys):
        mark(tx, derived.name, [(low, high)])


def postpone(tx: Transaction) -> None:
    """Leave what the transaction has made due so far to the consumer."""
    tx.execute("UPDATE _due SET at = ? WHERE at = 0", (clock.unix(),))


def remove(tx: Transaction, name: str, keys: Iterable[Key]) -> None:
    """Remove single keys that were computed; recorded ranges stay."""
    tx.execute(
        "DELETE FROM _due WHERE derived = ? AND low IN (SELECT value FROM json_each(?)) AND high = low",
        (name, id_list(keys)),
    )


def follow_rules(tx: Transaction, derived: Derived, description: object, since: Key = None) -> None:
    """Record all keys as due, or those from `since` on, if the rules of the derived rows have changed.

    `description` is the result of `Derived.describe_rules`.
    """
    if not has_current_rules(tx.connection, derived, description):
        mark_all(tx, derived, since)
        tx.execute(
            "INSERT OR REPLACE INTO _meta VALUES (?, ?)",
            (_get_rules_key(derived), _compute_fingerprint(derived, repr(description))),
        )


def has_current_rules(connection: sqlite3.Connection, derived: Derived, description: object) -> bool:
    """Return whether the derived rows that are not due have these rules."""
    row = connection.execute("SELECT value FROM _meta WHERE key = ?", (_get_rules_key(derived),)).fetchone()
    return row is not None and row[0] == _compute_fingerprint(derived, repr(description))


def _get_rules_key(derived: Derived) -> str:
    return f"rules of {derived.name}"


@cache
def _compute_fingerprint(derived: Derived, description: str) -> str:
    # The triggers name the columns that are read: another version may read more of them.
    text = description + "".join(derived.build_triggers().values())
    return hashlib.sha256(text.encode()).hexdigest()


def get_time(derived: Derived) -> float:
    """Return the Unix time until which keys are due now.

    The clock can be set back, so only a derived table that defers keys waits for a time.
    """
    return ANY_TIME if derived.defer is None else clock.unix()


def take(
    tx: Transaction,
    derived: Derived,
    limit: int,
    until: float | None = None,
    align: Callable[[Key], Key] = lambda key: key,
) -> list[Range]:
    """Remove ranges of about `limit` keys that are due at `until` (Unix seconds; None: now); return them.

    The newest keys are first. `align`: see `Derived`.
    """
    rows = tx.execute(
        "SELECT low, high FROM _due WHERE derived = ? AND at <= ? ORDER BY low DESC LIMIT ?",
        (derived.name, get_time(derived) if until is None else until, limit),
    ).fetchall()
    ranges: list[Range] = []
    for low, high in rows:
        keys = [high] if low == high else derived.list_keys(tx.connection, (low, high), limit)
        first = low if len(keys) < limit else max(low, align(keys[-1]))
        ranges.append((first, high))
        if first == low:
            tx.execute("DELETE FROM _due WHERE derived = ? AND low = ?", (derived.name, low))
        else:
            tx.execute(
                "UPDATE _due SET high = ? WHERE derived = ? AND low = ?",
                (get_previous(first), derived.name, low),
            )
        limit -= max(1, len(keys))
        if limit <= 0:
            break
    return ranges


def take_for_other_database(tx: Transaction, derived: Derived, limit: int) -> list[Range]:
    """Move due ranges to `finish`; return them. Ranges of an interrupted work are returned first.

    Keys that change from now on are due again.
    """
    name = _get_taken_name(derived)
    ranges = list_ranges(tx.connection, name, derived.all_keys)
    if not ranges:
        ranges = take(tx, derived, limit)
        mark(tx, name, ranges)
    return ranges


def take_oldest(tx: Transaction, derived: Derived, limit: int, slot: int) -> list[Range]:
    """Move ranges of about `limit` due keys, lowest first, to `finish` or `take_back`; return them.

    For work that another process does, one at a time in each `slot`. Keys that change from now on are due
    again. Single keys are left: each would be taken again while others change it.
    """
    rows = tx.execute(
        "SELECT low, high FROM _due WHERE derived = ? AND low < high ORDER BY low LIMIT ?",
        (derived.name, limit),
    ).fetchall()
    ranges: list[Range] = []
    for low, high in rows:
        keys = (
            [low] if low == high else derived.list_keys(tx.connection, (low, high), limit, is_ascending=True)
        )
        last = high if len(keys) < limit else keys[-1]
        ranges.append((low, last))
        tx.execute("DELETE FROM _due WHERE derived = ? AND low = ?", (derived.name, low))
        if last < high:
            tx.execute("INSERT INTO _due VALUES (?, ?, ?, ?)", (derived.name, last + 1, high, clock.unix()))
        limit -= max(1, len(keys))
        if limit <= 0:
            break
    mark(tx, _get_taken_name(derived, slot), ranges)
    return ranges


def take_back(tx: Transaction, derived: Derived) -> None:
    """Record the ranges of `take_oldest` that no `finish` has removed as due again."""
    rows = tx.execute("SELECT low, high FROM _due WHERE derived BETWEEN ? AND ?", _get_taken_names(derived))
    if ranges := rows.fetchall():
        mark(tx, derived.name, ranges)
        tx.execute("DELETE FROM _due WHERE derived BETWEEN ? AND ?", _get_taken_names(derived))


def finish(tx: Transaction, derived: Derived, slot: int = 0) -> None:
    """Remove the ranges of `take_for_other_database` or `take_oldest`, after their work is committed."""
    tx.execute("DELETE FROM _due WHERE derived = ?", (_get_taken_name(derived, slot),))


def _get_taken_name(derived: Derived, slot: int = 0) -> str:
    return f"{derived.name}, taken {slot}" if slot else f"{derived.name}, taken"


def _get_taken_names(derived: Derived) -> tuple[str, str]:
    """Return the first and the last possible name of ranges that were taken."""
    return f"{derived.name}, taken", f"{derived.name}, taken~"


def mark_all(tx: Transaction, derived: Derived, since: Key = None) -> None:
    """Record all keys as due now, or those from `since` on, if there are any."""
    first, last = derived.all_keys
    keys = first if since is None else since, last
    if derived.list_keys(tx.connection, keys, 1):
        mark(tx, derived.name, [keys])


def set_timers(tx: Transaction, name: str, times: Mapping[Key, float | None]) -> None:
    """Store the Unix time from which each key must be computed again, or None.

    Timers have a name of their own, because a key with a later time must not count as recorded.
    """
    name = _get_timer_name(name)
    stored = dict(
        tuple(row)
        for row in tx.execute(
            "SELECT low, at FROM _due WHERE derived = ? AND low IN (SELECT value FROM json_each(?))",
            (name, id_list(times)),
        )
    )
    changed = [(name, key, at) for key, at in times.items() if stored.get(key) != at]
    tx.executemany("DELETE FROM _due WHERE derived = ? AND low = ?", [row[:2] for row in changed])
    tx.executemany("INSERT INTO _due VALUES (?1, ?2, ?2, ?3)", [row for row in changed if row[2] is not None])


def take_timers(tx: Transaction, name: str, now: float, limit: int) -> list[Key]:
    """Remove timers of at most `limit` keys until `now` (Unix seconds), latest first; return the keys."""
    rows = tx.execute(
        "SELECT low FROM _due WHERE derived = ? AND at <= ? ORDER BY at DESC LIMIT ?",
        (_get_timer_name(name), now, limit),
    )
    keys = [row[0] for row in rows]
    set_timers(tx, name, dict.fromkeys(keys))
    return keys


def has_timer(connection: sqlite3.Connection, name: str, until: float) -> bool:
    """Return whether a timer is due at `until` (Unix seconds)."""
    row = connection.execute(
        "SELECT 1 FROM _due WHERE derived = ? AND at <= ? LIMIT 1", (_get_timer_name(name), until)
    ).fetchone()
    return row is not None


def _get_timer_name(name: str) -> str:
    return f"{name}, later"


def list_ranges(connection: sqlite3.Connection, name: str, keys: Range) -> list[Range]:
    """Return the due ranges that overlap `keys`."""
    rows = connection.execute(
        "SELECT low, high FROM _due"
        f" WHERE derived = ?1 AND low BETWEEN {_FIRST_OVERLAPPING} AND ?3 AND high >= ?2",
        (name, *keys),
    )
    return [(row[0], row[1]) for row in rows]


def list_all_ranges(connection: sqlite3.Connection, derived: Derived) -> list[Range]:
    """Return all ranges that are due or being computed."""
    rows = connection.execute(
        "SELECT low, high FROM _due WHERE derived = ? OR derived BETWEEN ? AND ?",
        (derived.name, *_get_taken_names(derived)),
    )
    return [(row[0], row[1]) for row in rows]


def find_due(connection: sqlite3.Connection, name: str, keys: Iterable[Key]) -> set[Key]:
    """Return those of `keys` that are due."""
    rows = connection.execute(
        "SELECT value FROM json_each(?2) WHERE value <="
        " (SELECT high FROM _due WHERE derived = ?1 AND low <= +value ORDER BY low DESC LIMIT 1)",
        (name, id_list(keys)),
    )
    return {row[0] for row in rows}


_FIRST_OVERLAPPING = (
    "coalesce((SELECT low FROM _due WHERE derived = ?1 AND low <= ?2 ORDER BY low DESC LIMIT 1), ?2)"
)
"""SQL of the start of the first range that can overlap the keys from ?2 on."""


def list_states(connection: sqlite3.Connection, all_derived: Sequence[Derived]) -> list[DueState]:
    """Return what is due now, by derived table."""
    return [state for derived in all_derived if (state := get_state(connection, derived)) is not None]


def get_state(connection: sqlite3.Connection, derived: Derived) -> DueState | None:
    """Return what is due now, also if it is being computed; None if nothing is.

    Takes 25 ms for a million keys.
    """
    counts = [f"(SELECT count(*) FROM ({select} BETWEEN low AND high))" for select in derived.keys]
    count, since = connection.execute(
        f"SELECT sum(n), min(at) FROM (SELECT at, max({', '.join(counts)}, 0) AS n FROM _due"
        " WHERE (derived = ? OR derived BETWEEN ? AND ?) AND at <= ?) WHERE n > 0",
        (derived.name, *_get_taken_names(derived), get_time(derived)),
    ).fetchone()
    return DueState(derived, count, since) if count else None


def is_due(connection: sqlite3.Connection, derived: Derived) -> bool:
    """Return whether keys must be computed now, or are being computed."""
    row = connection.execute(
        "SELECT 1 FROM _due WHERE derived BETWEEN ? AND ? LIMIT 1", _get_taken_names(derived)
    ).fetchone()
    return row is not None or can_take(connection, derived)


def can_take(connection: sqlite3.Connection, derived: Derived) -> bool:
    """Return whether `take` returns ranges."""
    row = connection.execute(
        "SELECT 1 FROM _due WHERE derived = ? AND at <= ? LIMIT 1", (derived.name, get_time(derived))
    ).fetchone()
    return row is not None
