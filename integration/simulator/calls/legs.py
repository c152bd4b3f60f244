"""The parts of a planned call: legs, and what happens to them when (`calls.py` plans, `play.py` plays)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records.people import Group, Line, Person


@dataclass(slots=True, eq=False)
class Leg:
    """One phone (or machine) in a call. Times are Unix seconds; None while they have not happened.

    `recorded`: None leaves it to the user's setting.
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
    machine: bool = False
    log_missed: bool = True
    recorded: bool | None = None
    state: str = "INITIAL"
    started: float = 0.0
    connected: float | None = None
    talk_from: float | None = None
    box_from: float | None = None
    ended: float | None = None
    held: bool = False
    t_cause: str | None = None
    terminated_by: str | None = None
    monitored: str | None = None
    labels: list[Any] = field(default_factory=list)
    session: dict[str, Any] | None = None

    @property
    def outbound(self) -> bool:
        """Placed by us, or by the platform on our behalf (webcall, callmeback)."""
        return self.destination != "in"


@dataclass(slots=True)
class Step:
    """At `at` seconds `event` happens to `leg`: initial, accepted, ringing, pickup (the agent of a one-legged
    click-to-call answers), connected, hold, unhold, dtmf, box (a mailbox answers), hangup, missed."""

    at: float
    leg: Leg
    event: str
    cause: str | None = None
    by: str | None = None
    final: bool = False
    dtmf: str | None = None


@dataclass(slots=True)
class Message:
    """A voice message of `seconds` left in `box` by way of `leg`."""

    leg: Leg
    box: Person
    seconds: int


@dataclass(slots=True)
class Plan:
    script: str
    legs: list[Leg]
    steps: list[Step] = field(default_factory=list)
    message: Message | None = None
    party: str = ""
    answered: bool = False
    documented: bool = False
    webcall: dict[str, Any] | None = None

    @property
    def length(self) -> float:
        return max(step.at for step in self.steps)

    def add(self, at: float, leg: Leg, event: str, **more: Any) -> None:
        self.steps.append(Step(at, leg, event, **more))

    def finish(self) -> Plan:
        self.steps.sort(key=lambda step: step.at)
        return self


@dataclass(slots=True)
class Wish:
    """What a script may be told; everything left out is drawn at random."""

    caller: str | None = None
    to: str | None = None
    line: Line | None = None
    user: Person | None = None
    other: Person | None = None
    group: Group | None = None
    talk: float | None = None
    ring: float | None = None
    hold: bool | None = None
    voicemail: bool | None = None
    form: str | None = None
    answered: bool | None = None
