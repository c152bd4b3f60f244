"""Legs and calls, computed from webhooks, polls and records.

`mirror/calls` has the computation. There are two declarations, because changed facts go first: LEGS follows
the facts of legs, and CALLS what many calls depend on: users, groups, contacts and settings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from integration.core import clock
from integration.mirror.calls import reading
from integration.mirror.calls.affected_legs import LEG_COLUMNS, AffectedLegs
from integration.mirror.calls.computed_calls import ComputedCalls
from integration.mirror.calls.leg_view import ReferenceData
from integration.mirror.calls.outcomes import evaluate_call
from integration.mirror.calls.schema import CHANGED_LEGS
from integration.mirror.calls.writing import STORED_COLUMNS, write_calls
from integration.mirror.derived import contact_numbers, due
from integration.mirror.derived.declaration import Derived, Range, Rows, Rules, Source, Target
from integration.sqlite.transaction import Transaction

VERSION = 1
"""Increased when the rows of legs or calls have other values."""

BATCH_SIZE = 2000
"""Legs computed together. Limits memory and the length of lists in SQL."""


def compute_calls(connection: sqlite3.Connection, ranges: Sequence[Range], rules: Rules) -> list[Rows]:
    """Return the rows of the ended calls of legs, and of their legs.

    Calls that have not ended change with time. Nothing is returned while any leg or call is due, because legs
    anywhere can belong to the calls.
    """
    now = clock.unix()
    if any(due.is_due(connection, derived) for derived in (LEGS, CALLS)) or due.has_timer(
        connection, LEGS.name, now
    ):
        return []
    directory = reading.load_directory(connection, rules.phone_numbers)
    reference_data = ReferenceData(directory, rules.phone_numbers, {}, rules.calls)
    leg_ids, call_ids = set[int](), set[int]()
    leg_rows, call_rows = set[tuple[object, ...]](), set[tuple[object, ...]]()
    for batch in split_legs(connection, ranges):
        computed = compute_batch(connection, batch, reference_data, now, is_check=True)
        stored_rows = computed.stored_leg_rows
        leg_ids |= computed.ids_without_facts
        call_ids |= {stored_rows[id_][1] for id_ in computed.ids_without_facts & stored_rows.keys()}
        for call, row in zip(computed.joined_calls, computed.rows, strict=True):
            if row.state == "ended":
                leg_ids.update(call.leg_ids)
                leg_rows.update(computed.leg_rows[id_] for id_ in call.leg_ids)
                call_ids |= {call.id, *(stored_rows[id_][1] for id_ in call.leg_ids if id_ in stored_rows)}
                call_rows.add(row[: len(STORED_COLUMNS)])
    return [
        Rows(LEG_ROWS, sorted(leg_ids), leg_rows),
        Rows(CALL_ROWS, sorted(call_ids), call_rows),
    ]


def rebuild_calls(
    tx: Transaction,
    ranges: Sequence[Range],
    rules: Rules,
    now: float | None = None,
    *,
    has_events: bool = True,
) -> None:
    """Compute and write the calls of legs. `now`: Unix seconds.

    Announces changed calls; `has_events`: as events for programs too.
    """
    evaluation_time = clock.unix() if now is None else now
    for batch in split_legs(tx.connection, ranges):
        directory = rules.directory.load(tx.connection, rules.phone_numbers)
        reference_data = ReferenceData(directory, rules.phone_numbers, {}, rules.calls)
        computed = compute_batch(tx.connection, batch, reference_data, evaluation_time)
        store_calls(tx, computed, rules, evaluation_time, has_events=has_events)


def store_calls(
    tx: Transaction, computed: ComputedCalls, rules: Rules, now: float, *, has_events: bool = True
) -> None:
    """Write calls, and send them to the listeners first. See `write_calls`."""
    for listener in rules.call_listeners:
        listener(tx, computed)
    write_calls(tx, computed, now, has_events=has_events)


def _follow_directory(tx: Transaction, ranges: Sequence[Range], rules: Rules) -> None:
    """Compute calls after a change of what many calls depend on, without events for programs."""
    # Facts that are due are computed with it, and are events.
    rebuild_calls(tx, ranges, rules, has_events=due.is_due(tx.connection, LEGS))


def split_legs(connection: sqlite3.Connection, ranges: Sequence[Range]) -> Iterator[list[int]]:
    """Yield the legs of `ranges` in batches, lowest first."""
    ids = {low for low, high in ranges if low == high}
    for low, high in ranges:
        if low != high:
            ids.update(LEGS.list_keys(connection, (low, high), -1))
    # A number below 1 is no id of a leg.
    iterator = iter(sorted(id_ for id_ in ids if id_ > 0))
    while batch := list(islice(iterator, BATCH_SIZE)):
        yield batch


def compute_batch(
    connection: sqlite3.Connection,
    leg_ids: Sequence[int],
    reference_data: ReferenceData,
    now: float,
    *,
    is_check: bool = False,
) -> ComputedCalls:
    """Compute the calls of legs, with all legs that can share a call.

    `reference_data`: without names of contacts. `is_check`: see `AffectedLegs`.
    """
    legs = AffectedLegs(connection, reference_data, is_check)
    calls = legs.load(leg_ids)
    contact_names = contact_numbers.find_names(connection, legs.list_party_numbers())
    reference_data = replace(reference_data, contact_names=contact_names)
    rows = [evaluate_call(call, legs.list_views(call), reference_data, now) for call in calls]
    leg_rows = {row[0]: row for call in calls for row in legs.make_rows(call)}
    return ComputedCalls(calls, rows, leg_rows, legs.stored_rows, legs.ids_without_facts, contact_names)


LEG_ROWS, CALL_ROWS = (
    Target(
        table,
        columns,
        columns[:1],
        f"SELECT {', '.join(columns)} FROM {table} WHERE {columns[0]} IN (SELECT value FROM json_each(?1))",
    )
    for table, columns in (("_legs", LEG_COLUMNS), ("_calls", STORED_COLUMNS))
)

_LIVE_ID = "CAST({row}.live_id AS INTEGER)"
"""SQL of the leg of a record. The platform writes numbers; text is accepted."""

LEGS = Derived(
    CHANGED_LEGS,
    "New calls",
    "legs",
    keys=(
        "SELECT live_id FROM cdrs WHERE live_id",
        "SELECT leg_id FROM _legs WHERE leg_id",
        "SELECT leg_id FROM _leg_events WHERE leg_id",
        "SELECT leg_id FROM _leg_live WHERE leg_id",
        "SELECT CAST(live_id AS INTEGER) FROM cdrs WHERE live_id >= '' AND CAST(live_id AS INTEGER)",
    ),
    sources=(
        Source("cdrs", reading.CDR_COLUMNS, _LIVE_ID, "{row}.live_id > 0"),
        Source("monitors", ("id", "live_id", "user_id"), _LIVE_ID, "{row}.live_id > 0"),
        Source(
            "voicemessages",
            ("id", "live_id", "parent_live_id"),
            f"SELECT {_LIVE_ID} AS key UNION SELECT CAST({{row}}.parent_live_id AS INTEGER)",
        ),
        Source("_leg_events", (*reading.EVENT_COLUMNS.split(", "), "received_at"), "{row}.leg_id"),
        Source(
            "_leg_live",
            ("leg_id", "seen_at", "doc", "missing_at", "gone_at"),
            "{row}.leg_id",
            "{row}.seen_at IS NOT NULL OR {row}.missing_at IS NOT NULL OR {row}.gone_at IS NOT NULL",
        ),
    ),
    rebuild=rebuild_calls,
    step=400,
    # The records of a page of an incremental sync, voicemail messages with two legs included.
    in_transaction=200,
)

CALLS = replace(
    LEGS,
    name="calls",
    title="Calls",
    tables=("_legs", "_calls"),
    sources=(
        *(Source(table, ("id", *columns)) for table, columns in reading.DIRECTORY_COLUMNS.items()),
        Source(
            "_contact_numbers",
            ("e164", "contact_id", "name"),
            "SELECT id AS key FROM _calls WHERE coalesce(party_e164, party) = {row}.e164",
        ),
    ),
    compute=compute_calls,
    describe_rules=lambda rules: (
        VERSION,
        rules.phone_numbers.country,
        rules.calls.short_seconds,
        [source.columns for source in LEGS.sources],
    ),
    rebuild=_follow_directory,
)
