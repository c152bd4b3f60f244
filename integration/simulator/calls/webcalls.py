"""Calls placed by the platform: web calls, lead calls and call-me-back.

The platform dials both ends of web calls and call-me-back, and the only end of lead calls. These scripts have
a separate random generator, so that the history of other calls does not depend on them.
"""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import CallOptions, CallPlan, Leg
from integration.simulator.calls.participants import Participants
from integration.simulator.calls.records import compute_billed_seconds
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.visitors import choose_visitor_phone

Record = dict[str, Any]

_NO_ANSWER = "No Answer"
_NORMAL = "Normal Clearing"


class WebScripts:
    """Scripts of web calls by name.

    `options.caller` is the outside party, `options.destination` the other end of a web call.
    """

    def __init__(self, participants: Participants) -> None:
        self.participants = participants
        self.by_name = {
            "web_call": self.web_call,
            "lead_call": self.lead_call,
            "call_me_back": self.call_me_back,
        }

    def web_call(self, options: CallOptions) -> CallPlan:
        """Plan a call to `caller` and then to `destination`.

        The default of `destination` is the user's extension.
        """
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
        """Plan a call to a user and then to a website visitor."""
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
        """Plan a call that plays a message to `caller`.

        The only leg has the caller ID of `ddi`.
        """
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
    """Add the record of a web call, started at Unix time `started_at`.

    `bill_leg` sets durations and charges when the legs end.
    """
    first_number, second_number = plan.legs[0].dst, plan.legs[1].dst
    plan.webcall = state.create(
        "webcalls",
        **{"from": first_number, "to": second_number},
        calldate=clock.utc_text(started_at),
        from_rate=_get_rate(first_number),
        to_rate=_get_rate(second_number),
        **dict.fromkeys(("from_duration", "to_duration"), 0),
        **dict.fromkeys(("from_charge", "to_charge", "charge"), 0.0),
    )
    return plan.webcall


def bill_leg(record: Record, plan: CallPlan, leg: Leg) -> None:
    """Store duration and charge of an ended leg in its web call."""
    side = "from" if leg is plan.legs[0] else "to"
    seconds = compute_billed_seconds(leg)
    record[f"{side}_duration"] = seconds
    record[f"{side}_charge"] = round(record[f"{side}_rate"] * seconds / 60, 3)
    record["charge"] = round(record["from_charge"] + record["to_charge"], 3)


def _get_rate(number: str) -> float:
    """Return the rate per minute of a number; 0 for an extension."""
    return numbers.get_rate(number) if len(number) > 6 else 0.0
