"""Declaration of a derived table: a second form of rows of other tables.

Everything else follows from the declaration: the triggers that record what is due (`due`), the writing of the
rows, their verification and their repair (`rebuild`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.core.ids import MAX_ID, MIN_ID
from integration.core.phone_numbers import PhoneNumbers
from integration.core.timestamps import format_timestamp, parse_seconds
from integration.mirror.calls.computed_calls import ComputedCalls
from integration.mirror.calls.reading import DirectoryCache
from integration.mirror.calls.rules import CallRules, make_call_rules
from integration.mirror.page_queries.missed_calls import CountingRules, make_counting_rules
from integration.settings.model import Settings
from integration.sqlite.transaction import Transaction

Key = Any
"""Key of a source row: an integer, or UTC text. The keys of one derived table have one type."""
Range = tuple[Key, Key]
"""First and last key."""

ALL_IDS: Range = (MIN_ID, MAX_ID)
ALL_TIMES: Range = ("", "~")
CALL_IDS = ("SELECT id FROM _calls WHERE id",)
"""`Derived.keys` if they are the ids of calls."""


@dataclass(frozen=True, slots=True)
class Source:
    """Table whose rows a derived table reads.

    `columns`: the columns that it reads; changes of others have no effect. `key`: SQL of the key that a row
    changes, or a SELECT of several; without it the row changes all keys. `condition`: SQL that is true for
    rows with an effect. Both refer to the row by {row}. They call no function: SQLite assumes that a function
    can fail, and would copy every page that a statement touches, which takes more than half of the time per
    row of `_calls`.
    """

    table: str
    columns: tuple[str, ...]
    key: str = ""
    condition: str = "1"


@dataclass(frozen=True, slots=True)
class Target:
    """Derived table.

    `select` is the SQL of its rows (`columns`) for the keys ?1, a JSON list of `Rows.keys`. `identity`: the
    columns that identify a row.
    """

    table: str
    columns: tuple[str, ...]
    identity: tuple[str, ...]
    select: str


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows that `target` should have for `keys`."""

    target: Target
    keys: Sequence[object]
    rows: set[tuple[Any, ...]]


CallListener = Callable[[Transaction, ComputedCalls], None]


@dataclass(slots=True)
class Rules:
    """Settings and opening hours on which derived rows depend. A change of the hours replaces `counting`.

    `call_listeners` are called with all calls that are about to be written, in the transaction.
    """

    phone_numbers: PhoneNumbers
    counting: CountingRules
    calls: CallRules = CallRules()  # noqa: RUF009 – immutable
    directory: DirectoryCache = field(default_factory=DirectoryCache, compare=False)
    call_listeners: list[CallListener] = field(default_factory=list, compare=False)


def make_rules(settings: Settings) -> Rules:
    """Return the rules of the settings, without opening hours (`workspace/opening_hours`)."""
    return Rules(
        PhoneNumbers(settings.dashboard.country), make_counting_rules(settings), make_call_rules(settings)
    )


def _get_key(key: Key, _rules: Rules) -> Key:
    return key


def _make_single(key: Key, _rules: Rules) -> Range:
    return key, key


