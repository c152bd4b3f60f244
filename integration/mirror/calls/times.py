"""The times people read: talk, hold, IVR (calls.md, Times people read). Whole seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integration.mirror.calls.legs import RANK, Leg

TRANSFER = 2
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


def talk_seconds(talks: Iterable[Talk]) -> int:
    """Sum of the legs' talk, what they talked at the same time counted once."""
    spans = sorted((talk.since, talk.since + talk.seconds) for talk in talks)
    total, reached = 0, 0
    for begin, end in spans:
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def hold_seconds(talks: Sequence[Talk]) -> tuple[int | None, bool]:
    """(seconds on hold, whether that sum is incomplete); None where no webhook told of the talking."""
    if any("webhook" not in talk.leg.sources for talk in talks):
        return None, False
    total, incomplete = 0, False
    for talk in talks:
        seconds, missing = _hold_of(talk.leg, [other.since for other in talks if other.leg is not talk.leg])
        total += seconds
        incomplete |= missing
    return total, incomplete


def _hold_of(leg: Leg, others_since: Sequence[int]) -> tuple[int, bool]:
    total, incomplete = 0, False
    held: int | None = None
    released: int | None = None
    for at, state, name in leg.live_moments:
        if state == "ON_HOLD":
            # The same fact may come under two subscriptions (observed.md §1.1): only another second tells.
            if held is None:
                held = at
            elif held != at:
                held, incomplete = at, True
        elif RANK[state] >= RANK["CONNECTED"] and held is not None:
            total += at - held
            held, released = None, at
        elif name == "call.unhold" and released != at:
            incomplete = True
    if held is not None and leg.ended_at is not None:
        end = max(held, leg.ended_at)
        total += end - held
        transferred = any(held <= since <= end + TRANSFER for since in others_since)
        incomplete |= not transferred
    return total, incomplete


def ivr_seconds(legs: Iterable[Leg]) -> int | None:
    """Seconds that the caller spent in the menus of `legs` that are over; None where there are none."""
    spans = [(leg.connected_at or leg.started, leg.ended_at) for leg in legs if leg.ended_at is not None]
    return sum(max(0, end - begin) for begin, end in spans) if spans else None
