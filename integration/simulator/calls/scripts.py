"""Call scripts: plans of legs and their steps.

A script only plans; `player.py` applies the steps, live or as history. Offsets are seconds from the start of
the call at normal speed. The legs behave as in docs/platform.md#8-call-flow and docs/calls.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from integration.simulator.calls.legs import (
    ANSWERED_ELSEWHERE,
    BUSY,
    NO_ANSWER,
    NORMAL_CLEARING,
    NOT_REGISTERED,
    CallOptions,
    CallPlan,
    Leg,
    VoicemailMessage,
)
from integration.simulator.calls.participants import Participants
from integration.simulator.records import numbers
from integration.simulator.records.activity import choose_visitor_phone
from integration.simulator.records.people import Group, Person

SCRIPT_WEIGHTS = {
    "plain_answered": 24,
    "plain_missed": 4,
    "ring_group_answered": 9,
    "ring_group_missed": 2,
    "hunt_answered": 4,
    "queue_answered": 5,
    "queue_abandoned": 1.5,
    "transfer": 3,
    "voicemail": 1.3,
    "click_to_call": 5,
    "outbound": 28,
    "outbound_missed": 5,
    "internal": 8,
}
"""Frequency of scripts in generated traffic."""
_WEB_SCRIPTS = ("web_call", "lead_call", "call_me_back")
"""Calls placed by the platform: it dials both ends, or the only end of lead calls."""


class CallScripts(Participants):
    """Scripts of an account's calls by name.

    In _WEB_SCRIPTS `options.caller` is the outside party, `options.destination` the other end of a web call.
    """

    @cached_property
    def by_name(self) -> dict[str, Callable[[CallOptions], CallPlan]]:
        return {name: getattr(self, name) for name in (*SCRIPT_WEIGHTS, *_WEB_SCRIPTS)}

    # -- scripts ---------------------------------------------------------------------------------

    def plain_answered(self, options: CallOptions) -> CallPlan:
        plan, leg, _ = self._plan_direct(options, "plain_answered")
        self._answer(plan, leg, self.choose_ring_seconds(options), options)
        return plan.sort_steps()

    def plain_missed(self, options: CallOptions) -> CallPlan:
        plan, leg, user = self._plan_direct(options, "plain_missed")
        ring = options.ring_seconds or 3.0 + self.rng.random() * user.ring_time
        plan.miss(ring, leg, "caller", is_final=True)
        return plan.sort_steps()

    def voicemail(self, options: CallOptions) -> CallPlan:
        """Plan an unanswered call whose caller leaves a voicemail message.

        The mailbox answers on the same leg. With variant "leg" or a group, it answers on a separate leg, as
        for ring groups whose final destination is a mailbox.
        """
        if options.variant == "leg" or options.group is not None:
            groups = [group for group in self.account.groups if group.record["final_dst_type"] == "V"]
            group = options.group or next(iter(groups), None)
            return self.ring_group_missed(replace(options, voicemail=True, group=group))
        plan, leg, user = self._plan_direct(options, "voicemail")
        ring = options.ring_seconds or float(user.ring_time)
        plan.message = VoicemailMessage(leg, user, self._choose_message_seconds(options))
        plan.add_step(ring, leg, "mailbox")
        plan.miss(ring + 6 + plan.message.seconds, leg, "caller", NORMAL_CLEARING, is_final=True)
        return plan.sort_steps()

    def ring_group_answered(self, options: CallOptions) -> CallPlan:
        plan, _, _ = self._plan_ring_all(options, "ring_group_answered")
        legs = list(plan.legs)
        winner = next((leg for leg in legs if leg.user is options.user), legs[1 % len(legs)])
        ring = self.choose_ring_seconds(options)
        unregistered_leg = legs[-1] if legs[-1] is not winner else legs[0]
        if len(legs) > 1:
            plan.miss(0.1, unregistered_leg, "caller", NOT_REGISTERED)
        for leg in legs:
            if leg not in (winner, unregistered_leg):
                plan.miss(ring + 0.1, leg, "caller", ANSWERED_ELSEWHERE)
        self._answer(plan, winner, ring, options)
        return plan.sort_steps()

    def ring_group_missed(self, options: CallOptions) -> CallPlan:
        plan, group, ddi = self._plan_ring_all(options, "ring_group_missed")
        has_mailbox, legs = bool(options.voicemail), list(plan.legs)
        ring = options.ring_seconds or (
            float(group.ring_time) if has_mailbox else 4.0 + self.rng.random() * group.ring_time
        )
        for n, leg in enumerate(legs):
            is_final = leg is legs[-1] and not has_mailbox
            plan.miss(ring + n * 0.05, leg, "system" if has_mailbox else "caller", is_final=is_final)
        if has_mailbox:
            owner = group.members[0]
            first = legs[0]
            leg = self.make_inbound_leg(first.src, ddi, None, context="VOICEMAIL", root=first, parent=first)
            leg.dst_id, leg.dst_name = str(owner.id), f"Voicemail {owner.ext}"
            plan.script = "voicemail"
            plan.legs.append(leg)
            plan.message = VoicemailMessage(leg, owner, self._choose_message_seconds(options))
            plan.add_step(ring + 0.5, leg, "initial")
            plan.add_step(ring + 0.7, leg, "mailbox")
            plan.hang_up(ring + 6 + plan.message.seconds, leg, "caller")
        return plan.sort_steps()

    def hunt_answered(self, options: CallOptions) -> CallPlan:
        """Plan a call to a hunt group.

        The phones ring in sequence for the group's ring time each. The last phone, or that of `options.user`,
        answers.
        """
        group, caller, ddi = self.choose_group_call(options, "ringgroup", "H")
        answering_member = options.user if options.user in group.members else group.members[-1]
        plan = CallPlan("hunt_answered", [], outside_party=caller)
        offset = 0.0
        for leg in self._iterate_group_legs(plan, group, caller, ddi):
            plan.ring(leg, offset, 0.2)
            if leg.user is answering_member:
                self._answer(plan, leg, offset + self.choose_ring_seconds(options), options)
                break
            offset += group.ring_time
            plan.miss(offset, leg, "system")
            offset += 0.5
        return plan.sort_steps()

    def queue_answered(self, options: CallOptions) -> CallPlan:
        plan, legs, retry_at = self._plan_queue(options, "queue_answered")
        winner = next((leg for leg in legs if leg.user is options.user), None) or self.rng.choice(legs)
        offset = retry_at + self.choose_ring_seconds(options)
        plan.hang_up(offset + 0.1, plan.legs[0], "system")
        for leg in legs:
            if leg is not winner:
                plan.miss(offset + 0.2, leg, "caller", ANSWERED_ELSEWHERE)
        self._answer(plan, winner, offset, options)
        return plan.sort_steps()

    def queue_abandoned(self, options: CallOptions) -> CallPlan:
        """Plan a queue call without an answer.

        The caller listens to music and hangs up while the phones of agents ring.
        """
        plan, legs, retry_at = self._plan_queue(options, "queue_abandoned")
        offset = retry_at + (options.ring_seconds or 5.0 + self.rng.random() * 8)
        for n, leg in enumerate(legs):
            plan.miss(offset + n * 0.05, leg, "caller")
        plan.hang_up(offset + 0.5, plan.legs[0], "caller")
        return plan.sort_steps()

    def transfer(self, options: CallOptions) -> CallPlan:
        """Plan a call that a user answers, holds and transfers to another."""
        plan, first, user = self._plan_direct(options, "transfer")
        plan.is_answered = True
        second_user = options.second_user or self.choose_online_user(user)
        ring = self.choose_ring_seconds(options)
        talk_seconds = self.choose_talk_seconds(options)
        second = self.make_transferred_leg(first, second_user)
        plan.legs.append(second)
        plan.add_step(ring, first, "connected")
        hold_at = ring + talk_seconds * 0.3
        plan.add_step(hold_at, first, "hold")
        transfer_at = hold_at + (options.hold_seconds or 5.0)
        plan.ring(second, transfer_at - 4.0)
        plan.add_step(transfer_at, second, "connected")
        plan.hang_up(transfer_at + 0.2, first, "callee")
        plan.hang_up(transfer_at + 0.2 + talk_seconds * 0.7, second, "caller")
        return plan.sort_steps()

    def outbound(self, options: CallOptions) -> CallPlan:
        plan, leg = self._plan_outbound(options, "outbound")
        plan.ring(leg, delay=0.8)
        self._answer(plan, leg, self.choose_ring_seconds(options), options)
        return plan.sort_steps()

    def outbound_missed(self, options: CallOptions) -> CallPlan:
        plan, leg = self._plan_outbound(options, "outbound_missed")
        if self.rng.random() < 0.3:
            plan.add_step(0.0, leg, "initial")
            plan.hang_up(2.0, leg, "callee", BUSY)
        else:
            plan.ring(leg, delay=0.8)
            plan.hang_up(options.ring_seconds or 15 + self.rng.random() * 15, leg, "caller", NO_ANSWER)
        return plan.sort_steps()

    def click_to_call(self, options: CallOptions) -> CallPlan:
        """Plan a click-to-call, which rings the user before the destination.

        Variant "one": one leg with INITIAL → ACCEPTED → RINGING → CONNECTED for the user, then
        RINGING → CONNECTED for the destination. Variant "two": one leg for each (docs/calls.md#outcome).
        """
        plan, leg = self._plan_outbound(options, "click_to_call")
        user, has_two_legs = leg.user, options.variant == "two"
        assert user is not None
        plan.is_answered = options.is_answered is not False
        pickup_offset = 2.0 + self.rng.random() * 2
        ring = pickup_offset + 0.5 + self.choose_ring_seconds(options)
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.2, leg, "accepted")
        plan.add_step(0.4, leg, "ringing")
        plan.add_step(pickup_offset, leg, "connected" if has_two_legs else "pickup")
        destination_leg = leg
        if has_two_legs:
            destination_leg = self.make_outbound_leg(user, leg.dst, root=leg)
            plan.legs.append(destination_leg)
            leg.context, leg.is_machine = "CLICK_TO_CALL", True
            leg.dst, leg.dst_id, leg.dst_name = user.ext, str(user.id), user.name
            plan.add_step(pickup_offset + 0.2, destination_leg, "initial")
        plan.add_step(pickup_offset + 0.5, destination_leg, "ringing")
        self._answer_or_end(plan, destination_leg, ring, options)
        if has_two_legs:
            plan.hang_up(plan.duration + 0.1, leg, "caller")
        return plan.sort_steps()

    def internal(self, options: CallOptions) -> CallPlan:
        user = options.user or self.choose_online_user()
        second_user = options.second_user or self.choose_online_user(user)
        leg = self.make_outbound_leg(user, second_user.ext)
        plan = CallPlan("internal", [leg], is_answered=self.choose_answer(options))
        plan.ring(leg)
        self._answer_or_end(plan, leg, self.choose_ring_seconds(options), options)
        return plan.sort_steps()

    # -- calls placed by the platform ------------------------------------------------------------

    def web_call(self, options: CallOptions) -> CallPlan:
        """Plan a call to `caller` and then to `destination`.

        The default of `destination` is the user's extension.
        """
        user = options.user or self.choose_online_user()
        number = options.caller or numbers.choose_outside_number(self.rng)
        first_leg = self.make_outbound_leg(user, number)
        second_leg = self.make_outbound_leg(user, options.destination or user.ext, root=first_leg)
        second_leg.src = first_leg.dst
        plan = CallPlan("web_call", [first_leg, second_leg], outside_party=first_leg.dst)
        return self._plan_sequence(plan, "webcall", options)

    def call_me_back(self, options: CallOptions) -> CallPlan:
        """Plan a call to a user and then to a website visitor."""
        user = options.user or self.choose_online_user()
        phone = options.caller or choose_visitor_phone(self.rng)
        first_leg = self.make_outbound_leg(user, user.ext)
        first_leg.context, first_leg.is_machine = "CLICK_TO_CALL", True
        second_leg = self.make_outbound_leg(user, phone, root=first_leg)
        plan = CallPlan("call_me_back", [first_leg, second_leg], outside_party=phone)
        return self._plan_sequence(plan, "callmeback", options)

    def lead_call(self, options: CallOptions) -> CallPlan:
        """Plan a call that plays a message to `caller`.

        The only leg has the caller ID of `ddi`.
        """
        plan, leg = self._plan_outbound(options, "lead_call")
        leg.clid = '"{0}" <{0}>'.format((options.ddi or self.account.ddis[0])["e164"])
        leg.is_recorded = False
        plan.is_answered = options.is_answered is not False
        plan.ring(leg, delay=0.6)
        self._answer_or_end(plan, leg, self.choose_ring_seconds(options), options)
        return plan.sort_steps()

    # -- shared steps ----------------------------------------------------------------------------

    def _plan_direct(self, options: CallOptions, script: str) -> tuple[CallPlan, Leg, Person]:
        """Plan a call to the number of one user, whose phone rings."""
        user, caller, ddi = self.choose_direct_call(options)
        leg = self.make_inbound_leg(caller, ddi, user)
        plan = CallPlan(script, [leg], outside_party=caller)
        plan.ring(leg)
        return plan, leg, user

    def _plan_outbound(self, options: CallOptions, script: str) -> tuple[CallPlan, Leg]:
        user = options.user or self.choose_online_user()
        number = options.caller or self.choose_reachable_number()
        leg = self.make_outbound_leg(user, number)
        return CallPlan(script, [leg], outside_party=number), leg

    def _plan_sequence(self, plan: CallPlan, destination: str, options: CallOptions) -> CallPlan:
        """Plan the steps of two legs: the second is dialled after the answer of the first."""
        for leg in plan.legs:
            leg.destination, leg.is_recorded = destination, False
        first_leg, second_leg = plan.legs
        plan.is_answered = self.choose_answer(options)
        ring = self.choose_ring_seconds(options)
        answered_offset = ring + 0.8 + self.choose_ring_seconds()
        plan.ring(first_leg, delay=0.6)
        plan.add_step(ring, first_leg, "connected")
        plan.ring(second_leg, ring + 0.2, 0.6)
        if plan.is_answered:
            end_offset = answered_offset + self.choose_talk_seconds(options)
            plan.add_step(answered_offset, second_leg, "connected")
            plan.hang_up(end_offset, second_leg, "callee")
        else:
            end_offset = answered_offset + 15
            plan.hang_up(end_offset, second_leg, "caller", NO_ANSWER)
        plan.hang_up(end_offset + 0.2, first_leg, "system")
        return plan.sort_steps()

    def _plan_ring_all(self, options: CallOptions, script: str) -> tuple[CallPlan, Group, dict[str, Any]]:
        group, caller, ddi = self.choose_group_call(options, "ringgroup", "A")
        plan = CallPlan(script, [], outside_party=caller)
        for n, leg in enumerate(self._iterate_group_legs(plan, group, caller, ddi)):
            # An unregistered phone ends at 0.1 s. Its ringing event at 0.3 s follows the end, as on the
            # platform.
            plan.ring(leg, n * 0.02)
        return plan, group, ddi

    def _iterate_group_legs(
        self, plan: CallPlan, group: Group, caller: str, ddi: dict[str, Any]
    ) -> Iterator[Leg]:
        """Add a leg of each member to `plan` and yield it. The first is the root of the others."""
        for member in group.members:
            root = plan.legs[0] if plan.legs else None
            leg = self.make_inbound_leg(caller, ddi, member, context=group.context, group=group, root=root)
            plan.legs.append(leg)
            yield leg

    def _plan_queue(self, options: CallOptions, script: str) -> tuple[CallPlan, list[Leg], float]:
        """Plan the music and the ringing phones of a queue.

        Returns the legs that ring last, and when they do.
        """
        group, caller, ddi = self.choose_group_call(options, "queue")
        music_leg = self.make_inbound_leg(caller, ddi, None, context=group.context)
        music_leg.dst_id, music_leg.dst_name = str(group.id), group.name
        plan = CallPlan(script, [music_leg], outside_party=caller)
        plan.add_step(0.0, music_leg, "initial")
        plan.add_step(0.2, music_leg, "connected")
        offset = 1.0
        legs: list[Leg] = []
        ring_waves = [group.members] if group.strategy == "A" else [[member] for member in group.members[:2]]
        for members in ring_waves:
            if legs:
                offset += group.ring_time
                for leg in legs:
                    plan.miss(offset, leg, "system")
                offset += 1.0
            legs = [
                self.make_inbound_leg(
                    caller, ddi, member, context=group.context, group=group, root=music_leg, parent=music_leg
                )
                for member in members
            ]
            for leg in legs:
                plan.ring(leg, offset, 0.2)
            plan.legs += legs
        return plan, legs, offset

    def _choose_message_seconds(self, options: CallOptions) -> int:
        return int(options.talk_seconds or 5 + self.rng.random() * 40)

    def _answer_or_end(self, plan: CallPlan, leg: Leg, offset: float, options: CallOptions) -> None:
        if plan.is_answered:
            self._answer(plan, leg, offset, options)
        else:
            plan.hang_up(offset, leg, "caller", NO_ANSWER)

    def _answer(self, plan: CallPlan, leg: Leg, offset: float, options: CallOptions) -> None:
        """Connect `leg` at `offset`; a conversation follows, sometimes with a hold or a tone."""
        plan.is_answered = True
        talk_seconds, has_hold = self.choose_talk_seconds(options), options.has_hold
        if has_hold is None:
            has_hold = self.rng.random() < 0.12 and talk_seconds > 20
        plan.add_step(offset, leg, "connected")
        if has_hold:
            plan.add_step(offset + talk_seconds * 0.4, leg, "hold")
            plan.add_step(offset + talk_seconds * 0.6, leg, "unhold")
        if options.has_hold is None and talk_seconds > 15 and self.rng.random() < 0.04:
            plan.add_step(offset + talk_seconds * 0.2, leg, "dtmf", dtmf=self.rng.choice("0123456789*#"))
        plan.hang_up(offset + talk_seconds, leg, "caller" if self.rng.random() < 0.6 else "callee")
