"""Calls that begin on the web: web calls, lead calls, and call-me-back from the widget.

The platform places them on somebody's behalf, so that both ends are dialled. Kept apart from the other
scripts with a generator of their own: the history of other calls stays the same with and without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from integration.core import clock
from integration.simulator.calls.legs import Leg, Plan, Wish
from integration.simulator.calls.participants import Casting
from integration.simulator.calls.records import billsec
from integration.simulator.records import numbers
from integration.simulator.records.widgets import visitor_phone

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]

_NO_ANSWER = "No Answer"
_NORMAL = "Normal Clearing"


class WebScripts:
    """Plans calls of the web, by name; `wish.caller` is the outside party, `wish.to` the other end."""

    def __init__(self, cast: Casting) -> None:
        self.cast = cast
        self.by_name = {
            "web_call": self.web_call,
            "lead_call": self.lead_call,
            "call_me_back": self.call_me_back,
        }

    def web_call(self, wish: Wish) -> Plan:
        """`caller` is rung first; when they answer, `to` (default: the user's extension)."""
        user = wish.user or self.cast.someone()
        first = self._leg(user_leg=self.cast.outgoing(user, wish.caller or self._outsider()), how="webcall")
        plan = Plan("web_call", [first], party=first.dst)
        second = self._leg(self.cast.outgoing(user, wish.to or user.ext, root=first), how="webcall")
        second.src = first.dst
        self._one_after_the_other(plan, first, second, wish)
        return plan.finish()

    def call_me_back(self, wish: Wish) -> Plan:
        """A visitor leaves a number: one of ours is rung, then the visitor."""
        user = wish.user or self.cast.someone()
        phone = wish.caller or visitor_phone(self.cast.rng)
        first = self._leg(self.cast.outgoing(user, user.ext), how="callmeback")
        first.context, first.machine = "CLICK_TO_CALL", True
        plan = Plan("call_me_back", [first], party=phone)
        second = self._leg(self.cast.outgoing(user, phone, root=first), how="callmeback")
        self._one_after_the_other(plan, first, second, wish)
        return plan.finish()

    def lead_call(self, wish: Wish) -> Plan:
        """One end only: `caller` is rung from the number `line`, and hears what is to be said."""
        user = wish.user or self.cast.someone()
        leg = self.cast.outgoing(user, wish.caller or self._outsider())
        line = wish.line or self.cast.account.lines[0]
        leg.clid = f'"{line.e164}" <{line.e164}>'
        plan = Plan("lead_call", [leg], party=leg.dst, answered=wish.answered is not False)
        ring = wish.ring or self.cast.ringing()
        plan.add(0.0, leg, "initial")
        plan.add(0.6, leg, "ringing")
        if plan.answered:
            plan.add(ring, leg, "connected")
            plan.add(ring + (wish.talk or self.cast.talk()), leg, "hangup", cause=_NORMAL, by="callee")
        else:
            plan.add(ring, leg, "hangup", cause=_NO_ANSWER, by="system")
        return plan.finish()

    def _outsider(self) -> str:
        return numbers.outsider(self.cast.rng)

    def _leg(self, user_leg: Leg, how: str) -> Leg:
        user_leg.destination, user_leg.recorded = how, False
        return user_leg

    def _one_after_the_other(self, plan: Plan, first: Leg, second: Leg, wish: Wish) -> None:
        answered = wish.answered if wish.answered is not None else self.cast.rng.random() < 0.8
        plan.answered = answered
        ring = wish.ring or self.cast.ringing()
        plan.add(0.0, first, "initial")
        plan.add(0.6, first, "ringing")
        plan.add(ring, first, "connected")
        plan.legs.append(second)
        plan.add(ring + 0.2, second, "initial")
        plan.add(ring + 0.8, second, "ringing")
        far = ring + 0.8 + self.cast.ringing()
        if answered:
            end = far + (wish.talk or self.cast.talk())
            plan.add(far, second, "connected")
            plan.add(end, second, "hangup", cause=_NORMAL, by="callee")
        else:
            end = far + 15
            plan.add(end, second, "hangup", cause=_NO_ANSWER, by="caller")
        plan.add(end + 0.2, first, "hangup", cause=_NORMAL, by="system")


def note(world: World, plan: Plan, at: float) -> Record:
    """The record of a web call that begins at `at`; `bill` fills in what its legs took."""
    first, second = plan.legs[0].dst, plan.legs[1].dst
    plan.webcall = {
        "id": world.new_id("webcalls"),
        "calldate": clock.stamp(at),
        "from": first,
        "from_duration": 0,
        "from_rate": _rate(first),
        "from_charge": 0.0,
        "to": second,
        "to_duration": 0,
        "to_rate": _rate(second),
        "to_charge": 0.0,
        "charge": 0.0,
    }
    return world.collections["webcalls"].add(plan.webcall)


def bill(record: Record, plan: Plan, leg: Leg) -> None:
    """Note an ended leg of a web call in its record."""
    end = "from" if leg is plan.legs[0] else "to"
    seconds = billsec(leg)
    record[f"{end}_duration"] = seconds
    record[f"{end}_charge"] = round(record[f"{end}_rate"] * seconds / 60, 3)
    record["charge"] = round(record["from_charge"] + record["to_charge"], 3)


def _rate(number: str) -> float:
    """Extensions cost nothing."""
    return numbers.rate(number) if len(number) > 6 else 0.0
