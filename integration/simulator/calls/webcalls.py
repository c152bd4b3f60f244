"""Calls that begin on the web: web calls, lead calls, and call-me-back from the widget.

The platform places them on somebody's behalf, so that both ends are dialled. Kept apart from the other
scripts with a generator of their own: the history of other calls stays the same with and without them.
"""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import CallOptions, CallPlan, Leg
from integration.simulator.calls.participants import Participants
from integration.simulator.calls.records import compute_billed_seconds
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.widgets import choose_visitor_phone

Record = dict[str, Any]

_NO_ANSWER = "No Answer"
_NORMAL = "Normal Clearing"


class WebScripts:
    """Plans calls of the web, by name; `wish.caller` is the outside party, `wish.to` the other end."""

    def __init__(self, participants: Participants) -> None:
        self.participants = participants
        self.by_name = {
            "web_call": self.web_call,
            "lead_call": self.lead_call,
            "call_me_back": self.call_me_back,
        }

    def web_call(self, options: CallOptions) -> CallPlan:
        """`caller` is rung first; when they answer, `to` (default: the user's extension)."""
        user = options.user or self.participants.choose_online_user()
        first_leg = self._mark_leg(
            leg=self.participants.make_outbound_leg(user, options.caller or self._choose_outside_number()),
            destination="webcall",
        )
        plan = CallPlan("web_call", [first_leg], outside_party=first_leg.dst)
        second_leg = self._mark_leg(
            self.participants.make_outbound_leg(user, options.destination or user.ext, root=first_leg),
            destination="webcall",
        )
        second_leg.src = first_leg.dst
        self._add_sequential_steps(plan, first_leg, second_leg, options)
        return plan.sort_steps()

    def call_me_back(self, options: CallOptions) -> CallPlan:
        """A visitor leaves a number: one of ours is rung, then the visitor."""
        user = options.user or self.participants.choose_online_user()
        phone = options.caller or choose_visitor_phone(self.participants.rng)
        first_leg = self._mark_leg(
            self.participants.make_outbound_leg(user, user.ext), destination="callmeback"
        )
        first_leg.context, first_leg.is_machine = "CLICK_TO_CALL", True
        plan = CallPlan("call_me_back", [first_leg], outside_party=phone)
        second_leg = self._mark_leg(
            self.participants.make_outbound_leg(user, phone, root=first_leg), destination="callmeback"
        )
        self._add_sequential_steps(plan, first_leg, second_leg, options)
        return plan.sort_steps()

    def lead_call(self, options: CallOptions) -> CallPlan:
        """One end only: `caller` is rung from the number `line`, and hears what is to be said."""
        user = options.user or self.participants.choose_online_user()
        leg = self.participants.make_outbound_leg(user, options.caller or self._choose_outside_number())
        ddi = options.ddi or self.participants.account.ddis[0]
        leg.clid = f'"{ddi.e164}" <{ddi.e164}>'
        plan = CallPlan(
            "lead_call", [leg], outside_party=leg.dst, is_answered=options.is_answered is not False
        )
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.6, leg, "ringing")
        if plan.is_answered:
            plan.add_step(ring, leg, "connected")
            plan.add_step(
                ring + (options.talk_seconds or self.participants.choose_talk_seconds()),
                leg,
                "hangup",
                cause=_NORMAL,
                by="callee",
            )
        else:
            plan.add_step(ring, leg, "hangup", cause=_NO_ANSWER, by="system")
        return plan.sort_steps()

    def _choose_outside_number(self) -> str:
        return numbers.choose_outside_number(self.participants.rng)

    def _mark_leg(self, leg: Leg, destination: str) -> Leg:
        leg.destination, leg.is_recorded = destination, False
        return leg

    def _add_sequential_steps(
        self, plan: CallPlan, first_leg: Leg, second_leg: Leg, options: CallOptions
    ) -> None:
        is_answered = (
            options.is_answered if options.is_answered is not None else self.participants.rng.random() < 0.8
        )
        plan.is_answered = is_answered
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        plan.add_step(0.0, first_leg, "initial")
        plan.add_step(0.6, first_leg, "ringing")
        plan.add_step(ring, first_leg, "connected")
        plan.legs.append(second_leg)
        plan.add_step(ring + 0.2, second_leg, "initial")
        plan.add_step(ring + 0.8, second_leg, "ringing")
        answered_offset = ring + 0.8 + self.participants.choose_ring_seconds()
        if is_answered:
            end_offset = answered_offset + (options.talk_seconds or self.participants.choose_talk_seconds())
            plan.add_step(answered_offset, second_leg, "connected")
            plan.add_step(end_offset, second_leg, "hangup", cause=_NORMAL, by="callee")
        else:
            end_offset = answered_offset + 15
            plan.add_step(end_offset, second_leg, "hangup", cause=_NO_ANSWER, by="caller")
        plan.add_step(end_offset + 0.2, first_leg, "hangup", cause=_NORMAL, by="system")


def add_webcall(state: AccountState, plan: CallPlan, started_at: float) -> Record:
    """The record of a web call that begins at `started_at`; `bill_leg` fills in what its legs took."""
    first_number, second_number = plan.legs[0].dst, plan.legs[1].dst
    plan.webcall = {
        "id": state.new_id("webcalls"),
        "calldate": clock.utc_text(started_at),
        "from": first_number,
        "from_duration": 0,
        "from_rate": _get_rate(first_number),
        "from_charge": 0.0,
        "to": second_number,
        "to_duration": 0,
        "to_rate": _get_rate(second_number),
        "to_charge": 0.0,
        "charge": 0.0,
    }
    return state.collections["webcalls"].add(plan.webcall)


def bill_leg(record: Record, plan: CallPlan, leg: Leg) -> None:
    """Note an ended leg of a web call in its record."""
    side = "from" if leg is plan.legs[0] else "to"
    seconds = compute_billed_seconds(leg)
    record[f"{side}_duration"] = seconds
    record[f"{side}_charge"] = round(record[f"{side}_rate"] * seconds / 60, 3)
    record["charge"] = round(record["from_charge"] + record["to_charge"], 3)


def _get_rate(number: str) -> float:
    """Extensions cost nothing."""
    return numbers.get_rate(number) if len(number) > 6 else 0.0
