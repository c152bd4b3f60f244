"""Occupancy of users and outside parties: each takes one call at a time.

A user is occupied by a call from its first step, if the user answers or places it, or if no other phone
rings. A phone can ring beside others while its user has another call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from integration.simulator.calls.legs import NO_ANSWER, CallPlan, Leg, Step

_PAUSE_SECONDS = 3.0
"""Seconds between two calls of a user."""
_BEGINNING_EVENTS = frozenset({"pickup", "connected"})

Occupant = int | str
"""Id of a user, or number of an outside party."""


class Span(NamedTuple):
    """Seconds from the start of a call, or Unix times."""

    begin: float
    end: float


class Occupancy:
    """Times at which users are on planned calls.

    `speed`: divides the offsets of planned steps.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._bookings: dict[Occupant, list[Span]] = {}

    def find_start(self, plan: CallPlan, earliest: float) -> float:
        """Return the first time from `earliest` at which all users are free."""
        spans, start = list_busy_spans(plan), earliest
        while True:
            delays = [
                delay
                for user_id, span in spans.items()
                for delay in self._list_overlaps(user_id, self._plan_booking(span, start))
            ]
            if not delays or max(delays) <= 0:
                return start
            # Without the margin a rounding error could repeat the loop for ever.
            start += max(delays) + 0.01

    def is_free(self, user_id: int, begin: float, end: float) -> bool:
        return not any(self._list_overlaps(user_id, Span(begin, end)))

    def _plan_booking(self, span: Span, start: float) -> Span:
        """Return the Unix times of `span`, with a pause."""
        return Span(start + span.begin / self.speed, start + (span.end + _PAUSE_SECONDS) / self.speed)

    def book(self, plan: CallPlan, start: float, now: float) -> None:
        """Book the users of `plan`, which starts at Unix time `start`.

        Bookings that ended before `now` are deleted.
        """
        for user_id, span in list_busy_spans(plan).items():
            current = [booking for booking in self._bookings.get(user_id, ()) if booking.end > now]
            self._bookings[user_id] = [*current, self._plan_booking(span, start)]

    def _list_overlaps(self, user_id: Occupant, planned: Span) -> Iterator[float]:
        """Yield the seconds until each conflicting booking ends."""
        for booking in self._bookings.get(user_id, ()):
            if booking.begin < planned.end and planned.begin < booking.end:
                yield booking.end - planned.begin


def list_user_ids(leg: Leg) -> list[int]:
    """List the ids of a leg's user and of a called user."""
    user_ids = [leg.user.id] if leg.user is not None else []
    if leg.context == "USER_LOCAL" and leg.dst_id.isdigit():
        user_ids.append(int(leg.dst_id))
    return user_ids


def is_on_other_call(leg: Leg, live_legs: Iterable[Leg]) -> bool:
    """Check whether a user of `leg` is on another call of `live_legs`."""
    user_ids = set(list_user_ids(leg))
    return any(
        other.root_id != leg.root_id
        and other.state in ("CONNECTED", "ON_HOLD")
        and not user_ids.isdisjoint(list_user_ids(other))
        for other in live_legs
    )


def plan_unanswered_end(plan: CallPlan) -> list[Step]:
    """Plan the immediate end of a call whose user cannot answer."""
    open_legs = [leg for leg in plan.legs if leg.started_at and leg.ended_at is None]
    end = CallPlan("end", [])
    for leg in open_legs:
        if leg.is_outbound or leg.user is None or leg.connected_at is not None:
            end.hang_up(0.0, leg, "caller", NO_ANSWER)
        else:
            end.miss(0.0, leg, "caller", is_final=leg is open_legs[-1])
    return end.steps


def list_busy_spans(plan: CallPlan) -> dict[Occupant, Span]:
    """Return the offsets between which each user and the outside party are occupied by the call."""
    begins: dict[Leg, float] = {}
    spans: dict[Occupant, Span] = {}
    if plan.outside_party:
        spans[plan.outside_party] = Span(0.0, plan.duration)
    for step in plan.steps:
        leg = step.leg
        if step.event in _BEGINNING_EVENTS or (
            step.event == "initial" and not _rings_beside_others(leg, plan)
        ):
            begins.setdefault(leg, step.offset)
        elif step.event in ("hangup", "missed"):
            is_connected = leg.ended_at is None and leg.connected_at is not None
            begin = begins.get(leg, 0.0 if is_connected else None)
            if begin is None:
                continue
            for user_id in list_user_ids(leg):
                earlier = spans.get(user_id)
                spans[user_id] = Span(
                    min(begin, earlier.begin) if earlier else begin,
                    max(step.offset, earlier.end) if earlier else step.offset,
                )
    return spans


def _rings_beside_others(leg: Leg, plan: CallPlan) -> bool:
    """Return whether `leg` is a phone that rings beside others and does not answer."""
    return (
        leg.id != leg.root_id
        and leg.user is not None
        and not leg.is_outbound
        and not any(step.leg is leg and step.event in _BEGINNING_EVENTS for step in plan.steps)
    )
