"""Generator of live traffic: calls, SMS, faxes, chats and web calls.

Normally calls are frequent, at any time of day. On an office day their rate is that of the history at the
same hour, and a story supplies a part of them.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from functools import partial

from integration.core import clock
from integration.simulator.calls.history import MISSED_SCRIPTS, SCRIPT_WEIGHTS
from integration.simulator.calls.legs import CallOptions, CallPlan
from integration.simulator.calls.participants import NoParticipant
from integration.simulator.calls.records import add_webcall
from integration.simulator.calls.story import Story
from integration.simulator.calls.traffic import Traffic
from integration.simulator.records import activity

_FREQUENT_CALLS_PER_HOUR = 360.0
_CALLS_PER_SMS, _CALLS_PER_OTHER_EVENT = 4.5, 15
"""Calls without an office day for each SMS and for each other event."""

_STORY_SHARE = 0.4
"""Share of the calls of an office day that belong to the story."""
_OFFICE_CALLS_PER_SMS, _OFFICE_CALLS_PER_OTHER_EVENT = 35, 100
"""Calls of an office day for each SMS and for each other event, as in the history."""
_LONGEST_WAIT = 600.0
"""Seconds after which the rate of an office day is read again."""
_STORY_DELAY = 60.0
"""Seconds from the start to the story if no webhook URL is set."""
_STORY_DELAY_WITH_WEBHOOK = 8.0
"""Seconds from a new webhook URL to the story, so that names of users and queues can be read before."""
_MOST_DELAY = 60.0
"""Seconds that a call may start later so that its users are free; otherwise it is omitted."""
_PLANS_PER_CALL = 4


class TrafficGenerator:
    """Generator of random events, scheduled on `traffic`.

    A higher `traffic.speed` gives more events. `is_office_day`: use the rates of the account's office hours,
    and play a story.
    """

    def __init__(self, traffic: Traffic, *, is_office_day: bool = False) -> None:
        self.traffic = traffic
        self.world = traffic.world
        self._rng = random.Random(f"bustle {traffic.world.seed}")
        self._is_active = False
        self._calls_per_sms = _OFFICE_CALLS_PER_SMS if is_office_day else _CALLS_PER_SMS
        self._calls_per_other_event = (
            _OFFICE_CALLS_PER_OTHER_EVENT if is_office_day else _CALLS_PER_OTHER_EVENT
        )
        self._story = (
            Story(traffic, self._start_call, lambda at: self._expect_calls_per_hour(at) * _STORY_SHARE)
            if is_office_day
            else None
        )

    def start(self) -> None:
        self._is_active = True
        now, speed = clock.unix(), self.traffic.speed
        if self._story is not None:
            self._story.begin(_STORY_DELAY / speed)
        else:
            self.schedule_first_calls()
        self.traffic.schedule(now + 5.0 / speed, self._start_next_call)
        self.traffic.schedule(now + 8.0 / speed, self._receive_next_sms)
        self.traffic.schedule(now + 30.0 / speed, self._start_next_other)

    def stop(self) -> None:
        """Start no new events. Calls in progress continue."""
        self._is_active = False
        if self._story is not None:
            self._story.stop()

    def schedule_first_calls(self) -> None:
        """Start three calls within 3 s, or the story, if active.

        A new webhook receiver thus gets events soon.
        """
        if not self._is_active:
            return
        if self._story is not None:
            self._story.begin(_STORY_DELAY_WITH_WEBHOOK / self.traffic.speed)
        else:
            for delay in (0.3, 1.5, 3.0):
                self.traffic.schedule(clock.unix() + delay, self._start_random_call)

    def _schedule_next(
        self, action: Callable[[float], None], unix_time: float, calls_per_event: float = 1
    ) -> None:
        """Schedule `action` after a random time, whose mean is that of `calls_per_event` calls.

        The time to a random event does not depend on the time since the last one. So the wait can be drawn
        again whenever the rate has changed.
        """
        speed, calls_per_hour = self.traffic.speed, _FREQUENT_CALLS_PER_HOUR
        if self._story is not None:
            calls_per_hour = self._expect_calls_per_hour(unix_time) * (1 - _STORY_SHARE)
        events_per_second = calls_per_hour / calls_per_event / 3600 * speed
        wait = self._rng.expovariate(events_per_second) if events_per_second else math.inf
        if wait <= _LONGEST_WAIT / speed:
            self.traffic.schedule(unix_time + wait, action)
        else:
            self.traffic.schedule(
                unix_time + _LONGEST_WAIT / speed,
                lambda moment: self._schedule_next(action, moment, calls_per_event),
            )

    def _expect_calls_per_hour(self, unix_time: float) -> float:
        return self.world.office_hours.expect_calls_per_hour(unix_time)

    def _plan(self, script: str, options: CallOptions) -> CallPlan | None:
        """Plan a call; return None if the account lacks a participant."""
        try:
            with self.world.lock:
                return self.world.scripts.by_name[script](options)
        except NoParticipant as error:
            print(f"Simulator: cannot start {script}: {error}", file=sys.stderr, flush=True)
            return None

    def _start_random_call(self, _: float) -> None:
        if not self._is_active:
            return
        weights = [frequent if self._story is None else usual for usual, frequent in SCRIPT_WEIGHTS.values()]
        script = self._rng.choices(list(SCRIPT_WEIGHTS), weights=weights)[0]
        uses_own_leg = script == "voicemail" and self._rng.random() < 0.25
        plan = self._start_call(script, CallOptions(variant="leg" if uses_own_leg else None))
        if plan is None:
            return
        if plan.script in MISSED_SCRIPTS and plan.outside_party and self._rng.random() < 0.6:
            call_back_time = (
                clock.unix() + (plan.duration + 30 + self._rng.random() * 120) / self.traffic.speed
            )
            self.traffic.schedule(call_back_time, lambda _: self._call_back(plan.outside_party))

    def _call_back(self, number: str) -> None:
        self._start_call("outbound", CallOptions(caller=number, talk_seconds=20 + self._rng.random() * 90))

    def _start_call(self, script: str, options: CallOptions) -> CallPlan | None:
        """Plan a call and play it when its users are free.

        Returns None if the account lacks a participant, or if no plan has users that are free soon.
        """
        for n in range(_PLANS_PER_CALL):
            plan = self._plan(script, options)
            if plan is None:
                return None
            delay = _MOST_DELAY / self.traffic.speed if n == _PLANS_PER_CALL - 1 else 0.0
            if self.traffic.play_generated(plan, clock.unix() + delay):
                return plan
        return None

    def _start_next_call(self, unix_time: float) -> None:
        if self._is_active:
            self._start_random_call(unix_time)
            self._schedule_next(self._start_next_call, unix_time)

    def _receive_next_sms(self, unix_time: float) -> None:
        if not self._is_active:
            return
        rng, player = self._rng, self.traffic.player
        ddi = rng.choice([ddi for ddi in self.world.ddis if ddi["sms_enabled"]])
        person = self._rng.choice(self.world.online_people)
        with self.world.lock:
            sender = self.world.scripts.choose_caller()
        if sender.startswith("447"):
            question, answer = activity.choose_sms_pair(rng)
            player.receive_sms(sender, ddi["e164"], question, person, unix_time)
            reply_at = unix_time + (10 + rng.random() * 40) / self.traffic.speed
            self.traffic.schedule(reply_at, partial(player.send_sms, person, ddi["e164"], sender, answer))
        self._schedule_next(self._receive_next_sms, unix_time, self._calls_per_sms)

    def _start_next_other(self, unix_time: float) -> None:
        """Start a fax, an ended chat, a web call or a call-me-back."""
        if not self._is_active:
            return
        event_kind = self._rng.choice(("fax", "chat", "web_call", "call_me_back"))
        with self.world.lock:
            if event_kind == "fax":
                activity.add_fax(self.world, self._rng, unix_time)
            elif event_kind == "chat":
                activity.add_chat(
                    self.world, self._rng, self._rng.choice(self.world.online_people), unix_time - 180
                )
        if event_kind in self.world.scripts.by_name:
            plan = self._start_call(event_kind, CallOptions())
            if plan is not None and event_kind == "web_call":
                add_webcall(self.world, plan, unix_time)
        self._schedule_next(self._start_next_other, unix_time, self._calls_per_other_event)
