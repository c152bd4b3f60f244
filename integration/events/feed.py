"""Events for programs: the change log in order, from a cursor on.

A cursor is the id of a change, `<epoch>-<number>`: everything up to this change was read. A reader that is
further behind than the change log gets the event `gap`, then the present state of each call that has changed
since as `call.updated`. These ids have a negative number, so that no reader gets the same gap twice.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from integration.access.visibility import UNLIMITED
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.core.ids import as_id, id_list
from integration.mirror.page_queries import history
from integration.mirror.page_queries.changed_calls import find_last_change, list_changed
from integration.mirror.records import change_log
from integration.sqlite.transaction import Change
from integration.workspace import callbacks

UPDATED, GAP = "call.updated", "gap"
CALL_KINDS = ("call.ringing", "call.answered", "call.ended", UPDATED)
MESSAGE_KINDS = ("message.received", "message.sent")
CALLBACK_KINDS = ("callback.opened", "callback.closed")
KINDS = (*CALL_KINDS, *MESSAGE_KINDS, *CALLBACK_KINDS, GAP)
"""Kinds of events. GAP is sent to every reader."""

BATCH_ROWS = 500
"""Rows of the change log that are read at once."""
_CALLS_OF_USER = (
    "SELECT CAST(id AS TEXT) FROM _calls WHERE user_id = :user AND change_no > :after"
    " UNION ALL SELECT CAST(id AS TEXT) FROM _left_calls WHERE user_id = :user AND change_no > :after"
)
"""Keys of the calls that a user has, or had until one of the changes after a number."""
GAP_CALLS = 100
"""Calls before a gap whose times are compared to find its begin."""


class UnknownCursor(SwitchroomError):
    """The cursor belongs to another epoch, or is above the newest change."""


@dataclass(frozen=True, slots=True)
class Event:
    """Event of the feed.

    `id`: its cursor. `key`: id of the call, message or call-back item; 0 for GAP. `at`: UTC text. `changed`:
    columns of `v_calls`, or labels, notes, recordings, transcript, erased. `late`: the call was learned after
    an outage. `is_removed`: the call `key` is now part of the call `merged_into`, None if that does not
    exist, or the reader does not see it. `since`: begin of a gap, which ended at `at` (UTC text).
    """

    number: int
    id: str
    kind: str
    at: str
    key: int
    changed: tuple[str, ...] = ()
    late: bool = False
    is_removed: bool = False
    merged_into: int | None = None
    since: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order.

    `next`: cursor after the last change that was read. A reader with a user scope gets that of the last event
    instead, because the number would count changes of others. `position`: number of the last change that was
    read, from which the same reader can continue.
    """

    events: list[Event]
    next: str
    position: int


def parse_cursor(mirror: sqlite3.Connection, text: str, *, user_scope: int | None = None) -> int:
    """Return the number of a cursor, negative within a gap.

    Raises ValueError for a text of another form, UnknownCursor for another epoch or a future change. For a
    reader with a user scope a future change has no events: the error would reveal the number of changes.
    """
    epoch, _, number_text = text.partition("-")
    number = as_id(number_text)
    if not (epoch.isascii() and epoch.isalnum()) or number is None:
        raise ValueError(f"{text[:60]!r} is not a cursor.")
    is_future = user_scope is None and abs(number) > _find_newest(mirror)
    if epoch != change_log.get_epoch(mirror) or is_future:
        raise UnknownCursor(
            f"The cursor {text[:60]!r} is from before a restore, a rebuild or a power failure of Switchroom."
            " Request without it, and read the calls since your last visit from /api/calls."
        )
    return number


def newest_cursor(
    mirror: sqlite3.Connection,
    app: sqlite3.Connection,
    *,
    kinds: Collection[str] = KINDS,
    user_scope: int | None = None,
) -> str:
    """Return the cursor after the newest change, with a user scope after the newest event of this user.

    Without a stored event of this user it is the last change of a call of this user, or 0: any other number
    would count changes of others.
    """
    oldest, end = change_log.find_bounds(mirror)
    while user_scope is not None and end >= oldest:
        rows = _read_rows(mirror, oldest - 1, end, kinds, user_scope, "DESC")
        visible = _select_visible(mirror, app, rows, kinds, user_scope)
        if visible:
            return visible[0].id
        end = rows[-1]["id"] - 1 if len(rows) == BATCH_ROWS else oldest - 1
    if user_scope is not None:
        end = find_last_change(mirror, end, user_scope)
    return _format_id(mirror, end)


