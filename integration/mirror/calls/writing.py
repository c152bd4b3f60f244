"""Write changed rows of `_calls` and `_call_ids`, and announce the changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from integration.core.ids import id_list
from integration.core.timestamps import format_timestamp
from integration.mirror.calls.affected_legs import AffectedLegs
from integration.mirror.calls.joins import JoinedCall
from integration.mirror.calls.outcomes import CallRow
from integration.mirror.calls.schema import CHANGED_LEGS, build_insert_sql, build_update_sql
from integration.mirror.derived import due, report_sums
from integration.mirror.derived.callback_calls import CALLBACKS
from integration.mirror.derived.search_index import SEARCH
from integration.sqlite.transaction import Transaction

HISTORY_AGE_SECONDS = 12 * 3600
"""Seconds since the end after which new and changed calls are announced together.

No live page shows such calls. A sync of recordings changes thousands of them: announced one by one, they
were more than the stream of a live page holds, and the page reloaded again and again.
"""

_DUE_INDEX = CallRow._fields.index("due_at")
_STARTED_INDEX = CallRow._fields.index("started_at")
STORED_COLUMNS = CallRow._fields[:_DUE_INDEX]
"""Columns of `_calls` that are computed. A timer in `_due` has `due_at`."""
_CALL_COLUMNS = (*STORED_COLUMNS, "change_no")
_INSERT_CALL, _UPDATE_CALL = (
    build_insert_sql("_calls", _CALL_COLUMNS),
    build_update_sql("_calls", _CALL_COLUMNS),
)


def write_calls(
    tx: Transaction,
    rows: Sequence[CallRow],
    joined_calls: Sequence[JoinedCall],
    affected_legs: AffectedLegs,
    now: float,
) -> None:
    """Write the calls of `affected_legs` with their timers, and delete obsolete calls."""
    previous_ids = {row[1] for row in affected_legs.previous_rows.values()}
    ids = {row.id for row in rows}
    old_rows = _load_call_rows(tx, previous_ids | ids)
    removed_ids = sorted(id_ for id_ in previous_ids - ids if id_ in old_rows)
    for id_ in removed_ids:
        tx.execute("DELETE FROM _calls WHERE id = ?", (id_,))
        tx.announce("call_gone", id_)
    due.set_timers(tx, CHANGED_LEGS, dict.fromkeys(removed_ids) | {row.id: row.due_at for row in rows})
    _store_call_ids(tx, joined_calls, affected_legs, removed_ids)
    new_calls: list[CallRow] = []
    history_calls: list[CallRow] = []
    changed_calls: list[CallRow] = []
    for row in rows:
        old_row = old_rows.get(row.id)
        if old_row is None:
            (history_calls if _is_history(row, now) else new_calls).append(row)
        elif old_row[:_DUE_INDEX] != row[:_DUE_INDEX]:
            changed_calls.append(row)
    if len(changed_calls) > report_sums.MANY_CALLS:
        old_times = {old_rows[row.id][_STARTED_INDEX] for row in changed_calls}
        report_sums.mark_hours(tx, old_times | {row.started_at for row in changed_calls})
    tx.executemany(_INSERT_CALL, [(*row[:_DUE_INDEX], _announce_call(tx, row)) for row in new_calls])
    changed_history = [
        row
        for row in changed_calls
        if _is_history(row, now) and _is_history(CallRow._make((*old_rows[row.id][:_DUE_INDEX], None)), now)
    ]
    numbers = dict(
        zip((row.id for row in changed_history), _announce_history(tx, changed_history), strict=True)
    )
    tx.executemany(
        _UPDATE_CALL,
        [
            (*row[1:_DUE_INDEX], numbers.get(row.id) or _announce_call(tx, row), row.id)
            for row in changed_calls
        ],
    )
    _insert_history(tx, history_calls)


def _is_history(row: CallRow, now: float) -> bool:
    """Return whether no live page shows the call.

    It ended long before `now` (Unix seconds).
    """
    history_limit = format_timestamp(now - HISTORY_AGE_SECONDS) or ""
    return row.state == "ended" and (row.ended_at or "") < history_limit


def _insert_history(tx: Transaction, rows: Sequence[CallRow]) -> None:
    """Insert new calls of the past and announce them together."""
    if rows:
        if len(rows) > report_sums.MANY_CALLS:
            report_sums.mark_hours(tx, {row.started_at for row in rows})
        for derived in (SEARCH, CALLBACKS):
            # Few are computed in this transaction.
            if len(rows) > derived.in_transaction:
                due.mark_new(tx, derived, [row.id for row in rows])
        numbers = _announce_history(tx, rows)
        tx.executemany(
            _INSERT_CALL, [(*row[:_DUE_INDEX], number) for row, number in zip(rows, numbers, strict=True)]
        )


def _load_call_rows(tx: Transaction, ids: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the stored rows of the calls `ids`, by id."""
    rows = tx.execute("SELECT * FROM _calls WHERE id IN (SELECT value FROM json_each(?))", (id_list(ids),))
    return {row[0]: tuple(row) for row in rows}


def _announce_history(tx: Transaction, rows: Sequence[CallRow]) -> range:
    """Announce calls of the past together; return their change numbers."""
    return tx.announce_many("history", len(rows)) if rows else range(0)


def _announce_call(tx: Transaction, row: CallRow) -> int:
    payload = {"id": row.id, "state": row.state, "outcome": row.outcome, "direction": row.direction}
    return tx.announce("call", row.id, payload)


def _store_call_ids(
    tx: Transaction,
    joined_calls: Sequence[JoinedCall],
    affected_legs: AffectedLegs,
    removed_ids: Sequence[int],
) -> None:
    """Map the ids of legs, roots and merged calls to their call."""
    call_id_by_id: dict[int, int] = {}
    for call in joined_calls:
        call_id_by_id.update(dict.fromkeys(call.root_ids, call.id))
    for call in joined_calls:
        call_id_by_id.update(dict.fromkeys((*call.leg_ids, call.id), call.id))
    stored_ids = dict(
        tuple(row)
        for row in tx.execute(
            "SELECT id, call_id FROM _call_ids WHERE id IN (SELECT value FROM json_each(?))",
            (id_list(call_id_by_id),),
        )
    )
    new_ids = [(id_, call_id) for id_, call_id in call_id_by_id.items() if id_ not in stored_ids]
    changed_ids = [
        (call_id, id_) for id_, call_id in call_id_by_id.items() if stored_ids.get(id_, call_id) != call_id
    ]
    tx.executemany("INSERT INTO _call_ids VALUES (?, ?)", sorted(new_ids))
    tx.executemany("UPDATE _call_ids SET call_id = ? WHERE id = ?", changed_ids)
    for id_ in removed_ids:
        successors = [
            call_id_by_id[leg]
            for leg, row in affected_legs.previous_rows.items()
            if row[1] == id_ and leg in call_id_by_id
        ]
        successor = call_id_by_id.get(id_) or min(successors, default=None)
        if successor is None:
            tx.execute("DELETE FROM _call_ids WHERE call_id = ?", (id_,))
        else:
            tx.execute("UPDATE _call_ids SET call_id = ? WHERE call_id = ?", (successor, id_))
