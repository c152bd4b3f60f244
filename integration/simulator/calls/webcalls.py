"""Calls placed by the platform: web calls, lead calls and call-me-back.

The platform dials both ends of web calls and call-me-back, and the only end of lead calls. These scripts have
a separate random generator, so that the history of other calls does not depend on them.
"""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import NO_ANSWER, CallOptions, CallPlan, Leg
from integration.simulator.calls.participants import Participants
from integration.simulator.calls.records import compute_billed_seconds
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.visitors import choose_visitor_phone

Record = dict[str, Any]


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
        first_leg = self.participants.make_outbound_leg(user, options.caller or self._choose_outside_number())
        second_leg = self.participants.make_outbound_leg(
            user, options.destination or user.ext, root=first_leg
        )
        second_leg.src = first_leg.dst
        plan = CallPlan("web_call", [first_leg, second_leg], outside_party=first_leg.dst)
        return self._plan_sequence(plan, "webcall", options)

    def call_me_back(self, options: CallOptions) -> CallPlan:
        """Plan a call to a user and then to a website visitor."""
        user = options.user or self.participants.choose_online_user()
        phone = options.caller or choose_visitor_phone(self.participants.rng)
        first_leg = self.participants.make_outbound_leg(user, user.ext)
        first_leg.context, first_leg.is_machine = "CLICK_TO_CALL", True
        second_leg = self.participants.make_outbound_leg(user, phone, root=first_leg)
        plan = CallPlan("call_me_back", [first_leg, second_leg], outside_party=phone)
        return self._plan_sequence(plan, "callmeback", options)

    def lead_call(self, options: CallOptions) -> CallPlan:
        """Plan a call that plays a message to `caller`.

        The only leg has the caller ID of `ddi`.
        """
        user = options.user or self.participants.choose_online_user()
        leg = self.participants.make_outbound_leg(user, options.caller or self._choose_outside_number())
        ddi = options.ddi or self.participants.account.ddis[0]
        leg.clid = f'"{ddi.e164}" <{ddi.e164}>'
        is_answered = options.is_answered is not False
        plan = CallPlan("lead_call", [leg], outside_party=leg.dst, is_answered=is_answered)
        ring = self.participants.choose_ring_seconds(options)
        plan.ring(leg, delay=0.6)
        if is_answered:
            plan.add_step(ring, leg, "connected")
            plan.hang_up(ring + self.participants.choose_talk_seconds(options), leg, "callee")
        else:
            plan.hang_up(ring, leg, "system", NO_ANSWER)
        return plan.sort_steps()

    def _choose_outside_number(self) -> str:
        return numbers.choose_outside_number(self.participants.rng)

    def _plan_sequence(self, plan: CallPlan, destination: str, options: CallOptions) -> CallPlan:
        """Plan the steps of two legs: the second is dialled after the answer of the first."""
        for leg in plan.legs:
            leg.destination, leg.is_recorded = destination, False
        first_leg, second_leg = plan.legs
        plan.is_answered = self.participants.choose_answer(options)
        ring = self.participants.choose_ring_seconds(options)
        answered_offset = ring + 0.8 + self.participants.choose_ring_seconds()
        plan.ring(first_leg, delay=0.6)
        plan.add_step(ring, first_leg, "connected")
        plan.ring(second_leg, ring + 0.2, 0.6)
        if plan.is_answered:
            end_offset = answered_offset + self.participants.choose_talk_seconds(options)
            plan.add_step(answered_offset, second_leg, "connected")
            plan.hang_up(end_offset, second_leg, "callee")
        else:
            end_offset = answered_offset + 15
            plan.hang_up(end_offset, second_leg, "caller", NO_ANSWER)
        plan.hang_up(end_offset + 0.2, first_leg, "system")
        return plan.sort_steps()


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
