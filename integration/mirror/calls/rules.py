"""The thresholds that decide what a call is, from settings and docs/calls.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallRules:
    """All in seconds.

    `short_seconds` is `calls.short_seconds`: a caller who hangs up within it is shown as abandoned, not
    missed (0: none is). `live_interval` is `sync.live_interval`. The others are those of docs/calls.md:
    `next_leg_seconds` for the next leg where the group's time is unknown, `slack_seconds` added where it is
    known, `mailbox_seconds` for a message to appear after a voicemail box answered, `cdr_seconds` for the CDR
    of an outbound call that somebody picked up, maybe only the agent, before it reads as not answered.
    """

    short_seconds: int = 5
    live_interval: int = 15
    next_leg_seconds: int = 5
    slack_seconds: int = 2
    mailbox_seconds: int = 600
    cdr_seconds: int = 600

    @property
    def silence_seconds(self) -> int:
        """A leg that no event and no poll told of for this long is unconfirmed: four polls failed to."""
        return max(4 * self.live_interval, 30)
