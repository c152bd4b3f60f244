"""Player of planned calls: updates live calls, sends webhooks, and stores records.

The same code plays live traffic, calls on demand and months of history, so that all three agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from integration.core import clock
from integration.simulator.calls import records
from integration.simulator.calls.events import call_event, recording_event, sms_event
from integration.simulator.calls.legs import LEG_STATES, CallPlan, Leg, Step, VoicemailMessage
from integration.simulator.calls.world import World
from integration.simulator.records import activity
from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import SEEDS, Record

SendEvent = Callable[[Record, float], None]


class Player:
    """Applies steps of calls to the world.

    `send_event`: receives every webhook body and its Unix time; None sends no webhooks.
    """

    def __init__(self, world: World, send_event: SendEvent | None = None) -> None:
        self.world = world
        self.send_event = send_event
        self._rng = random.Random(f"player {world.seed}")

    def apply_step(self, plan: CallPlan, step: Step, unix_time: float) -> Record | None:
        """Apply `step` at Unix time `unix_time`; return any sent webhook body."""
        leg = step.leg
        with self.world.lock:
            if leg.ended_at is None:
                self._update_leg(leg, step, unix_time)
            return self._send(unix_time, lambda id_: call_event(id_, plan, step, unix_time))

    def _update_leg(self, leg: Leg, step: Step, unix_time: float) -> None:
        leg.ended_on_hold = leg.state == "ON_HOLD"
        leg.state = LEG_STATES.get(step.event, leg.state)
        match step.event:
            case "initial":
                leg.started_at = unix_time
                self.world.live_legs[leg.id] = leg
            case "pickup":
                leg.agent_connected_at = unix_time
            case "connected":
                leg.connected_at = unix_time
                leg.monitor_state = "A" if leg.user and is_leg_recorded(leg) else None
            case "mailbox":
                leg.mailbox_connected_at = unix_time
                if leg.user is None:
                    leg.state = "CONNECTED"
            case "hangup" | "missed":
                leg.ended_at, leg.t_cause, leg.terminated_by = unix_time, step.cause, step.by
                self.world.live_legs.pop(leg.id, None)

    def store_cdr(self, plan: CallPlan, leg: Leg) -> Record | None:
        """Store the CDR of an ended leg and return it.

        Returns None if the user's settings exclude unanswered group calls.
        """
        is_missed = leg.talked_at is None and not leg.is_outbound
        if is_missed and not leg.logs_missed_calls and (plan.is_answered or leg.root_id != leg.id):
            return None
        with self.world.lock:
            if plan.webcall is not None:
                records.bill_leg(plan.webcall, plan, leg)
            return records.add_cdr(self.world, leg)

    def store_recording(self, leg: Leg, unix_time: float) -> tuple[Record, Record | None]:
        """Store the recording of an ended leg and send monitor.audio_ready at `unix_time`.

        Returns the record and the webhook body, if one was sent.
        """
        assert leg.user is not None
        with self.world.lock:
            conversation = {}
            if leg.user.has_transcripts and self._rng.random() < 0.8:
                seconds = records.compute_billed_seconds(leg)
                conversation = activity.make_conversation(self._rng, leg.user.first_name, seconds)
            record = records.add_recording(self.world, leg, conversation)
            return record, self._send(unix_time, lambda id_: recording_event(id_, unix_time, record, leg))

    def store_voicemail(self, message: VoicemailMessage) -> Record:
        """Store the voicemail message of an ended leg."""
        words = SEEDS["words"]["voice_messages"]
        text = self._rng.choice(words) if self._rng.random() < 0.5 else None
        with self.world.lock:
            return records.add_voicemail(self.world, message, text)

    def receive_sms(
        self, sender: str, receiver: str, text: str, user: Person | None, unix_time: float
    ) -> tuple[Record, Record | None]:
        """Store an SMS from outside.

        Returns the record and the webhook body, if one was sent.
        """
        with self.world.lock:
            record = self._add_sms(sender, receiver, text, user, unix_time, is_inbound=True)
            return record, self._send(unix_time, lambda id_: sms_event(id_, unix_time, record))

    def send_sms(self, user: Person, sender: str, receiver: str, text: str, unix_time: float) -> Record:
        with self.world.lock:
            return self._add_sms(sender, receiver, text, user, unix_time, is_inbound=False)

    def _add_sms(
        self,
        sender: str,
        receiver: str,
        text: str,
        user: Person | None,
        unix_time: float,
        *,
        is_inbound: bool,
    ) -> Record:
        own_end, other_end = ("to", "from") if is_inbound else ("from", "to")
        return self.world.create(
            "sms",
            **{"from": sender, "to": receiver},
            **{
                f"{own_end}_id": str(user.id) if user else None,
                f"{own_end}_name": user.name if user else None,
                f"{other_end}_name": self.world.scripts.names.get(sender if is_inbound else receiver),
            },
            created_at=clock.utc_text(unix_time),
            message=text,
            type="I" if is_inbound else "O",
            result=None if is_inbound else "OK",
            user_id=user.id if user else None,
        )

    def _send(self, unix_time: float, make_event: Callable[[str], Record | None]) -> Record | None:
        """Send the webhook that `make_event` returns for an event id; return its body, if it was sent."""
        if self.send_event is None:
            return None
        event = make_event(self.world.event_ids.make(unix_time))
        if event is not None:
            self.send_event(event, unix_time)
        return event


def is_leg_recorded(leg: Leg) -> bool:
    """Check whether a leg is recorded.

    `leg.is_recorded` overrides the setting of the user: A all, I inbound, O outbound, N none. Legs of
    machines or without a user are never recorded.
    """
    if leg.user is None or leg.is_machine:
        return False
    if leg.is_recorded is not None:
        return leg.is_recorded
    return leg.user.monitor == "A" or leg.user.monitor == ("O" if leg.is_outbound else "I")
