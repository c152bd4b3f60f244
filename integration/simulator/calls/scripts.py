"""Call scripts: plans of legs and their steps.

A script only plans; `player.py` applies the steps, live or as history. Offsets are seconds from the start of
the call at normal speed. The legs behave as in docs/platform.md#8-call-flow and docs/calls.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from integration.simulator.calls.legs import CallOptions, CallPlan, Leg, VoicemailMessage
from integration.simulator.calls.participants import Participants
from integration.simulator.records.people import Ddi, Group

NOT_REGISTERED = "No user responding"
ANSWERED_ELSEWHERE = "Call completed elsewhere"
NO_ANSWER = "No Answer"
NORMAL_CLEARING = "Normal Clearing"
BUSY = "User busy"


class CallScripts:
    """Scripts of an account's calls by name."""

    def __init__(self, participants: Participants) -> None:
        self.participants = participants
        self.account = participants.account
        self.rng = participants.rng
        self.by_name: dict[str, Callable[[CallOptions], CallPlan]] = {
            "plain_answered": self.plain_answered,
            "plain_missed": self.plain_missed,
            "ring_group_answered": self.ring_group_answered,
            "ring_group_missed": self.ring_group_missed,
            "hunt_answered": self.hunt_answered,
            "queue_answered": self.queue_answered,
            "queue_abandoned": self.queue_abandoned,
            "transfer": self.transfer,
            "voicemail": self.voicemail,
            "click_to_call": self.click_to_call,
            "outbound": self.outbound,
            "outbound_missed": self.outbound_missed,
            "internal": self.internal,
        }

    # -- scripts ---------------------------------------------------------------------------------

    def plain_answered(self, options: CallOptions) -> CallPlan:
        user, caller, ddi = self.participants.choose_direct_call(options)
        leg = self.participants.make_inbound_leg(caller, ddi, user)
        plan = CallPlan("plain_answered", [leg], outside_party=caller, is_answered=True)
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.3, leg, "ringing")
        plan.add_step(ring, leg, "connected")
        self._add_conversation(plan, leg, ring, options)
        return plan.sort_steps()

    def plain_missed(self, options: CallOptions) -> CallPlan:
        user, caller, ddi = self.participants.choose_direct_call(options)
        leg = self.participants.make_inbound_leg(caller, ddi, user)
        plan = CallPlan("plain_missed", [leg], outside_party=caller)
        ring = options.ring_seconds or 3.0 + self.rng.random() * user.ring_time
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.3, leg, "ringing")
        plan.add_step(ring, leg, "missed", cause=NO_ANSWER, by="caller", final=True)
        return plan.sort_steps()

    def voicemail(self, options: CallOptions) -> CallPlan:
        """Plan an unanswered call whose caller leaves a voicemail message.

        The mailbox answers on the same leg. With variant "leg" or a group, it answers on a separate leg, as
        for ring groups whose final destination is a mailbox.
        """
        if options.variant == "leg" or options.group is not None:
            groups_with_mailbox = [group for group in self.account.groups if group.final_dst_type == "V"]
            group = options.group or (groups_with_mailbox[0] if groups_with_mailbox else None)
            return self.ring_group_missed(replace(options, voicemail=True, group=group))
        user, caller, ddi = self.participants.choose_direct_call(options)
        leg = self.participants.make_inbound_leg(caller, ddi, user)
        plan = CallPlan("voicemail", [leg], outside_party=caller)
        ring = options.ring_seconds or float(user.ring_time)
        seconds = int(options.talk_seconds or 5 + self.rng.random() * 40)
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.3, leg, "ringing")
        plan.add_step(ring, leg, "mailbox")
        plan.add_step(ring + 6 + seconds, leg, "missed", cause=NORMAL_CLEARING, by="caller", final=True)
        plan.message = VoicemailMessage(leg, user, seconds)
        return plan.sort_steps()

    def ring_group_answered(self, options: CallOptions) -> CallPlan:
        group, caller, ddi = self.participants.choose_group_call(options, "ringgroup", "A")
        plan, legs = self._plan_ring_all(group, caller, ddi, "ring_group_answered")
        plan.is_answered = True
        winner = next((leg for leg in legs if leg.user is options.user), legs[1 % len(legs)])
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        unregistered_leg = legs[-1] if legs[-1] is not winner else legs[0]
        if len(legs) > 1:
            plan.add_step(0.1, unregistered_leg, "missed", cause=NOT_REGISTERED, by="caller", final=False)
        plan.add_step(ring, winner, "connected")
        for leg in legs:
            if leg not in (winner, unregistered_leg):
                plan.add_step(ring + 0.1, leg, "missed", cause=ANSWERED_ELSEWHERE, by="caller", final=False)
        self._add_conversation(plan, winner, ring, options)
        return plan.sort_steps()

    def ring_group_missed(self, options: CallOptions) -> CallPlan:
        group, caller, ddi = self.participants.choose_group_call(options, "ringgroup", "A")
        plan, legs = self._plan_ring_all(group, caller, ddi, "ring_group_missed")
        has_mailbox = options.voicemail
        ring = options.ring_seconds or (
            float(group.ring_time) if has_mailbox else 4.0 + self.rng.random() * group.ring_time
        )
        for n, leg in enumerate(legs):
            is_final = n == len(legs) - 1 and not has_mailbox
            ended_by = "caller" if not has_mailbox else "system"
            plan.add_step(ring + n * 0.05, leg, "missed", cause=NO_ANSWER, by=ended_by, final=is_final)
        if has_mailbox:
            plan.script = "voicemail"
            mailbox_owner = group.members[0]
            leg = self.participants.make_inbound_leg(
                caller,
                ddi,
                None,
                context="VOICEMAIL",
                root=legs[0],
                parent=legs[0],
                dst_id=str(mailbox_owner.id),
                dst_name=f"Voicemail {mailbox_owner.ext}",
            )
            seconds = int(options.talk_seconds or 5 + self.rng.random() * 40)
            plan.legs.append(leg)
            plan.add_step(ring + 0.5, leg, "initial")
            plan.add_step(ring + 0.7, leg, "mailbox")
            plan.add_step(ring + 6 + seconds, leg, "hangup", cause=NORMAL_CLEARING, by="caller")
            plan.message = VoicemailMessage(leg, mailbox_owner, seconds)
        return plan.sort_steps()

    def hunt_answered(self, options: CallOptions) -> CallPlan:
        """Plan a call to a hunt group.

        The phones ring in sequence for the group's ring time each. The last phone, or that of `options.user`,
        answers.
        """
        group, caller, ddi = self.participants.choose_group_call(options, "ringgroup", "H")
        answering_member = options.user if options.user in group.members else group.members[-1]
        plan = CallPlan("hunt_answered", [], outside_party=caller, is_answered=True)
        offset = 0.0
        for member in group.members:
            root = plan.legs[0] if plan.legs else None
            leg = self.participants.make_inbound_leg(
                caller, ddi, member, context=group.context, group=group, root=root
            )
            plan.legs.append(leg)
            plan.add_step(offset, leg, "initial")
            plan.add_step(offset + 0.2, leg, "ringing")
            if member is answering_member:
                ring = offset + (options.ring_seconds or self.participants.choose_ring_seconds())
                plan.add_step(ring, leg, "connected")
                self._add_conversation(plan, leg, ring, options)
                break
            offset += group.ring_time
            plan.add_step(offset, leg, "missed", cause=NO_ANSWER, by="system", final=False)
            offset += 0.5
        return plan.sort_steps()

    def queue_answered(self, options: CallOptions) -> CallPlan:
        plan, music_leg, legs, retry_at = self._plan_queue(options, "queue_answered")
        plan.is_answered = True
        winner = next((leg for leg in legs if leg.user is options.user), legs[0])
        offset = retry_at + (options.ring_seconds or self.participants.choose_ring_seconds())
        plan.add_step(offset, winner, "connected")
        plan.add_step(offset + 0.1, music_leg, "hangup", cause=NORMAL_CLEARING, by="system")
        for leg in legs:
            if leg is not winner:
                plan.add_step(offset + 0.2, leg, "missed", cause=ANSWERED_ELSEWHERE, by="caller", final=False)
        self._add_conversation(plan, winner, offset, options)
        return plan.sort_steps()

    def queue_abandoned(self, options: CallOptions) -> CallPlan:
        """Plan a queue call without an answer.

        The caller listens to music and hangs up while the phones of agents ring.
        """
        plan, music_leg, legs, retry_at = self._plan_queue(options, "queue_abandoned")
        offset = retry_at + (options.ring_seconds or 5.0 + self.rng.random() * 8)
        for n, leg in enumerate(legs):
            plan.add_step(offset + n * 0.05, leg, "missed", cause=NO_ANSWER, by="caller", final=False)
        plan.add_step(offset + 0.5, music_leg, "hangup", cause=NORMAL_CLEARING, by="caller")
        return plan.sort_steps()

    def transfer(self, options: CallOptions) -> CallPlan:
        """Plan a call that a user answers, holds and transfers to another."""
        user, caller, ddi = self.participants.choose_direct_call(options)
        first = self.participants.make_inbound_leg(caller, ddi, user)
        second_user = options.second_user or self.participants.choose_colleague(user)
        plan = CallPlan("transfer", [first], outside_party=caller, is_answered=True)
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        talk_seconds = options.talk_seconds or self.participants.choose_talk_seconds()
        plan.add_step(0.0, first, "initial")
        plan.add_step(0.3, first, "ringing")
        plan.add_step(ring, first, "connected")
        offset = ring + talk_seconds * 0.3
        plan.add_step(offset, first, "hold")
        second = self.participants.make_inbound_leg(caller, ddi, second_user, root=first, parent=first)
        second.dst = second_user.ext
        plan.legs.append(second)
        transfer_at = offset + (options.hold_seconds or 5.0)
        plan.add_step(transfer_at - 4.0, second, "initial")
        plan.add_step(transfer_at - 3.7, second, "ringing")
        plan.add_step(transfer_at, second, "connected")
        plan.add_step(transfer_at + 0.2, first, "hangup", cause=NORMAL_CLEARING, by="callee")
        end_offset = transfer_at + 0.2 + talk_seconds * 0.7
        plan.add_step(end_offset, second, "hangup", cause=NORMAL_CLEARING, by="caller")
        return plan.sort_steps()

    def outbound(self, options: CallOptions) -> CallPlan:
        user = options.user or self.participants.choose_online_user()
        number = options.caller or self.participants.choose_reachable_number()
        leg = self.participants.make_outbound_leg(user, number)
        plan = CallPlan("outbound", [leg], outside_party=number, is_answered=True)
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.8, leg, "ringing")
        plan.add_step(ring, leg, "connected")
        self._add_conversation(plan, leg, ring, options)
        return plan.sort_steps()

    def outbound_missed(self, options: CallOptions) -> CallPlan:
        user = options.user or self.participants.choose_online_user()
        number = options.caller or self.participants.choose_reachable_number()
        leg = self.participants.make_outbound_leg(user, number)
        plan = CallPlan("outbound_missed", [leg], outside_party=number)
        plan.add_step(0.0, leg, "initial")
        if self.rng.random() < 0.3:
            plan.add_step(2.0, leg, "hangup", cause=BUSY, by="callee")
        else:
            plan.add_step(0.8, leg, "ringing")
            plan.add_step(
                options.ring_seconds or 15 + self.rng.random() * 15,
                leg,
                "hangup",
                cause=NO_ANSWER,
                by="caller",
            )
        return plan.sort_steps()

    def click_to_call(self, options: CallOptions) -> CallPlan:
        """Plan a click-to-call, which rings the user before the destination.

        Variant "one": one leg with INITIAL → ACCEPTED → RINGING → CONNECTED for the user, then
        RINGING → CONNECTED for the destination. Variant "two": one leg for each (docs/calls.md#outcome).
        """
        user = options.user or self.participants.choose_online_user()
        number = options.caller or self.participants.choose_reachable_number()
        is_answered = options.is_answered is not False
        leg = self.participants.make_outbound_leg(user, number)
        plan = CallPlan("click_to_call", [leg], outside_party=number, is_answered=is_answered)
        pickup_offset = 2.0 + self.rng.random() * 2
        ring = pickup_offset + 0.5 + (options.ring_seconds or self.participants.choose_ring_seconds())
        plan.add_step(0.0, leg, "initial")
        if options.variant == "two":
            destination_leg = self.participants.make_outbound_leg(user, number, root=leg)
            plan.legs.append(destination_leg)
            leg.context, leg.dst, leg.dst_id, leg.dst_name = (
                "CLICK_TO_CALL",
                user.ext,
                str(user.id),
                user.name,
            )
            leg.is_machine = True
            plan.add_step(0.2, leg, "accepted")
            plan.add_step(0.4, leg, "ringing")
            plan.add_step(pickup_offset, leg, "connected")
            plan.add_step(pickup_offset + 0.2, destination_leg, "initial")
            plan.add_step(pickup_offset + 0.5, destination_leg, "ringing")
        else:
            destination_leg = leg
            plan.add_step(0.2, leg, "accepted")
            plan.add_step(0.4, leg, "ringing")
            plan.add_step(pickup_offset, leg, "pickup")
            plan.add_step(pickup_offset + 0.5, leg, "ringing")
        if is_answered:
            plan.add_step(ring, destination_leg, "connected")
            self._add_conversation(plan, destination_leg, ring, options)
        else:
            plan.add_step(ring, destination_leg, "hangup", cause=NO_ANSWER, by="caller")
        if destination_leg is not leg:
            plan.add_step(plan.duration + 0.1, leg, "hangup", cause=NORMAL_CLEARING, by="caller")
        return plan.sort_steps()

    def internal(self, options: CallOptions) -> CallPlan:
        user = options.user or self.participants.choose_online_user()
        second_user = options.second_user or self.participants.choose_colleague(user)
        leg = self.participants.make_outbound_leg(user, second_user.ext)
        is_answered = options.is_answered if options.is_answered is not None else self.rng.random() < 0.8
        plan = CallPlan("internal", [leg], is_answered=is_answered)
        ring = options.ring_seconds or self.participants.choose_ring_seconds()
        plan.add_step(0.0, leg, "initial")
        plan.add_step(0.3, leg, "ringing")
        if is_answered:
            plan.add_step(ring, leg, "connected")
            self._add_conversation(plan, leg, ring, options)
        else:
            plan.add_step(ring, leg, "hangup", cause=NO_ANSWER, by="caller")
        return plan.sort_steps()

    # -- shared steps ----------------------------------------------------------------------------

    def _plan_ring_all(self, group: Group, caller: str, ddi: Ddi, script: str) -> tuple[CallPlan, list[Leg]]:
        plan = CallPlan(script, [], outside_party=caller)
        for n, member in enumerate(group.members):
            root = plan.legs[0] if plan.legs else None
            leg = self.participants.make_inbound_leg(
                caller, ddi, member, context=group.context, group=group, root=root
            )
            plan.legs.append(leg)
            plan.add_step(n * 0.02, leg, "initial")
            # An unregistered phone ends at 0.1 s. Its ringing event at 0.3 s follows the end, as on the
            # platform.
            plan.add_step(0.3 + n * 0.02, leg, "ringing")
        return plan, list(plan.legs)

    def _plan_queue(self, options: CallOptions, script: str) -> tuple[CallPlan, Leg, list[Leg], float]:
        group, caller, ddi = self.participants.choose_group_call(options, "queue", None)
        music_leg = self.participants.make_inbound_leg(
            caller, ddi, None, context=group.context, dst_id=str(group.id), dst_name=group.name
        )
        plan = CallPlan(script, [music_leg], outside_party=caller)
        plan.add_step(0.0, music_leg, "initial")
        plan.add_step(0.2, music_leg, "connected")
        offset = 1.0
        legs: list[Leg] = []
        ring_waves = [group.members] if group.strategy == "A" else [[member] for member in group.members[:2]]
        for n, members in enumerate(ring_waves):
            legs = []
            for member in members:
                leg = self.participants.make_inbound_leg(
                    caller, ddi, member, context=group.context, group=group, root=music_leg, parent=music_leg
                )
                legs.append(leg)
                plan.add_step(offset, leg, "initial")
                plan.add_step(offset + 0.2, leg, "ringing")
            plan.legs += legs
            if n < len(ring_waves) - 1:
                offset += group.ring_time
                for leg in legs:
                    plan.add_step(offset, leg, "missed", cause=NO_ANSWER, by="system", final=False)
                offset += 1.0
        return plan, music_leg, legs, offset

    def _add_conversation(self, plan: CallPlan, leg: Leg, offset: float, options: CallOptions) -> None:
        talk_seconds = options.talk_seconds or self.participants.choose_talk_seconds()
        has_hold = (
            options.has_hold
            if options.has_hold is not None
            else self.rng.random() < 0.12 and talk_seconds > 20
        )
        if has_hold:
            plan.add_step(offset + talk_seconds * 0.4, leg, "hold")
            plan.add_step(offset + talk_seconds * 0.6, leg, "unhold")
        if options.has_hold is None and talk_seconds > 15 and self.rng.random() < 0.04:
            plan.add_step(offset + talk_seconds * 0.2, leg, "dtmf", dtmf=self.rng.choice("0123456789*#"))
        ended_by = "caller" if self.rng.random() < 0.6 else "callee"
        plan.add_step(offset + talk_seconds, leg, "hangup", cause=NORMAL_CLEARING, by=ended_by)
