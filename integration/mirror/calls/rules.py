"""The thresholds that decide what a call is, from settings (interface.md §2) and calls.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """All in seconds.

    `short` is `calls.short_seconds`: a caller who hangs up within it is shown as abandoned, not missed (0:
    none is). `live_interval` is `sync.live_interval`. The others are calls.md's own: `patience` for the
    next leg where the group's time is unknown, `slack` added where it is known, `mailbox` for a message to
    appear after a voicemail box answered, `record` for the CDR of an outbound call that somebody picked up,
    maybe only the agent, before it reads as not answered.
    """

    short: int = 5
    live_interval: int = 15
    patience: int = 5
    slack: int = 2
    mailbox: int = 600
    record: int = 600

    @property
    def silence(self) -> int:
        """A leg that no event and no poll told of for this long is unconfirmed: four polls failed to."""
        return max(4 * self.live_interval, 30)
