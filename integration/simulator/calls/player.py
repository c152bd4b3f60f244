"""Makes planned calls happen: changes live calls, tells webhooks, files CDRs, recordings and voice messages.

The same code plays live traffic, calls on demand and months of history, so that all three agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.calls import media_sessions as sessions
from integration.simulator.calls import records, webcalls
from integration.simulator.calls.events import call_event, recording_event, sms_event
from integration.simulator.calls.legs import Leg, Plan, Step
from integration.simulator.records import widgets, words
from integration.simulator.records.people import Person
from integration.simulator.world import World

Record = dict[str, Any]
Tell = Callable[[Record, float], None]


@dataclass(slots=True)
class Made:
    """What came of a call: ids and events, in order."""

    leg_ids: list[int] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    cdr_ids: list[int] = field(default_factory=list)
    monitor_ids: list[int] = field(default_factory=list)
    voicemessage_ids: list[int] = field(default_factory=list)


class Player:
    """Applies steps to the world. `tell` gets every webhook body and its time; None: nobody is told.

    `history`: what happens is past, and not all of it will have happened.
    """

    def __init__(self, world: World, tell: Tell | None = None, *, history: bool = False) -> None:
        self.world = world
        self.tell = tell
        self.history = history
        self._rng = random.Random(f"player {world.seed}")

    def step(self, plan: Plan, step: Step, at: float) -> Record | None:
        """Let `step` happen at Unix time `at`; returns the webhook body it was told with."""
        leg = step.leg
        with self.world.lock:
            self._apply(leg, step, at)
            if self.tell is None:
                return None
            event = call_event(self.world.event_ids.make(at), step, at, documented=plan.documented)
            if event is not None:
                self.tell(event, at)
            return event

    def _apply(self, leg: Leg, step: Step, at: float) -> None:
        if leg.ended is not None:
            return
        match step.event:
            case "initial":
                leg.started = at
                leg.state = "INITIAL"
                self.world.live[leg.id] = leg
            case "accepted":
                leg.state = "ACCEPTED"
            case "ringing":
                leg.state = "RINGING"
            case "pickup":
                leg.talk_from = at
                leg.state = "CONNECTED"
            case "connected":
                leg.connected = at
                leg.state = "CONNECTED"
                leg.monitored = "A" if leg.user and recorded(leg) else None
                if not self.history:
                    sessions.begin(self.world, leg)
            case "box":
                leg.box_from = at
                if leg.user is None:
                    leg.state = "CONNECTED"
            case "hold":
                leg.state = "ON_HOLD"
            case "unhold":
                leg.state = "CONNECTED"
            case "hangup" | "missed":
                leg.held = leg.state == "ON_HOLD"
                leg.ended = at
                leg.state = "HANGUP"
                leg.t_cause, leg.terminated_by = step.cause, step.by
                self.world.live.pop(leg.id, None)
                if not self.history:
                    sessions.end(self.world, leg)

    def file_cdr(self, plan: Plan, leg: Leg) -> Record | None:
        """The CDR of an ended leg; None where the user's settings keep unanswered group calls out."""
        missed = leg.connected is None and leg.box_from is None
        if missed and not leg.outbound and not leg.log_missed and (plan.answered or leg.root_id != leg.id):
            return None
        with self.world.lock:
            if self.history and (leg.ended or 0) >= self.world.start - sessions.KEPT_DAYS * 86400:
                sessions.end(self.world, leg)
            if plan.webcall is not None:
                webcalls.bill(plan.webcall, plan, leg)
            if leg.destination == "callmeback" and leg.root_id != leg.id:
                widgets.visit(self.world, leg.dst, leg.started)
            record = records.cdr_record(self.world.new_id("cdrs"), leg)
            return self.world.collections["cdrs"].add(record)

    def file_recording(self, leg: Leg, at: float) -> tuple[Record, Record | None]:
        """The recording of an ended leg, and the webhook body (monitor.audio_ready) that told it at `at`."""
        assert leg.user is not None
        with self.world.lock:
            said = None
            if leg.user.transcripts and self._rng.random() < 0.8:
                said = words.conversation(self._rng, leg.user.first_name, records.billsec(leg))
            record = records.monitor_record(self.world.new_id("monitors"), leg, said)
            self.world.collections["monitors"].add(record)
            if self.tell is None:
                return record, None
            event = recording_event(self.world.event_ids.make(at), at, record, leg)
            self.tell(event, at)
            return record, event

    def file_message(self, plan: Plan) -> Record | None:
        """The voice message of a call that ended at the mailbox."""
        message = plan.message
        if message is None or message.leg.ended is None:
            return None
        text = words.voice_message(self._rng) if self._rng.random() < 0.5 else None
        with self.world.lock:
            origtime = message.leg.ended - message.seconds
            record = records.voicemessage_record(self.world.new_id("voicemessages"), message, origtime, text)
            return self.world.collections["voicemessages"].add(record)

    def receive_sms(
        self,
        sender: str,
        receiver: str,
        text: str,
        user: Person | None,
        at: float,
        *,
        translated: bool = False,
    ) -> tuple[Record, Record | None]:
        """An SMS from outside, and the webhook body that told it."""
        with self.world.lock:
            record = records.sms_record(
                self.world.new_id("sms"),
                at,
                sender=sender,
                receiver=receiver,
                text=text,
                user=user,
                inbound=True,
                name=self.world.name_of(sender),
            )
            self.world.collections["sms"].add(record)
            if self.tell is None:
                return record, None
            event = sms_event(self.world.event_ids.make(at), at, record, translated=translated)
            self.tell(event, at)
            return record, event

    def send_sms(self, user: Person, sender: str, receiver: str, text: str, at: float) -> Record:
        with self.world.lock:
            record = records.sms_record(
                self.world.new_id("sms"),
                at,
                sender=sender,
                receiver=receiver,
                text=text,
                user=user,
                inbound=False,
                name=self.world.name_of(receiver),
                result="OK",
            )
            return self.world.collections["sms"].add(record)


def recorded(leg: Leg) -> bool:
    """Whether this leg is recorded, by the user's setting: A all, I inbound, O outbound, N none."""
    if leg.user is None or leg.machine:
        return False
    if leg.recorded is not None:
        return leg.recorded
    return leg.user.monitor == "A" or leg.user.monitor == ("O" if leg.outbound else "I")
