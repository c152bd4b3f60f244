"""The times people read: talk, hold, IVR (docs/calls.md#times). Whole seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integration.mirror.calls.legs import STATE_RANK, Leg

TRANSFER_SECONDS = 2
"""A leg that ends on hold within this many seconds of another's connecting was transferred there."""


class Talk(NamedTuple):
    """A leg on which people talked, and when that began: its connection, or later for an agent's own leg."""

    leg: Leg
    since: int

    @property
    def seconds(self) -> int:
        """What the leg's CDRs bill, else from `since` to the end; 0 while it goes on."""
        if self.leg.billsec is not None:
            return self.leg.billsec
        return max(0, (self.leg.ended_at or self.since) - self.since)


def sum_talk_seconds(talks: Iterable[Talk]) -> int:
    """Sum of the legs' talk, what they talked at the same time counted once."""
    spans = sorted((talk.since, talk.since + talk.seconds) for talk in talks)
    total, counted_until = 0, 0
    for begin, end in spans:
        total += max(0, end - max(begin, counted_until))
        counted_until = max(counted_until, end)
    return total


def sum_hold_seconds(talks: Sequence[Talk]) -> tuple[int | None, bool]:
    """(seconds on hold, whether that sum is incomplete); None where no webhook told of the talking."""
    if any("webhook" not in talk.leg.sources for talk in talks):
        return None, False
    total, is_incomplete = 0, False
    for talk in talks:
        leg_seconds, is_leg_incomplete = _sum_leg_hold(
            talk.leg, [other.since for other in talks if other.leg is not talk.leg]
        )
        total += leg_seconds
        is_incomplete |= is_leg_incomplete
    return total, is_incomplete


def _sum_leg_hold(leg: Leg, others_since: Sequence[int]) -> tuple[int, bool]:
    total, is_incomplete = 0, False
    held_since: int | None = None
    released_at: int | None = None
    for timestamp, state, name in leg.live_states:
        if state == "ON_HOLD":
            # The same fact may come under two subscriptions (docs/platform.md#9-events): only another second
            # tells.
            if held_since is None:
                held_since = timestamp
            elif held_since != timestamp:
                held_since, is_incomplete = timestamp, True
        elif STATE_RANK[state] >= STATE_RANK["CONNECTED"] and held_since is not None:
            total += timestamp - held_since
            held_since, released_at = None, timestamp
        elif name == "call.unhold" and released_at != timestamp:
            is_incomplete = True
    if held_since is not None and leg.ended_at is not None:
        end = max(held_since, leg.ended_at)
        total += end - held_since
        is_transferred = any(held_since <= since <= end + TRANSFER_SECONDS for since in others_since)
        is_incomplete |= not is_transferred
    return total, is_incomplete


def sum_ivr_seconds(legs: Iterable[Leg]) -> int | None:
    """Seconds that the caller spent in the menus of `legs` that are over; None where there are none."""
    spans = [(leg.connected_at or leg.started, leg.ended_at) for leg in legs if leg.ended_at is not None]
    return sum(max(0, end - begin) for begin, end in spans) if spans else None