def is_event(change: Change, kinds: Collection[str]) -> bool:
    """Return whether a change is an event of one of `kinds`, for readers that wait for one."""
    is_removed = change.topic == "call_gone" or "left" in change.data
    return change.data.get("event") in kinds or (is_removed and UPDATED in kinds)


def read_events(
    mirror: sqlite3.Connection,
    app: sqlite3.Connection,
    after: int,
    *,
    kinds: Collection[str],
    user_scope: int | None,
    limit: int,
) -> Batch:
    """Return at most `limit` events after the cursor number `after`, and before them GAP if changes are lost.

    `kinds`: those of KINDS that the reader gets. After a gap, readers of any kind of CALL_KINDS get the
    calls. A reader with a user scope has lost changes only if calls of this user are among them.
    """
    oldest, newest = change_log.find_bounds(mirror)
    has_lost_changes = after < oldest - 1 and (
        user_scope is None or list_changed(mirror, after, oldest - 1, user_scope, 1)
    )
    if after < 0 or has_lost_changes:
        return _read_gap(mirror, app, after, kinds, user_scope, limit)
    events, position = _read_log(mirror, app, max(after, oldest - 1), newest, kinds, user_scope, limit)
    shown = position if user_scope is None else events[-1].number if events else after
    return Batch(events, _format_id(mirror, shown), position)


def _read_log(
    mirror: sqlite3.Connection,
    app: sqlite3.Connection,
    after: int,
    newest: int,
    kinds: Collection[str],
    user_scope: int | None,
    limit: int,
) -> tuple[list[Event], int]:
    """Return at most `limit` events of the change log, and the number of the last change that was read."""
    events: list[Event] = []
    while len(events) < limit and after < newest:
        rows = _read_rows(mirror, after, newest, kinds, user_scope)
        events += _select_visible(mirror, app, rows, kinds, user_scope)
        after = rows[-1]["id"] if len(rows) == BATCH_ROWS else newest
    if len(events) > limit:
        return events[:limit], events[limit - 1].number
    return events, min(after, newest)


def _read_gap(
    mirror: sqlite3.Connection,
    app: sqlite3.Connection,
    after: int,
    kinds: Collection[str],
    user_scope: int | None,
    limit: int,
) -> Batch:
    """Return the calls that have changed after a lost change, among the other events that are still stored.

    Each call is returned once, with its present state, also if some of its events are stored.
    """
    oldest, end = change_log.find_bounds(mirror)
    begin, now = abs(after), clock.utc_text()
    calls: list[Event] = []
    if not set(kinds).isdisjoint(CALL_KINDS):
        calls = [
            Event(
                call.change_no,
                "",
                UPDATED,
                now,
                call.id,
                is_removed=not call.is_present,
                merged_into=call.merged_into,
            )
            for call in list_changed(mirror, begin, end, user_scope, limit)
        ]
    stored_kinds = set(kinds).difference(CALL_KINDS)
    stored_from = max(begin, oldest - 1)
    others, position = _read_log(mirror, app, stored_from, end, stored_kinds, user_scope, limit)
    events = sorted([*calls, *others], key=lambda event: event.number)
    is_finished = len(calls) < limit and position == end and len(events) <= limit
    events = events[:limit]
    last_number = events[-1].number if events else begin
    next_number = -last_number if not is_finished else end if user_scope is None else last_number
    if after >= 0:
        (until,) = mirror.execute("SELECT at FROM _changes ORDER BY id LIMIT 1").fetchone() or (now,)
        events.insert(
            0, Event(begin, "", GAP, until, 0, since=_estimate_time(mirror, begin, user_scope) or until)
        )
    events = [replace(event, number=-event.number, id=_format_id(mirror, -event.number)) for event in events]
    return Batch(events, _format_id(mirror, next_number), next_number)


def _read_rows(
    mirror: sqlite3.Connection,
    after: int,
    up_to: int,
    kinds: Collection[str],
    user_scope: int | None,
    order: Literal["ASC", "DESC"] = "ASC",
) -> list[sqlite3.Row]:
    """Return at most BATCH_ROWS rows of the change log that may be events of `kinds` for a reader.

    200,000 changes of calls of other users take 0.02 s here, and 1.4 s if they are excluded later.
    """
    of_user = (
        ""
        if user_scope is None
        else f" AND (topic NOT IN ('call', 'past_call') OR key IN ({_CALLS_OF_USER}))"
    )
    values = {"after": after, "up_to": up_to, "kinds": id_list(kinds), "user": user_scope}
    return mirror.execute(
        f"SELECT id, at, topic, key, data FROM _changes WHERE id > :after AND id <= :up_to{of_user}"
        " AND (data ->> '$.event' IN (SELECT value FROM json_each(:kinds))"
        "      OR :updated AND (topic = 'call_gone' OR data ->> '$.left' = :user))"
        f" ORDER BY id {order} LIMIT {BATCH_ROWS}",
        {**values, "updated": UPDATED in kinds},
    ).fetchall()


