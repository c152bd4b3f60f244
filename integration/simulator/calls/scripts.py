"""Scripts of calls: which legs a call has and what happens to them when.

A script only plans; `play.py` makes it happen, live or as history. Offsets are seconds from the start of
the call at normal speed. How legs behave follows observed.md §1.2 and §8 and the examples of calls.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from integration.simulator.calls.legs import Leg, Message, Plan, Wish
from integration.simulator.calls.participants import Casting
from integration.simulator.records.people import Group, Line

NOT_REGISTERED = "No user responding"
ELSEWHERE = "Call completed elsewhere"
NO_ANSWER = "No Answer"
NORMAL = "Normal Clearing"
BUSY = "User busy"


class Scripts:
    """Plans calls of one account, by name."""

    def __init__(self, cast: Casting) -> None:
        self.cast = cast
        self.account = cast.account
        self.rng = cast.rng
        self.by_name: dict[str, Callable[[Wish], Plan]] = {
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

    def plain_answered(self, wish: Wish) -> Plan:
        user, caller, line = self.cast.direct(wish)
        leg = self.cast.inbound(caller, line, user)
        plan = Plan("plain_answered", [leg], party=caller, answered=True)
        ring = wish.ring or self.cast.ringing()
        plan.add(0.0, leg, "initial")
        plan.add(0.3, leg, "ringing")
        plan.add(ring, leg, "connected")
        self._conversation(plan, leg, ring, wish)
        return plan.finish()

    def plain_missed(self, wish: Wish) -> Plan:
        user, caller, line = self.cast.direct(wish)
        leg = self.cast.inbound(caller, line, user)
        plan = Plan("plain_missed", [leg], party=caller)
        ring = wish.ring or 3.0 + self.rng.random() * user.ring_time
        plan.add(0.0, leg, "initial")
        plan.add(0.3, leg, "ringing")
        plan.add(ring, leg, "missed", cause=NO_ANSWER, by="caller", final=True)
        return plan.finish()

    def voicemail(self, wish: Wish) -> Plan:
        """The phone rings out and the caller talks to the mailbox: on the same leg, or (form "leg", as
        ring groups with a mailbox at their end do) on a leg of the mailbox's own."""
        if wish.form == "leg" or wish.group is not None:
            boxed = [group for group in self.account.groups if group.final_dst_type == "V"]
            group = wish.group or (boxed[0] if boxed else None)
            return self.ring_group_missed(replace(wish, voicemail=True, group=group))
        user, caller, line = self.cast.direct(wish)
        leg = self.cast.inbound(caller, line, user)
        plan = Plan("voicemail", [leg], party=caller)
        ring = wish.ring or float(user.ring_time)
        seconds = int(wish.talk or 5 + self.rng.random() * 40)
        plan.add(0.0, leg, "initial")
        plan.add(0.3, leg, "ringing")
        plan.add(ring, leg, "box")
        plan.add(ring + 6 + seconds, leg, "missed", cause=NORMAL, by="caller", final=True)
        plan.message = Message(leg, user, seconds)
        return plan.finish()

    def ring_group_answered(self, wish: Wish) -> Plan:
        group, caller, line = self.cast.to_group(wish, "ringgroup", "A")
        plan, legs = self._ring_all(group, caller, line, "ring_group_answered")
        plan.answered = True
        winner = next((leg for leg in legs if leg.user is wish.user), legs[1 % len(legs)])
        ring = wish.ring or self.cast.ringing()
        given_up = legs[-1] if legs[-1] is not winner else legs[0]
        if len(legs) > 1:
            plan.add(0.1, given_up, "missed", cause=NOT_REGISTERED, by="caller", final=False)
        plan.add(ring, winner, "connected")
        for leg in legs:
            if leg not in (winner, given_up):
                plan.add(ring + 0.1, leg, "missed", cause=ELSEWHERE, by="caller", final=False)
        self._conversation(plan, winner, ring, wish)
        return plan.finish()

    def ring_group_missed(self, wish: Wish) -> Plan:
        group, caller, line = self.cast.to_group(wish, "ringgroup", "A")
        plan, legs = self._ring_all(group, caller, line, "ring_group_missed")
        mailbox = wish.voicemail
        ring = wish.ring or (float(group.ring_time) if mailbox else 4.0 + self.rng.random() * group.ring_time)
        for n, leg in enumerate(legs):
            last = n == len(legs) - 1 and not mailbox
            by = "caller" if not mailbox else "system"
            plan.add(ring + n * 0.05, leg, "missed", cause=NO_ANSWER, by=by, final=last)
        if mailbox:
            plan.script = "voicemail"
            box = group.members[0]
            leg = self.cast.inbound(
                caller,
                line,
                None,
                context="VOICEMAIL",
                root=legs[0],
                parent=legs[0],
                dst_id=str(box.id),
                dst_name=f"Voicemail {box.ext}",
            )
            seconds = int(wish.talk or 5 + self.rng.random() * 40)
            plan.legs.append(leg)
            plan.add(ring + 0.5, leg, "initial")
            plan.add(ring + 0.7, leg, "box")
            plan.add(ring + 6 + seconds, leg, "hangup", cause=NORMAL, by="caller")
            plan.message = Message(leg, box, seconds)
        return plan.finish()

    def hunt_answered(self, wish: Wish) -> Plan:
        """One phone after another, each for the group's ring time; the last one (or `user`) answers."""
        group, caller, line = self.cast.to_group(wish, "ringgroup", "H")
        answering = wish.user if wish.user in group.members else group.members[-1]
        plan = Plan("hunt_answered", [], party=caller, answered=True)
        at = 0.0
        for member in group.members:
            root = plan.legs[0] if plan.legs else None
            leg = self.cast.inbound(caller, line, member, context=group.context, group=group, root=root)
            plan.legs.append(leg)
            plan.add(at, leg, "initial")
            plan.add(at + 0.2, leg, "ringing")
            if member is answering:
                ring = at + (wish.ring or self.cast.ringing())
                plan.add(ring, leg, "connected")
                self._conversation(plan, leg, ring, wish)
                break
            at += group.ring_time
            plan.add(at, leg, "missed", cause=NO_ANSWER, by="system", final=False)
            at += 0.5
        return plan.finish()

    def queue_answered(self, wish: Wish) -> Plan:
        plan, music, legs, retry_at = self._queue(wish, "queue_answered")
        plan.answered = True
        winner = next((leg for leg in legs if leg.user is wish.user), legs[0])
        at = retry_at + (wish.ring or self.cast.ringing())
        plan.add(at, winner, "connected")
        plan.add(at + 0.1, music, "hangup", cause=NORMAL, by="system")
        for leg in legs:
            if leg is not winner:
                plan.add(at + 0.2, leg, "missed", cause=ELSEWHERE, by="caller", final=False)
        self._conversation(plan, winner, at, wish)
        return plan.finish()

    def queue_abandoned(self, wish: Wish) -> Plan:
        """The caller hears music, the agents ring, nobody answers, the caller leaves."""
        plan, music, legs, retry_at = self._queue(wish, "queue_abandoned")
        at = retry_at + (wish.ring or 5.0 + self.rng.random() * 8)
        for n, leg in enumerate(legs):
            plan.add(at + n * 0.05, leg, "missed", cause=NO_ANSWER, by="caller", final=False)
        plan.add(at + 0.5, music, "hangup", cause=NORMAL, by="caller")
        return plan.finish()

    def transfer(self, wish: Wish) -> Plan:
        """A answers, holds, transfers to B; B talks on."""
        user, caller, line = self.cast.direct(wish)
        first = self.cast.inbound(caller, line, user)
        other = wish.other or self.cast.colleague(user)
        plan = Plan("transfer", [first], party=caller, answered=True)
        ring = wish.ring or self.cast.ringing()
        talk = wish.talk or self.cast.talk()
        plan.add(0.0, first, "initial")
        plan.add(0.3, first, "ringing")
        plan.add(ring, first, "connected")
        at = ring + talk * 0.3
        plan.add(at, first, "hold")
        second = self.cast.inbound(caller, line, other, root=first, parent=first)
        second.dst = other.ext
        plan.legs.append(second)
        plan.add(at + 1.0, second, "initial")
        plan.add(at + 1.3, second, "ringing")
        plan.add(at + 5.0, second, "connected")
        plan.add(at + 5.2, first, "hangup", cause=NORMAL, by="callee")
        plan.add(at + 5.2 + talk * 0.7, second, "hangup", cause=NORMAL, by="caller")
        return plan.finish()

    def outbound(self, wish: Wish) -> Plan:
        user = wish.user or self.cast.someone()
        to = wish.caller or self.cast.reachable()
        leg = self.cast.outgoing(user, to)
        plan = Plan("outbound", [leg], party=to, answered=True)
        ring = wish.ring or self.cast.ringing()
        plan.add(0.0, leg, "initial")
        plan.add(0.8, leg, "ringing")
        plan.add(ring, leg, "connected")
        self._conversation(plan, leg, ring, wish)
        return plan.finish()

    def outbound_missed(self, wish: Wish) -> Plan:
        user = wish.user or self.cast.someone()
        to = wish.caller or self.cast.reachable()
        leg = self.cast.outgoing(user, to)
        plan = Plan("outbound_missed", [leg], party=to)
        plan.add(0.0, leg, "initial")
        if self.rng.random() < 0.3:
            plan.add(2.0, leg, "hangup", cause=BUSY, by="callee")
        else:
            plan.add(0.8, leg, "ringing")
            plan.add(wish.ring or 15 + self.rng.random() * 15, leg, "hangup", cause=NO_ANSWER, by="caller")
        return plan.finish()

    def click_to_call(self, wish: Wish) -> Plan:
        """Agent first. Form "one": a single id goes INITIAL → ACCEPTED → RINGING → CONNECTED for the agent,
        then RINGING → CONNECTED for the destination; form "two": a leg for each (calls.md, example 8)."""
        user = wish.user or self.cast.someone()
        to = wish.caller or self.cast.reachable()
        answered = wish.answered is not False
        leg = self.cast.outgoing(user, to)
        plan = Plan("click_to_call", [leg], party=to, answered=answered)
        pickup = 2.0 + self.rng.random() * 2
        ring = pickup + 0.5 + (wish.ring or self.cast.ringing())
        plan.add(0.0, leg, "initial")
        if wish.form == "two":
            far = self.cast.outgoing(user, to, root=leg)
            plan.legs.append(far)
            leg.context, leg.dst, leg.dst_id, leg.dst_name = (
                "CLICK_TO_CALL",
                user.ext,
                str(user.id),
                user.name,
            )
            leg.machine = True
            plan.add(0.2, leg, "accepted")
            plan.add(0.4, leg, "ringing")
            plan.add(pickup, leg, "connected")
            plan.add(pickup + 0.2, far, "initial")
            plan.add(pickup + 0.5, far, "ringing")
        else:
            far = leg
            plan.add(0.2, leg, "accepted")
            plan.add(0.4, leg, "ringing")
            plan.add(pickup, leg, "pickup")
            plan.add(pickup + 0.5, leg, "ringing")
        if answered:
            plan.add(ring, far, "connected")
            self._conversation(plan, far, ring, wish)
        else:
            plan.add(ring, far, "hangup", cause=NO_ANSWER, by="caller")
        if far is not leg:
            plan.add(plan.length + 0.1, leg, "hangup", cause=NORMAL, by="caller")
        return plan.finish()

    def internal(self, wish: Wish) -> Plan:
        user = wish.user or self.cast.someone()
        other = wish.other or self.cast.colleague(user)
        leg = self.cast.outgoing(user, other.ext)
        answered = wish.answered if wish.answered is not None else self.rng.random() < 0.8
        plan = Plan("internal", [leg], answered=answered)
        ring = wish.ring or self.cast.ringing()
        plan.add(0.0, leg, "initial")
        plan.add(0.3, leg, "ringing")
        if answered:
            plan.add(ring, leg, "connected")
            self._conversation(plan, leg, ring, wish)
        else:
            plan.add(ring, leg, "hangup", cause=NO_ANSWER, by="caller")
        return plan.finish()

    # -- parts -----------------------------------------------------------------------------------

    def _ring_all(self, group: Group, caller: str, line: Line, script: str) -> tuple[Plan, list[Leg]]:
        plan = Plan(script, [], party=caller)
        for n, member in enumerate(group.members):
            root = plan.legs[0] if plan.legs else None
            leg = self.cast.inbound(caller, line, member, context=group.context, group=group, root=root)
            plan.legs.append(leg)
            plan.add(n * 0.02, leg, "initial")
            # All phones ring, the one that gives up at once too: its ringing comes after its end.
            plan.add(0.3 + n * 0.02, leg, "ringing")
        return plan, list(plan.legs)

    def _queue(self, wish: Wish, script: str) -> tuple[Plan, Leg, list[Leg], float]:
        group, caller, line = self.cast.to_group(wish, "queue", None)
        music = self.cast.inbound(
            caller, line, None, context=group.context, dst_id=str(group.id), dst_name=group.name
        )
        plan = Plan(script, [music], party=caller)
        plan.add(0.0, music, "initial")
        plan.add(0.2, music, "connected")
        at = 1.0
        legs: list[Leg] = []
        rounds = [group.members] if group.strategy == "A" else [[member] for member in group.members[:2]]
        for n, members in enumerate(rounds):
            legs = []
            for member in members:
                leg = self.cast.inbound(
                    caller, line, member, context=group.context, group=group, root=music, parent=music
                )
                legs.append(leg)
                plan.add(at, leg, "initial")
                plan.add(at + 0.2, leg, "ringing")
            plan.legs += legs
            if n < len(rounds) - 1:
                at += group.ring_time
                for leg in legs:
                    plan.add(at, leg, "missed", cause=NO_ANSWER, by="system", final=False)
                at += 1.0
        return plan, music, legs, at

    def _conversation(self, plan: Plan, leg: Leg, at: float, wish: Wish) -> None:
        talk = wish.talk or self.cast.talk()
        hold = wish.hold if wish.hold is not None else self.rng.random() < 0.12 and talk > 20
        if hold:
            plan.add(at + talk * 0.4, leg, "hold")
            plan.add(at + talk * 0.6, leg, "unhold")
        if wish.hold is None and talk > 15 and self.rng.random() < 0.04:
            plan.add(at + talk * 0.2, leg, "dtmf", dtmf=self.rng.choice("0123456789*#"))
        by = "caller" if self.rng.random() < 0.6 else "callee"
        plan.add(at + talk, leg, "hangup", cause=NORMAL, by=by)
