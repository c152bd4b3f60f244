"""Thresholds for the evaluation of calls (docs/calls.md#thresholds)."""

from __future__ import annotations

from dataclasses import dataclass

from integration.settings.model import Settings


@dataclass(frozen=True, slots=True)
class CallRules:
    """Thresholds in seconds.

    - `short_seconds`: setting `calls.short_seconds`. A caller who hangs up within this time is abandoned and
      not missed. 0 disables the rule.
    - `live_interval`: setting `sync.live_interval`.
    - `next_leg_seconds`: waiting time for the next leg of a group whose own time is unknown.
    - `slack_seconds`: added to the waiting time of a group if that is known.
    - `mailbox_seconds`: time for a message to be listed after a voicemail box answered.
    - `cdr_seconds`: time for the CDR of an outbound call with one connected leg, which may be the agent's.
      Afterwards the call is not answered.
    """

    short_seconds: int = 5
    live_interval: int = 15
    next_leg_seconds: int = 5
    slack_seconds: int = 2
    mailbox_seconds: int = 600
    cdr_seconds: int = 600

    @property
    def silence_seconds(self) -> int:
        """Seconds without event or poll after which a leg is unconfirmed.

        Four poll intervals, at least 30 s.
        """
        return max(4 * self.live_interval, 30)


def make_call_rules(settings: Settings) -> CallRules:
    """Return the thresholds for calls, with the values of the settings."""
    return CallRules(short_seconds=settings.calls.short_seconds, live_interval=settings.sync.live_interval)
