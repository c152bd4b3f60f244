"""Compute derived rows that are due, write them, and verify them.

This module is the only writer of derived tables.
"""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from integration.core import clock
from integration.mirror.derived import due
from integration.mirror.derived.declaration import Derived, Key, Range, Rules, Target, get_previous, to_json
from integration.mirror.derived.registry import DERIVED
from integration.mirror.page_queries.missed_calls import register_hours
from integration.sqlite.database import Database
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.step_size import StepSize
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

STEPS_PER_RUN = 10
"""Most steps that share a transaction."""
KEYS_PER_COMPARISON = 200
"""Keys whose rows are verified together."""


def install(mirror_db: Database, rules: Rules) -> None:
    """Record what is due by changed rules, and let each transaction compute what it makes due.

    Call this function once, before the first write.
    """

    def follow_rules(tx: Transaction) -> None:
        for derived in DERIVED:
            if derived.describe_rules is not None:
                due.follow_rules(tx, derived, derived.describe_rules(rules))

    mirror_db.write(follow_rules)
    mirror_db.before_commit = lambda tx: _rebuild_changed(tx, rules)


def rebuild_due(
    mirror_db: Database,
    rules: Rules,
    all_derived: Sequence[Derived] = DERIVED,
    *,
    should_continue: Callable[[], bool] = lambda: True,
    on_batch: Callable[[], None] = lambda: None,
    write_ready: Callable[[Transaction], bool] = lambda _tx: False,
) -> bool:
    """Compute all that is due, newest keys first, in short transactions.

    A later derived table waits until no earlier one is due. Calls `on_batch` after each transaction.
    `write_ready` writes rows that another process has computed, in place of a step, and returns whether there
    were any. Returns whether nothing is left that can be computed here, which a cancellation prevents. Raises
    StorageError.
    """
    step_sizes = {derived.name: StepSize(derived.step) for derived in all_derived}
    while (derived := _find_due(mirror_db, all_derived)) is not None:
        if not should_continue():
            return False

        def step(tx: Transaction, derived: Derived = derived) -> None:
            if write_ready(tx):
                return
            step_size = step_sizes[derived.name]
            with step_size.measure(limit := step_size.value):
                if derived.defer is not None:
                    _defer(tx, derived, *derived.defer(rules))
                rebuild_next(tx, derived, rules, limit)

        mirror_db.write_bulk([step] * STEPS_PER_RUN)
        on_batch()
    return True


def describe_due(mirror_db: Database) -> dict[str, dict[str, Any]] | None:
    """Return the fact of /readyz: number of due keys, and since when (UTC), by derived table."""
    with mirror_db.read() as connection:
        states = due.list_states(connection, DERIVED)
    return {
        state.derived.name: {"count": state.count, "since": clock.utc_text(state.since)} for state in states
    } or None


