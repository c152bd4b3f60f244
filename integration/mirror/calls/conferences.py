"""Conferences: a caller counts as answered if a user takes part.

The user must belong to the account and take part during the caller's leg. The callers and users in a
conference are separate calls without a common root. This is the only module in which a call depends on legs
of another call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Set
from typing import NamedTuple

from integration.core.ids import id_list
from integration.core.timestamps import parse_seconds
from integration.mirror.calls.leg_view import LegView

NO_END = 2**62


class _Presence(NamedTuple):
    """Connected time of a leg in a conference, in Unix seconds.

    `is_staff`: it connects a user.
    """

    leg_id: int
    is_staff: bool
    since: int
    until: int


def list_overlapping_legs(
    connection: sqlite3.Connection, ids: Iterable[int], views: Collection[LegView]
) -> set[int]:
    """Return other legs in the conferences of `views`, or of the stored rows of `ids`, at the same time.

    A change of these legs may change whether the calls of the others are answered.
    """
    overlapping = {presence.leg_id for view in views for presence in _find_overlapping(connection, view)}
    former = connection.execute(
        "SELECT other.leg_id FROM _legs AS leg JOIN _legs AS other ON other.room = leg.room"
        " AND other.leg_id <> leg.leg_id AND other.started <= coalesce(leg.ended, ?1)"
        " AND coalesce(other.ended, ?1) >= leg.started"
        " WHERE leg.leg_id IN (SELECT value FROM json_each(?2)) AND leg.room IS NOT NULL",
        (NO_END, id_list(ids)),
    )
    return overlapping | {row[0] for row in former}


def mark_staffed_conferences(
    connection: sqlite3.Connection, views: Collection[LegView], ids_without_facts: Set[int]
) -> None:
    """Set `staffed_since` of each conference leg in `views`.

    Other legs are read from `_legs`. Legs in `views` are compared directly, and `ids_without_facts` are left
    out, because their rows are outdated.
    """
    conference_views = [
        view for view in views if view.conference is not None and view.leg.started is not None
    ]
    outdated_ids = {view.leg.id for view in views} | ids_without_facts
    for view in conference_views:
        others = [
            presence
            for presence in _find_overlapping(connection, view)
            if presence.leg_id not in outdated_ids
        ]
        others += [
            _get_presence(other)
            for other in conference_views
            if other is not view and other.conference == view.conference
        ]
        view.staffed_since = _find_first_meeting(_get_presence(view), others)


def _find_overlapping(connection: sqlite3.Connection, view: LegView) -> list[_Presence]:
    """Return the legs in the conference during the leg of `view`."""
    if view.conference is None or not view.leg.is_connected or view.leg.started is None:
        return []
    return [
        _Presence(leg_id, bool(is_staff), parse_seconds(connected_at) or started, ended)
        for leg_id, is_staff, connected_at, started, ended in connection.execute(
            "SELECT leg_id, side = 'inner' AND connected, connected_at, started, coalesce(ended, ?1)"
            " FROM _legs WHERE room = ?2 AND leg_id <> ?3 AND started <= ?4 AND coalesce(ended, ?1) >= ?5"
            " AND started_at IS NOT NULL",
            (NO_END, view.conference, view.leg.id, _get_end(view), view.leg.started),
        )
    ]


def _get_presence(view: LegView) -> _Presence:
    leg = view.leg
    is_staff = view.side == "inner" and leg.is_connected
    assert leg.connected_since is not None, "a leg without a time is in no conference"
    return _Presence(leg.id, is_staff, leg.connected_since, _get_end(view))


def _get_end(view: LegView) -> int:
    return NO_END if view.leg.ended_at is None else view.leg.ended_at


def _find_first_meeting(caller: _Presence, others: Iterable[_Presence]) -> int | None:
    """Return when a user first shared the conference with the caller."""
    meetings = (
        (max(caller.since, other.since), min(caller.until, other.until)) for other in others if other.is_staff
    )
    return min((since for since, until in meetings if since <= until), default=None)
