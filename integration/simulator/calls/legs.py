"""Planned calls: legs and their steps. `scripts.py` plans them, `player.py` plays them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records.people import Group, Person

NOT_REGISTERED = "No user responding"
ANSWERED_ELSEWHERE = "Call completed elsewhere"
NO_ANSWER = "No Answer"
NORMAL_CLEARING = "Normal Clearing"
BUSY = "User busy"

LEG_STATES = {
    "initial": "INITIAL",
    "accepted": "ACCEPTED",
    "ringing": "RINGING",
    "pickup": "CONNECTED",
    "connected": "CONNECTED",
    "hold": "ON_HOLD",
    "unhold": "CONNECTED",
    "hangup": "HANGUP",
    "missed": "HANGUP",
}
"""State of a leg after each event that changes it."""


@dataclass(slots=True, eq=False)
class Leg:
    """Phone or machine in a call.

    Times are Unix seconds, None before the event.

    `is_recorded`: None uses the recording setting of the user.
    """

    id: int
    root_id: int
    parent_id: int | None
    user: Person | None
    context: str
    destination: str
    src: str
    src_id: str
    src_name: str
    clid: str
    dst: str
    dst_id: str
    dst_name: str
    src_hash: str
    is_machine: bool = False
    logs_missed_calls: bool = True
    is_recorded: bool | None = None
    state: str = "INITIAL"
    started_at: float = 0.0
    connected_at: float | None = None
    agent_connected_at: float | None = None
    mailbox_connected_at: float | None = None
    ended_at: float | None = None
    ended_on_hold: bool = False
    t_cause: str | None = None
    terminated_by: str | None = None
    monitor_state: str | None = None
    labels: list[Any] = field(default_factory=list)

    @property
    def answered_at(self) -> float | None:
        """Time at which the first end answered: the user, for a click-to-call with one leg."""
        return self.agent_connected_at if self.agent_connected_at is not None else self.connected_at

    @property
    def talked_at(self) -> float | None:
        """Time of the answer of a person or, as on the platform, of a mailbox."""
        return self.connected_at if self.connected_at is not None else self.mailbox_connected_at

    @property
    def is_outbound(self) -> bool:
        """True if a user placed the leg, also through the platform.

        The platform places legs with the destinations webcall and callmeback.
        """
        return self.destination != "in"


@dataclass(slots=True)
class Step:
    """Event of a leg, `offset` seconds after the start of the call.

    `event`: initial, accepted, ringing, pickup (the user answers a click-to-call with one leg), connected,
    hold, unhold, dtmf, mailbox (a mailbox answers), hangup, missed.
    """

    offset: float
    leg: Leg
    event: str
    cause: str | None = None
    by: str | None = None
    final: bool = False
    dtmf: str | None = None


@dataclass(slots=True)
class VoicemailMessage:
    """Voicemail message of `seconds`, recorded on `leg`.

    It is in the mailbox of `mailbox_owner`.
    """

    leg: Leg
    mailbox_owner: Person
    seconds: int


@dataclass(slots=True)
class CallPlan:
    script: str
    legs: list[Leg]
    steps: list[Step] = field(default_factory=list)
    message: VoicemailMessage | None = None
    outside_party: str = ""
    is_answered: bool = False
    uses_documented_events: bool = False
    webcall: dict[str, Any] | None = None

    @property
    def duration(self) -> float:
        return max(step.offset for step in self.steps)

    def add_step(self, offset: float, leg: Leg, event: str, **step_fields: Any) -> None:
        self.steps.append(Step(offset, leg, event, **step_fields))

    def ring(self, leg: Leg, offset: float = 0.0, delay: float = 0.3) -> None:
        """Start `leg` at `offset`; its phone rings `delay` seconds later."""
        self.add_step(offset, leg, "initial")
        self.add_step(offset + delay, leg, "ringing")

    def hang_up(self, offset: float, leg: Leg, by: str, cause: str = NORMAL_CLEARING) -> None:
        self.add_step(offset, leg, "hangup", cause=cause, by=by)

    def miss(
        self, offset: float, leg: Leg, by: str, cause: str = NO_ANSWER, *, is_final: bool = False
    ) -> None:
        self.add_step(offset, leg, "missed", cause=cause, by=by, final=is_final)

    def sort_steps(self) -> CallPlan:
        self.steps.sort(key=lambda step: step.offset)
        return self


@dataclass(slots=True)
class CallOptions:
    """Options of a script. Missing options are drawn at random."""

    caller: str | None = None
    destination: str | None = None
    ddi: dict[str, Any] | None = None
    user: Person | None = None
    second_user: Person | None = None
    group: Group | None = None
    talk_seconds: float | None = None
    ring_seconds: float | None = None
    hold_seconds: float | None = None
    has_hold: bool | None = None
    voicemail: bool | None = None
    variant: str | None = None
    is_answered: bool | None = None
