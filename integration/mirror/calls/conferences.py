"""Conferences: a caller counts as answered if a user takes part.

The user must belong to the account and take part during the caller's leg. The callers and users in a
conference are separate calls without a common root. This is the only module in which a call depends on legs
of another call.
"""

from __future__ import annotations

from collections.abc import Collection

from integration.mirror.calls.leg_view import LegView
from integration.sqlite.transaction import Transaction

NO_END = 2**62


def list_overlapping_legs(tx: Transaction, views: Collection[LegView]) -> set[int]:
    """Return other legs in the conferences of `views` at the same time.

    A change of `views` may change whether the calls of these legs are answered.
    """
    return {row[0] for view in views for row in _find_overlapping(tx, view)}


def mark_staffed_conferences(tx: Transaction, views: Collection[LegView]) -> None:
    """Set `has_staff_in_conference` of each conference leg in `views`.

    Other legs are read from `_legs`. Legs in `views` are compared directly, because their rows may be
    outdated.
    """
    conference_views = [view for view in views if view.conference is not None]
    leg_ids = {view.leg.id for view in conference_views}
    for view in conference_views:
        view.has_staff_in_conference = any(
            is_staff and leg_id not in leg_ids for leg_id, is_staff in _find_overlapping(tx, view)
        ) or any(
            _is_connected_staff(other) and other is not view and _overlaps(other, view)
            for other in conference_views
        )


def _find_overlapping(tx: Transaction, view: LegView) -> list[tuple[int, bool]]:
    """Return the legs in the conference during the leg of `view`.

    Each is (leg id, whether the leg connects a user of the account).
    """
    if view.conference is None or not view.leg.is_connected:
        return []
    begin, end = _get_time_range(view)
    return [
        (row[0], bool(row[1]))
        for row in tx.execute(
            "SELECT leg_id, side = 'inner' AND connected FROM _legs WHERE room = ? AND leg_id <> ?"
            " AND started <= ? AND coalesce(ended, ?) >= ?",
            (view.conference, view.leg.id, end, NO_END, begin),
        )
    ]


def _is_connected_staff(view: LegView) -> bool:
    return view.side == "inner" and view.leg.is_connected


def _overlaps(first: LegView, second: LegView) -> bool:
    (a, b), (c, d) = _get_time_range(first), _get_time_range(second)
    return first.conference == second.conference and a <= d and c <= b


def _get_time_range(view: LegView) -> tuple[int, int]:
    return view.leg.started, NO_END if view.leg.ended_at is None else view.leg.ended_at