@dataclass(frozen=True, slots=True)
class Derived:
    """Derived table, or several `tables` that are computed together.

    `keys`: SELECTs of the keys, up to the BETWEEN of a range; most keys are in the first. `all_keys`: a range
    that contains every key. `compute(connection, ranges, rules)` only reads. `describe_rules(rules)`: what
    the rows depend on besides their sources, such as settings and the version of their form. `rebuild(tx,
    ranges, rules)` writes the rows; without it, those of `compute` that differ are written. `step`: most keys
    of one step. `in_transaction`: most keys that are computed in the transaction that changes their sources;
    a consumer computes the others. `align(key, rules)`: the first key that is computed together with `key`.
    `find_span(key, rules)`: the keys on which the rows that are computed for `key` depend. `defer(rules)`:
    first key that is not computed yet, and the Unix time until which it is not. `title`: name on pages.
    `unit`: what a key is, in the plural. Without `compute` and `rebuild` another service follows what is due.
    """

    name: str
    title: str
    unit: str
    keys: tuple[str, ...]
    sources: tuple[Source, ...]
    all_keys: Range = ALL_IDS
    tables: tuple[str, ...] = ()
    compute: Callable[[sqlite3.Connection, Sequence[Range], Rules], list[Rows]] | None = None
    describe_rules: Callable[[Rules], object] | None = None
    rebuild: Callable[[Transaction, Sequence[Range], Rules], None] | None = None
    step: int = 1000
    in_transaction: int = 0
    align: Callable[[Key, Rules], Key] = _get_key
    find_span: Callable[[Key, Rules], Range] = _make_single
    defer: Callable[[Rules], tuple[Key, float]] | None = None

    def build_triggers(self) -> dict[str, str]:
        """Return the SQL of the triggers that record changed keys in `_due`, by name."""
        triggers = {}
        for source in self.sources:
            old, new = (", ".join(f"{row}.{name}" for name in source.columns) for row in ("OLD", "NEW"))
            is_old, is_new = (f"({source.condition.format(row=row)})" for row in ("OLD", "NEW"))
            is_changed = f"({is_old} OR {is_new}) AND ({old}) IS NOT ({new})"
            update = f"UPDATE OF {', '.join(source.columns)}"
            for suffix, event, row, condition in (
                ("insert", "INSERT", "NEW", is_new),
                ("delete", "DELETE", "OLD", is_old),
                ("update_old", update, "OLD", is_changed),
                ("update_new", update, "NEW", is_changed),
            ):
                name = f"_due_{self.name}_{source.table}_{suffix}"
                triggers[name] = (
                    f"CREATE TRIGGER {name} AFTER {event} ON {source.table}"
                    f" WHEN {condition} {self._build_mark(source.key.format(row=row))} END"
                )
        return triggers

    def _build_mark(self, key: str) -> str:
        """Return trigger SQL that records keys unless a recorded range contains them.

        A single key is compared in the condition, which takes 0.4 µs for a row; an INSERT from a SELECT of
        `_due` itself takes 1.4 µs. Rejected: OR IGNORE, because the conflict clause of the statement that
        fires a trigger overrides the clauses inside.
        """
        if not key:
            low, high = map(repr, self.all_keys)
            all_due = f"derived = '{self.name}' AND low = {low} AND high = {high}"
            return (
                f"AND NOT EXISTS (SELECT 1 FROM _due WHERE {all_due}) BEGIN DELETE FROM _due"
                f" WHERE derived = '{self.name}'; INSERT INTO _due VALUES ('{self.name}', {low}, {high}, 0);"
            )
        is_list = key.startswith("SELECT")
        source, key = f" FROM ({key}) AS changed", "changed.key" if is_list else key
        # The plus removes the affinity of the key. With the affinity SQLite would convert each `low` (type
        # ANY) for the comparison, and read all ranges instead of the one before the key.
        is_due = (
            f"{key} <= (SELECT high FROM _due WHERE derived = '{self.name}' AND low <= +{key}"
            " ORDER BY low DESC LIMIT 1)"
        )
        must_record, row = f"{key} IS NOT NULL AND ({is_due}) IS NOT TRUE", f"'{self.name}', {key}, {key}, 0"
        if is_list:
            return f"BEGIN INSERT INTO _due SELECT {row}{source} WHERE {must_record};"
        return f"AND {must_record} BEGIN INSERT INTO _due VALUES ({row});"

    def list_keys(
        self, connection: sqlite3.Connection, keys: Range, limit: int, *, is_ascending: bool = False
    ) -> list[Key]:
        """Return the first `limit` keys of a range, highest first."""
        selects = " UNION ".join(f"{select} BETWEEN ?1 AND ?2" for select in self.keys)
        rows = connection.execute(
            f"{selects} ORDER BY 1 {'ASC' if is_ascending else 'DESC'} LIMIT ?3", (*keys, limit)
        )
        return [row[0] for row in rows]


def get_previous(key: Key) -> Key:
    """Return the last key before `key`."""
    if isinstance(key, int):
        return key - 1
    seconds = parse_seconds(key)
    return key[:-1] if seconds is None else format_timestamp(seconds - 1)


JOIN_RANGES = "json_each(?1) AS due CROSS JOIN {table} ON {key} BETWEEN due.value ->> 0 AND due.value ->> 1"
"""SQL of the rows of a table whose keys are in ranges. Parameter: the ranges as JSON."""


def to_json(keys: Sequence[object]) -> str:
    """Return ranges or keys as JSON for SQL."""
    return json.dumps(keys)
