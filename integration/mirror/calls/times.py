"""Compute talk, hold and IVR times of a call, in seconds (docs/calls.md#times)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integration.mirror.calls.legs import STATE_RANK, Leg

TRANSFER_SECONDS = 2
"""Maximum seconds between a leg's end on hold and the connection of its transfer."""


class Talk(NamedTuple):
    """Leg on which people talked.

    `since` is the start of the conversation in Unix seconds: the connection of the leg, None if its CDR has
    no time. On an outbound call it is the time when the destination answered, because in click-to-call the
    agent's phone connects first.
    """

    leg: Leg
    since: int | None

    @property
    def seconds(self) -> int:
        """Seconds billed by the leg's CDRs, otherwise `since` to end."""
        if self.leg.billsec is not None:
            return self.leg.billsec
        if self.since is None or self.leg.ended_at is None:
            return 0
        return max(0, self.leg.ended_at - self.since)


def sum_talk_seconds(talks: Sequence[Talk]) -> int:
    """Return the seconds of talk of all legs. Simultaneous talk counts once, where times are known."""
    spans = sorted([(talk.since, talk.since + talk.seconds) for talk in talks if talk.since is not None])
    total, counted_until = sum([talk.seconds for talk in talks if talk.since is None]), 0
    for begin, end in spans:
        total += max(0, end - max(begin, counted_until))
        counted_until = max(counted_until, end)
    return total


def sum_hold_seconds(talks: Sequence[Talk]) -> tuple[int | None, bool]:
    """Return (seconds on hold, whether a hold or an unhold is missing).

    The seconds are None if a talking leg has no webhooks.
    """
    if not talks:
        return 0, False
    if any("webhook" not in talk.leg.sources for talk in talks):
        return None, False
    total, is_incomplete = 0, False
    for talk in talks:
        leg_seconds, is_leg_incomplete = _sum_leg_hold(
            talk.leg,
            [other.since for other in talks if other.leg is not talk.leg and other.since is not None],
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
            # Two subscriptions may report the same hold (docs/platform.md#9-events). Only a hold in another
            # second shows that an unhold is missing.
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
    """Return the seconds in IVR legs that have ended, or None."""
    seconds = [
        max(0, leg.ended_at - leg.connected_since)
        for leg in legs
        if leg.ended_at is not None and leg.connected_since is not None
    ]
    return sum(seconds) if seconds else None