def find_differences(
    connection: sqlite3.Connection,
    derived: Derived,
    rules: Rules,
    *,
    sampled: bool,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[Range]:
    """Yield ranges of keys whose stored rows differ from the computed ones. Only reads.

    `sampled`: compare one random range only. `progress` receives numbers of keys. Ignores what is due,
    because it will be computed. Each range is read in a short transaction of its own.
    """
    if derived.compute is None or derived.describe_rules is None:
        return
    if not due.has_current_rules(connection, derived, derived.describe_rules(rules)):
        return
    register_hours(connection, rules.counting.hours.is_open_at)
    (total,) = connection.execute(
        f"SELECT count(*) FROM ({derived.keys[0]} BETWEEN ? AND ?)", derived.all_keys
    ).fetchone()
    for number, keys in enumerate(_list_verified(connection, derived, rules, sampled=sampled)):
        progress(min(number * KEYS_PER_COMPARISON, total), total)
        connection.execute("BEGIN")
        try:
            has_differences = read_tolerantly(
                connection, partial(_has_differences, connection, derived, rules, keys)
            )
        finally:
            connection.execute("ROLLBACK")
        if has_differences:
            yield keys


def _has_differences(connection: sqlite3.Connection, derived: Derived, rules: Rules, keys: Range) -> bool:
    span = derived.find_span(keys[0], rules)[0], derived.find_span(keys[1], rules)[1]
    return not due.list_ranges(connection, derived.name, span) and any(
        change.added or change.removed for change in _compare(connection, derived, [keys], rules)
    )


def _list_verified(
    connection: sqlite3.Connection, derived: Derived, rules: Rules, *, sampled: bool
) -> Iterator[Range]:
    """Yield the ranges to verify, newest first.

    Numbers between those of the sources are ranges too: only a row without a source has such a key.
    """
    low, high = derived.all_keys
    first_deferred = high if derived.defer is None else derived.defer(rules)[0]
    if sampled:
        keys_sql = " UNION ALL ".join(f"{select} BETWEEN ?1 AND ?2" for select in derived.keys)
        (count,) = connection.execute(f"SELECT count(*) FROM ({keys_sql})", (low, high)).fetchone()
        position = random.randrange(max(1, count))
        row = connection.execute(f"{keys_sql} LIMIT 1 OFFSET ?3", (low, high, position)).fetchone()
        high = low if row is None else row[0]
    while keys := derived.list_keys(connection, (low, high), KEYS_PER_COMPARISON):
        if derived.defer is not None and derived.find_span(keys[0], rules)[1] >= first_deferred:
            high = get_previous(derived.align(keys[0], rules))
            continue
        if isinstance(high, int) and keys[0] < high:
            yield keys[0] + 1, high
        yield keys[-1], keys[0]
        if sampled:
            return
        high = get_previous(keys[-1])
    if isinstance(high, int) and not sampled:
        yield low, high


@dataclass(frozen=True, slots=True)
class _Change:
    """Rows to insert into and to delete from a derived table."""

    target: Target
    added: set[tuple[Any, ...]]
    removed: set[tuple[Any, ...]]


def _compare(
    connection: sqlite3.Connection, derived: Derived, ranges: Sequence[Range], rules: Rules
) -> list[_Change]:
    """Return the differences between the computed and the stored rows of `ranges`."""
    assert derived.compute is not None
    changes = []
    for computed in derived.compute(connection, ranges, rules):
        stored = {tuple(row) for row in connection.execute(computed.target.select, (to_json(computed.keys),))}
        changes.append(_Change(computed.target, computed.rows - stored, stored - computed.rows))
    return changes


def _write(tx: Transaction, change: _Change) -> None:
    target = change.target
    positions = [target.columns.index(name) for name in target.identity]
    condition = " AND ".join(f"{name} = ?" for name in target.identity)
    tx.executemany(
        f"DELETE FROM {target.table} WHERE {condition}",
        [tuple(row[position] for position in positions) for row in change.removed],
    )
    # In order: FTS5 writes a segment at each smaller rowid.
    tx.executemany(
        f"INSERT INTO {target.table} ({', '.join(target.columns)})"
        f" VALUES ({', '.join('?' * len(target.columns))})",
        sorted(change.added),
    )


def rebuild_next(
    tx: Transaction, derived: Derived, rules: Rules, limit: int, until: float | None = None
) -> None:
    """Compute about `limit` keys that are due at `until` (Unix seconds; None: now), newest first."""
    ranges = due.take(tx, derived, limit, until, lambda key: derived.align(key, rules))
    if ranges:
        read_tolerantly(tx.connection, lambda: _rebuild(tx, derived, ranges, rules))


def _rebuild(tx: Transaction, derived: Derived, ranges: Sequence[Range], rules: Rules) -> None:
    if derived.rebuild is not None:
        derived.rebuild(tx, ranges, rules)
        return
    for change in _compare(tx.connection, derived, ranges, rules):
        _write(tx, change)


def _defer(tx: Transaction, derived: Derived, first: Key, until: float) -> None:
    """Replace what is due from the key `first` on by one range that is due at `until` (Unix seconds)."""
    parameters = (derived.name, first)
    now = clock.unix()
    if not tx.execute(
        "SELECT 1 FROM _due WHERE derived = ? AND high >= ? AND at <= ?", (*parameters, now)
    ).fetchone():
        return
    tx.execute(
        "UPDATE _due SET high = ?3 WHERE derived = ?1 AND low < ?2 AND high >= ?2",
        (*parameters, get_previous(first)),
    )
    tx.execute("DELETE FROM _due WHERE derived = ? AND low >= ?", parameters)
    tx.execute("INSERT INTO _due VALUES (?, ?, ?, ?)", (*parameters, derived.all_keys[1], until))


def _rebuild_changed(tx: Transaction, rules: Rules) -> None:
    """Compute what the transaction has made due, and record since when the rest is due."""
    names = _list_changed(tx)
    if not names:
        return
    tx.execute("SAVEPOINT derived")
    try:
        for derived in DERIVED:
            if derived.in_transaction and derived.name in names:
                rebuild_next(tx, derived, rules, derived.in_transaction, 0)
                names = _list_changed(tx)
    except Exception:
        # The change itself must be stored. The consumer repeats the computation and reports its error.
        tx.execute("ROLLBACK TO derived")
        log.exception("derived rows of a change could not be computed")
    tx.execute("RELEASE derived")
    due.postpone(tx)


def _list_changed(tx: Transaction) -> set[str]:
    """Return the names of the derived tables that the transaction has made due."""
    return {row[0] for row in tx.execute("SELECT DISTINCT derived FROM _due WHERE at = 0")}


def _find_due(mirror_db: Database, all_derived: Sequence[Derived]) -> Derived | None:
    """Return the first derived table that is due; None while another process computes it."""
    with mirror_db.read() as connection:
        for derived in all_derived:
            if (derived.compute or derived.rebuild) and due.is_due(connection, derived):
                return derived if due.can_take(connection, derived) else None
    return None
