"""Conferences: a caller in one is answered if somebody of ours was in it at the same time.

Those are calls of their own, which no root joins, so this is the one place where a call looks at another.
"""

from __future__ import annotations

from collections.abc import Collection

from integration.mirror.calls.leg_view import View
from integration.sqlite.transaction import Transaction

ENDLESS = 2**62


def others(tx: Transaction, views: Collection[View]) -> set[int]:
    """Legs of other calls in the rooms of `views` at the same time: these may change how they read."""
    return {row[0] for view in views for row in _meanwhile(tx, view)}


def introduce(tx: Transaction, views: Collection[View]) -> None:
    """Tell each conference leg whether one of ours was there. `views` may differ from their rows by now."""
    here = [view for view in views if view.room is not None]
    ids = {view.leg.id for view in here}
    for view in here:
        view.company = any(host and leg_id not in ids for leg_id, host in _meanwhile(tx, view)) or any(
            _hosts(one) and one is not view and _overlap(one, view) for one in here
        )


def _meanwhile(tx: Transaction, view: View) -> list[tuple[int, bool]]:
    """(leg, whether it is one of ours) in the view's room while the view's leg was connected."""
    if view.room is None or not view.leg.connected:
        return []
    begin, end = _span(view)
    return [
        (row[0], bool(row[1]))
        for row in tx.execute(
            "SELECT leg_id, side = 'inner' AND connected FROM _legs WHERE room = ? AND leg_id <> ?"
            " AND started <= ? AND coalesce(ended, ?) >= ?",
            (view.room, view.leg.id, end, ENDLESS, begin),
        )
    ]


def _hosts(view: View) -> bool:
    return view.side == "inner" and view.leg.connected


def _overlap(one: View, other: View) -> bool:
    (a, b), (c, d) = _span(one), _span(other)
    return one.room == other.room and a <= d and c <= b


def _span(view: View) -> tuple[int, int]:
    return view.leg.started, ENDLESS if view.leg.ended_at is None else view.leg.ended_at