def _select_visible(
    mirror: sqlite3.Connection,
    app: sqlite3.Connection,
    rows: Sequence[sqlite3.Row],
    kinds: Collection[str],
    user_scope: int | None,
) -> list[Event]:
    """Return the events of rows, without deleted records and, with a user scope, those of other users.

    A call that belonged to the user until the change is removed for this reader.
    """
    epoch = change_log.get_epoch(mirror)
    changes = [(_parse_row(row, epoch), json.loads(row["data"]).get("left")) for row in rows]
    visible_ids = _find_visible_ids(mirror, app, [event for event, _ in changes], user_scope)
    events: list[Event] = []
    for event, left in changes:
        is_visible = _get_target(event) in visible_ids[event.kind]
        if event.is_removed or not is_visible:
            was_visible = event.is_removed if user_scope is None else left == user_scope
            if not was_visible or UPDATED not in kinds:
                continue
            into = event.merged_into if is_visible else None
            event = Event(
                event.number, event.id, UPDATED, event.at, event.key, is_removed=True, merged_into=into
            )
        events.append(event)
    return events


def _find_visible_ids(
    mirror: sqlite3.Connection, app: sqlite3.Connection, events: Sequence[Event], user_scope: int | None
) -> dict[str, set[int]]:
    """Return the ids of calls, messages and items that a reader sees, by kind of event."""
    viewer = UNLIMITED.limited_to(user_scope)
    ids = {kind: {_get_target(event) for event in events if event.kind == kind} for kind in KINDS}
    call_ids, message_ids, item_ids = (
        set[int]().union(*(ids[kind] for kind in group))
        for group in (CALL_KINDS, MESSAGE_KINDS, CALLBACK_KINDS)
    )
    found = history.find_all(mirror, call_ids)
    calls = {call_id for call_id, call in found.items() if viewer.can_see_call(call["user_id"])}
    if user_scope is not None:
        rows = mirror.execute(
            "SELECT id FROM sms WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))",
            (user_scope, id_list(message_ids)),
        )
        message_ids = {row["id"] for row in rows}
        items = [item for item_id in item_ids if (item := callbacks.find_item(app, item_id)) is not None]
        item_ids = {item.id for item in callbacks.select_visible(mirror, viewer, items)}
    return {
        **dict.fromkeys(CALL_KINDS, calls),
        **dict.fromkeys(MESSAGE_KINDS, message_ids),
        **dict.fromkeys(CALLBACK_KINDS, item_ids),
    }


def _get_target(event: Event) -> int:
    """Return the id of the record whose owner sees the event."""
    return event.merged_into or event.key


def _parse_row(row: sqlite3.Row, epoch: str) -> Event:
    data = json.loads(row["data"])
    return Event(
        row["id"],
        f"{epoch}-{row['id']}",
        data.get("event", UPDATED),
        row["at"],
        int(row["key"]),
        tuple(data.get("changed", ())),
        data.get("late", False),
        row["topic"] == "call_gone",
        data.get("into"),
    )


def _estimate_time(mirror: sqlite3.Connection, number: int, user_scope: int | None) -> str | None:
    """Return a time (UTC text) not after the change `number`, which is no longer stored.

    It is that of the last call of the reader whose last change is before this number; None without calls.
    """
    row = mirror.execute(
        "SELECT max(at) FROM (SELECT coalesce(ended_at, started_at) AS at FROM _calls"
        " WHERE change_no <= :number AND (:user IS NULL OR user_id = :user)"
        " ORDER BY change_no DESC LIMIT :limit)",
        {"number": number, "user": user_scope, "limit": GAP_CALLS},
    ).fetchone()
    return None if row[0] is None else str(row[0])


def _find_newest(mirror: sqlite3.Connection) -> int:
    return change_log.find_bounds(mirror)[1]


def _format_id(mirror: sqlite3.Connection, number: int) -> str:
    return f"{change_log.get_epoch(mirror)}-{number}"
