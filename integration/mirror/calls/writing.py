"""Write changed rows of `_legs` and `_calls`, and announce the changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.ids import id_list
from integration.core.timestamps import format_timestamp
from integration.mirror.calls import call_events
from integration.mirror.calls.affected_legs import LEG_COLUMNS
from integration.mirror.calls.computed_calls import ComputedCalls
from integration.mirror.calls.legs import ENDED
from integration.mirror.calls.outcomes import CallRow
from integration.mirror.calls.schema import CHANGED_LEGS, build_insert_sql, build_update_sql
from integration.mirror.derived import due, report_sums
from integration.mirror.derived.followed_by_app_db import CALLBACKS
from integration.mirror.derived.search_index import SEARCH
from integration.mirror.records import change_log
from integration.mirror.records.upsert import delete_rows
from integration.sqlite.transaction import Transaction

HISTORY_AGE_SECONDS = 12 * 3600
"""Seconds since the end after which pages receive no changes of a call.

No live page shows such calls. A sync of recordings changes thousands of them: sent one by one, they were more
than the stream of a live page holds, and the page reloaded again and again.
"""

_DUE_INDEX = CallRow._fields.index("due_at")
STORED_COLUMNS = CallRow._fields[:_DUE_INDEX]
"""Columns of `_calls` that are computed. A timer in `_due` has `due_at`."""
_INSERT_CALL, _UPDATE_CALL = (
    build_insert_sql("_calls", (*STORED_COLUMNS, "is_past", "change_no")),
    build_update_sql("_calls", (*STORED_COLUMNS, "change_no")),
)
_PAST_INDEX = -1
"""Position of `is_past` in a stored row."""
_INSERT_LEG, _UPDATE_LEG = build_insert_sql("_legs", LEG_COLUMNS), build_update_sql("_legs", LEG_COLUMNS)
_STATE_INDEX = LEG_COLUMNS.index("state")


def write_calls(tx: Transaction, computed: ComputedCalls, now: float, *, has_events: bool = True) -> None:
    """Write calls with their legs and timers, and delete obsolete calls.

    Each changed call gets a new change number. `has_events`: whether changes are events for programs
    (call_events.py). `now`: Unix seconds.
    """
    _write_legs(tx, computed)
    rows = computed.rows
    previous_ids = {row[1] for row in computed.stored_leg_rows.values()}
    ids = {row.id for row in rows}
    old_rows = _load_call_rows(tx, previous_ids | ids)
    removed_ids = sorted(id_ for id_ in previous_ids - ids if id_ in old_rows)
    due.set_timers(tx, CHANGED_LEGS, dict.fromkeys(removed_ids) | {row.id: row.due_at for row in rows})
    successors = _find_successors(removed_ids, computed)
    _remove_calls(tx, [_get_call(old_rows[id_]) for id_ in removed_ids], successors)
    merged_rows = {successors[id_]: old_rows[id_] for id_ in reversed(removed_ids)}
    has_new_end = any(row.state == "ended" and row.id not in old_rows for row in rows)
    first_event_time = change_log.find_first_event_time(tx.connection, now) if has_new_end else ""
    page_limit = format_timestamp(now - HISTORY_AGE_SECONDS) or ""
    changed: list[tuple[CallRow, CallRow | None, int]] = []
    batched: list[CallRow] = []
    numbers: dict[int, int] = {}
    for row in rows:
        stored = old_rows.get(row.id)
        if stored is not None and stored[:_DUE_INDEX] == row[:_DUE_INDEX]:
            continue
        old_row = merged_rows.get(row.id) if stored is None else stored
        old = None if old_row is None else _get_call(old_row)
        is_past = _has_ended(row, first_event_time) if old_row is None else old_row[_PAST_INDEX]
        is_event = has_events and (not is_past or call_events.is_erasure(old, row))
        event = call_events.describe(old, row, now) if is_event else {}
        is_hidden = _has_ended(row, page_limit) and (old is None or _has_ended(old, page_limit))
        if is_hidden and not event:
            batched.append(row)
        else:
            left = _find_left_user(old, row)
            numbers[row.id] = _announce_call(tx, row, event, left=left, is_hidden=is_hidden)
        changed.append((row, old if stored is not None else None, int(is_past)))
    if batched:
        numbers |= zip((row.id for row in batched), tx.announce_many("history", len(batched)), strict=True)
    if updates := [(row, old) for row, old, _ in changed if old is not None]:
        _update_calls(tx, updates, numbers)
    if len(updates) < len(changed):
        _insert_calls(tx, [(row, is_past) for row, old, is_past in changed if old is None], numbers)


def _write_legs(tx: Transaction, computed: ComputedCalls) -> None:
    """Write legs that differ from their rows, and delete rows of legs without facts.

    Legs that have ended since leave the table of live calls.
    """
    stored_rows, new, changed, ended = computed.stored_leg_rows, [], [], []
    for id_, row in computed.leg_rows.items():
        stored_row = stored_rows.get(id_)
        if row == stored_row:
            continue
        if stored_row is None:
            new.append(row)
        else:
            changed.append((*row[1:], id_))
        if row[_STATE_INDEX] == ENDED and (stored_row is None or stored_row[_STATE_INDEX] != ENDED):
            ended.append(id_)
    tx.executemany(_INSERT_LEG, sorted(new, key=itemgetter(0)))
    tx.executemany(_UPDATE_LEG, changed)
    removed_ids = computed.ids_without_facts & stored_rows.keys()
    tx.executemany("DELETE FROM _legs WHERE leg_id = ?", [(id_,) for id_ in removed_ids])
    if ended:
        delete_rows(tx, get_resource("calls"), sorted(ended))


def renew_calls(
    tx: Transaction, call_ids: Iterable[int], changed: str, *, event_ids: Set[int] | None = None
) -> None:
    """Give calls new numbers, because labels, notes or something else beside their rows has changed.

    `changed`: its name in events. The change is an event for calls in `event_ids` that are not of the past;
    None if a user made it, which is always an event.
    """
    page_limit = format_timestamp(clock.unix() - HISTORY_AGE_SECONDS) or ""
    event = {"event": "call.updated", "changed": [changed]}
    rows = _load_call_rows(tx, call_ids)
    numbers: dict[int, int] = {}
    for id_, row in rows.items():
        if event_ids is None or (id_ in event_ids and not row[_PAST_INDEX]):
            call = _get_call(row)
            is_hidden = _has_ended(call, page_limit)
            numbers[id_] = _announce_call(tx, call, event, left=None, is_hidden=is_hidden)
    if batched := [id_ for id_ in rows if id_ not in numbers]:
        numbers |= zip(batched, tx.announce_many("history", len(batched)), strict=True)
    tx.executemany("UPDATE _calls SET change_no = ? WHERE id = ?", [(n, id_) for id_, n in numbers.items()])


def delete_expired_calls(tx: Transaction, call_ids: Sequence[int]) -> None:
    """Delete calls whose facts retention deletes, without announcing it."""
    tx.execute("DELETE FROM _calls WHERE id IN (SELECT value FROM json_each(?))", (id_list(call_ids),))


def _get_call(stored_row: tuple[Any, ...]) -> CallRow:
    return CallRow._make((*stored_row[:_DUE_INDEX], None))


def _has_ended(row: CallRow, before: str) -> bool:
    """Return whether the call ended before a UTC text."""
    return row.state == "ended" and (row.ended_at or "") < before


def _find_left_user(old: CallRow | None, row: CallRow) -> int | None:
    """Return the platform user who had the call, and has it no more."""
    return None if old is None or old.user_id == row.user_id else old.user_id


def _update_calls(
    tx: Transaction, changes: Sequence[tuple[CallRow, CallRow]], numbers: Mapping[int, int]
) -> None:
    """Write changed calls. `changes`: the call after and before its change."""
    if len(changes) > report_sums.MANY_CALLS:
        report_sums.mark_hours(tx, {row.started_at for pair in changes for row in pair})
    tx.executemany(_UPDATE_CALL, [(*row[1:_DUE_INDEX], numbers[row.id], row.id) for row, _ in changes])
    for row, old in changes:
        if old.user_id != row.user_id:
            _record_left(tx, row.id, old.user_id, numbers[row.id])


def _insert_calls(
    tx: Transaction, new_calls: Sequence[tuple[CallRow, int]], numbers: Mapping[int, int]
) -> None:
    """Insert calls with their `is_past`."""
    if len(new_calls) > report_sums.MANY_CALLS:
        report_sums.mark_hours(tx, {row.started_at for row, _ in new_calls})
    for derived in (SEARCH, CALLBACKS):
        # Few are computed in this transaction.
        if len(new_calls) > derived.in_transaction:
            due.mark_new(tx, derived, [row.id for row, _ in new_calls])
    tx.executemany(
        _INSERT_CALL, [(*row[:_DUE_INDEX], is_past, numbers[row.id]) for row, is_past in new_calls]
    )


def _remove_calls(tx: Transaction, calls: Sequence[CallRow], successors: Mapping[int, int | None]) -> None:
    for call in calls:
        into = successors[call.id]
        tx.execute("DELETE FROM _calls WHERE id = ?", (call.id,))
        number = tx.announce("call_gone", call.id, {"into": into, "left": call.user_id})
        tx.execute("UPDATE _merged_calls SET into_id = ? WHERE into_id = ?", (into, call.id))
        tx.execute("INSERT OR REPLACE INTO _merged_calls VALUES (?, ?, ?)", (call.id, into, number))
        _record_left(tx, call.id, call.user_id, number)


def _record_left(tx: Transaction, call_id: int, user_id: int | None, number: int) -> None:
    if user_id is not None:
        tx.execute("INSERT OR REPLACE INTO _left_calls VALUES (?, ?, ?)", (user_id, call_id, number))


def _load_call_rows(tx: Transaction, ids: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the stored rows of the calls `ids`, by id."""
    rows = tx.execute("SELECT * FROM _calls WHERE id IN (SELECT value FROM json_each(?))", (id_list(ids),))
    return {row[0]: tuple(row) for row in rows}


def _announce_call(
    tx: Transaction, row: CallRow, event: Mapping[str, Any], *, left: int | None, is_hidden: bool
) -> int:
    """Announce a change; return its number. `is_hidden`: no page shows the call."""
    data = {"id": row.id, "state": row.state, "outcome": row.outcome, "direction": row.direction, **event}
    if left is not None:
        data["left"] = left
    return tx.announce("past_call" if is_hidden else "call", row.id, data)


def _find_successors(removed_ids: Sequence[int], computed: ComputedCalls) -> dict[int, int | None]:
    """Return the calls that have the legs of removed calls now, None for a call without facts."""
    if not removed_ids:
        return {}
    present_ids = {leg_id: call.id for call in computed.joined_calls for leg_id in call.leg_ids}
    successors: dict[int, int | None] = {}
    for removed_id in removed_ids:
        legs = [leg for leg, row in computed.stored_leg_rows.items() if row[1] == removed_id]
        present = (present_ids[leg] for leg in legs if leg in present_ids)
        successors[removed_id] = present_ids.get(removed_id) or min(present, default=None)
    return successors
