"""What happens by itself while the simulator runs: calls, SMS, now and then a fax, a chat, a web call."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from integration.core import clock
from integration.simulator.calls.history import MISSED_SCRIPTS
from integration.simulator.calls.legs import Plan, Wish
from integration.simulator.calls.participants import NobodyThere
from integration.simulator.calls.traffic import Traffic
from integration.simulator.calls.webcalls import note
from integration.simulator.records import chats, words
from integration.simulator.records import faxes as papers
from integration.simulator.records.people import Person

_SHARES = {
    "plain_answered": 22,
    "plain_missed": 6,
    "ring_group_answered": 14,
    "ring_group_missed": 4,
    "hunt_answered": 5,
    "queue_answered": 8,
    "queue_abandoned": 3,
    "transfer": 6,
    "voicemail": 4,
    "click_to_call": 6,
    "outbound": 14,
    "outbound_missed": 3,
    "internal": 5,
}
_SECONDS_BETWEEN_CALLS = 10.0
_SECONDS_BETWEEN_SMS = 45.0
_SECONDS_BETWEEN_OTHERS = 150.0


class Bustle:
    """Starts things on the clockwork `traffic`; `speed` there makes them more frequent here."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.world = traffic.world
        self._rng = random.Random(f"bustle {traffic.world.seed}")
        self._on = False

    def start(self) -> None:
        self._on = True
        now, speed = clock.unix(), self.traffic.speed
        self.greet()
        self.traffic.at(now + 5.0 / speed, self._next_call)
        self.traffic.at(now + 8.0 / speed, self._next_sms)
        self.traffic.at(now + 30.0 / speed, self._next_other)

    def stop(self) -> None:
        """Nothing new begins; calls under way go on."""
        self._on = False

    def greet(self) -> None:
        """Where things happen, some calls soon: whoever has begun to listen has something to see."""
        if self._on:
            for delay in (0.3, 1.5, 3.0):
                self.traffic.at(clock.unix() + delay, self._one_call)

    def _again(self, what: Callable[[float], None], at: float, seconds: float) -> None:
        self.traffic.at(at + self._rng.expovariate(self.traffic.speed / seconds), what)

    def _plan(self, script: str, wish: Wish) -> Plan | None:
        """None where the account has nobody left for it."""
        try:
            with self.world.lock:
                return self.world.scripts.by_name[script](wish)
        except NobodyThere as error:
            print(f"Simulator: no {script}: {error}", file=sys.stderr, flush=True)
            return None

    def _one_call(self, _: float) -> None:
        if not self._on:
            return
        script = self._rng.choices(list(_SHARES), weights=list(_SHARES.values()))[0]
        wish = Wish(form="leg") if script == "voicemail" and self._rng.random() < 0.25 else Wish()
        plan = self._plan(script, wish)
        if plan is None:
            return
        self.traffic.play(plan)
        if plan.script in MISSED_SCRIPTS and plan.party and self._rng.random() < 0.6:
            back = clock.unix() + (plan.length + 30 + self._rng.random() * 120) / self.traffic.speed
            self.traffic.at(back, lambda _: self._call_back(plan.party))

    def _call_back(self, party: str) -> None:
        plan = self._plan("outbound", Wish(caller=party, talk=20 + self._rng.random() * 90))
        if plan is not None:
            self.traffic.play(plan)

    def _next_call(self, at: float) -> None:
        if self._on:
            self._one_call(at)
            self._again(self._next_call, at, _SECONDS_BETWEEN_CALLS)

    def _next_sms(self, at: float) -> None:
        if not self._on:
            return
        rng, player = self._rng, self.traffic.player
        line = rng.choice([line for line in self.world.account.lines if line.sms])
        person = self._somebody()
        with self.world.lock:
            sender = self.world.cast.caller()
        if sender.startswith("447"):
            question, answer = words.sms_pair(rng)
            player.receive_sms(sender, line.e164, question, person, at)
            reply_at = at + (10 + rng.random() * 40) / self.traffic.speed
            self.traffic.at(
                reply_at, lambda moment: self._answer_sms(person, line.e164, sender, answer, moment)
            )
        self._again(self._next_sms, at, _SECONDS_BETWEEN_SMS)

    def _answer_sms(self, person: Person, own: str, partner: str, text: str, at: float) -> None:
        self.traffic.player.send_sms(person, own, partner, text, at)

    def _next_other(self, at: float) -> None:
        """A fax, a chat that has just ended, a web call, or a visitor who is called back."""
        if not self._on:
            return
        what = self._rng.choice(("fax", "chat", "web_call", "call_me_back"))
        with self.world.lock:
            if what == "fax":
                papers.fax(self.world, self._rng, at)
            elif what == "chat":
                chats.chat(self.world, self._rng, self._somebody(), at - 180)
        plan = self._plan(what, Wish()) if what in self.world.scripts.by_name else None
        if plan is not None:
            if what == "web_call":
                note(self.world, plan, at)
            self.traffic.play(plan)
        self._again(self._next_other, at, _SECONDS_BETWEEN_OTHERS)

    def _somebody(self) -> Person:
        return self._rng.choice([person for person in self.world.account.people if person.online])
