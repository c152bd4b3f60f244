"""Generator of random calls, SMS, faxes, chats and web calls, in the history and live.

On an office day a story supplies a part of the calls: scenes that follow one another after the start, and
repeat later with other callers and users. They are calls like all others, so pages, reports and exports agree
on them.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from integration.simulator.calls.legs import CallOptions, CallPlan
from integration.simulator.calls.participants import NoParticipant
from integration.simulator.calls.scripts import SCRIPT_WEIGHTS
from integration.simulator.calls.traffic import Traffic
from integration.simulator.records import activity
from integration.simulator.records.record_fields import SEEDS

_MISSED_SCRIPTS = frozenset({"plain_missed", "ring_group_missed", "queue_abandoned", "voicemail"})
OTHER_EVENTS = ("fax", "chat", "web_call", "call_me_back")

_FREQUENT_CALLS_PER_HOUR = 360.0
_CALLS_PER_SMS, _CALLS_PER_OTHER_EVENT = 22, 40
_LONGEST_WAIT = 1800.0
"""Seconds after which the rate of calls is read again."""
_MOST_DELAY = 60.0
"""Seconds that a call may start later so that its users are free; otherwise it is omitted."""
_PLANS_PER_CALL = 4

_RECENT_DAYS, _BUSY_RECENT_DAYS = 6, 0.2
"""Days before the start from which on missed calls have fewer follow-ups."""
_BUSY_FOLLOW_UP_RANGE = 0.65
"""Highest draw of a follow-up in a busy account, so that nearly every older missed call is called back."""

_SCENES: Mapping[str, tuple[tuple[float, str, Mapping[str, Any]], ...]] = {
    "conversations": (
        (0.0, "outbound", {"ring_seconds": 7.0, "talk_seconds": 125.0}),
        (3.0, "plain_answered", {"ring_seconds": 5.0, "talk_seconds": 100.0}),
    ),
    "missed_caller": (
        (0.0, "plain_missed", {"ring_seconds": 15.0}),
        (62.0, "plain_missed", {"ring_seconds": 12.0}),
        (105.0, "outbound", {"ring_seconds": 6.0, "talk_seconds": 55.0, "has_hold": False}),
    ),
    "full_queue": (
        (0.0, "queue_answered", {"ring_seconds": 36.0, "talk_seconds": 70.0}),
        (9.0, "queue_answered", {"ring_seconds": 50.0, "talk_seconds": 70.0}),
        (18.0, "queue_answered", {"ring_seconds": 62.0, "talk_seconds": 70.0}),
        (27.0, "queue_abandoned", {"ring_seconds": 72.0}),
    ),
    "transfer": ((0.0, "transfer", {"ring_seconds": 6.0, "hold_seconds": 18.0, "talk_seconds": 75.0}),),
    "voicemail": ((0.0, "voicemail", {"ring_seconds": 14.0, "talk_seconds": 20.0}),),
}
"""Calls of each scene as (seconds from its start, script, options)."""
_OPENING = {
    "conversations": 0.5,
    "missed_caller": 8.0,
    "full_queue": 20.0,
    "transfer": 55.0,
    "voicemail": 125.0,
}
"""Seconds from the start of the story to each scene."""
_PAUSE_AFTER_OPENING = 210.0
_STORY_DELAY, _STORY_DELAY_WITH_WEBHOOK = 60.0, 8.0
"""Seconds from the start, or from a new webhook URL, to the story.

Names of users and queues can be read before.
"""
_STORY_SHARE = 0.4
"""Share of the calls of an office day that belong to the story."""
_SCENE_SECONDS = 160.0
"""Seconds for which the user of a scene's call must be free."""
_CALLS_PER_SCENE = sum(map(len, _SCENES.values())) / len(_SCENES)

Action = Callable[[float], object]


class TrafficGenerator:
    """Generator of random events, scheduled on `traffic`.

    A higher `traffic.speed` gives more events. `calls_per_hour`: returns the rate of calls at a Unix time;
    None is frequent calls. `has_story`: play a story.
    """

    def __init__(
        self,
        traffic: Traffic,
        calls_per_hour: Callable[[float], float] | None = None,
        *,
        has_story: bool = False,
    ) -> None:
        self.traffic = traffic
        self.world = traffic.world
        self._calls_per_hour = calls_per_hour or (lambda _: _FREQUENT_CALLS_PER_HOUR)
        self._has_story = has_story
        self._is_story_open = False
        self._is_active = False
        self._sms_count = itertools.count(1)
        self._rng = random.Random(f"{type(traffic).__name__} {traffic.world.seed}")

    def start(self) -> None:
        self._is_active = True
        self._repeat(self._start_random_call, 1 / (1 - _STORY_SHARE) if self._has_story else 1)
        self._repeat(self._receive_sms, _CALLS_PER_SMS)
        self._repeat(lambda at: self.start_other(self._rng.choice(OTHER_EVENTS), at), _CALLS_PER_OTHER_EVENT)
        if self._has_story:
            self._schedule(_STORY_DELAY, self._open_story)

    def stop(self) -> None:
        """Start no new events. Calls in progress continue."""
        self._is_active = False

    def schedule_first_calls(self) -> None:
        """Start a call, or the story, if active, so that a new webhook receiver gets events soon."""
        if self._has_story:
            self._schedule(_STORY_DELAY_WITH_WEBHOOK, self._open_story)
        else:
            self.traffic.schedule(self.traffic.get_time(), self._start_random_call)

    def _schedule(self, seconds: float, action: Action) -> None:
        """Schedule `action` in `seconds` at normal speed."""
        self.traffic.schedule(self.traffic.get_time() + seconds / self.traffic.speed, action)

    def _repeat(self, action: Action, calls_per_event: float) -> None:
        """Repeat `action` at random times, whose mean distance is that of `calls_per_event` calls.

        The time to a random event does not depend on the time since the last one. So the wait can be drawn
        again whenever the rate has changed.
        """
        rate = self._calls_per_hour(self.traffic.get_time()) / calls_per_event / 3600
        wait = self._rng.expovariate(rate) if rate else math.inf

        def run(moment: float) -> None:
            if self._is_active:
                if wait <= _LONGEST_WAIT:
                    action(moment)
                self._repeat(action, calls_per_event)

        self._schedule(min(wait, _LONGEST_WAIT), run)

    # -- calls -------------------------------------------------------------------------------------

    def _start_random_call(self, _: float) -> None:
        script = self._rng.choices(list(SCRIPT_WEIGHTS), weights=list(SCRIPT_WEIGHTS.values()))[0]
        uses_own_leg = script == "voicemail" and self._rng.random() < 0.25
        plan = self._start_call(script, CallOptions(variant="leg" if uses_own_leg else None))
        if plan is not None and plan.script in _MISSED_SCRIPTS and plan.outside_party:
            self._plan_follow_up(plan)

    def _plan_follow_up(self, plan: CallPlan) -> None:
        """Plan what follows a missed call, if anything: a call-back, or another call of the party.

        Recent missed calls have fewer follow-ups, so that the call-back list has open items. In a busy
        account older ones are called back, or the list would be long.
        """
        is_busy = self.world.office_hours.is_busy
        draw = self._rng.random() * (_BUSY_FOLLOW_UP_RANGE if is_busy else 1.0)
        if (
            self.traffic.get_time()
            > self.world.start - (_BUSY_RECENT_DAYS if is_busy else _RECENT_DAYS) * 86400
        ):
            draw += 0.4
        options = CallOptions(caller=plan.outside_party)
        if draw < 0.62:
            script, options.talk_seconds = "outbound", 30 + self._rng.random() * 300
        elif draw < 0.70:
            script = "outbound_missed"
        elif draw < 0.86:
            script = self._rng.choice(("plain_answered", "ring_group_answered"))
        else:
            return
        wait = plan.duration + 120 + self._rng.expovariate(1 / 3600)
        self._schedule(wait, lambda _: self._start_call(script, options))

    def _start_call(self, script: str, options: CallOptions) -> CallPlan | None:
        """Plan a call and play it when its users are free.

        Returns None after `stop`, if the account lacks a participant, or if no plan has users that are free
        soon.
        """
        if not self._is_active:
            return None
        for n in range(_PLANS_PER_CALL):
            try:
                with self.world.lock:
                    plan = self.world.scripts.by_name[script](options)
            except NoParticipant as error:
                print(f"Simulator: cannot start {script}: {error}", file=sys.stderr, flush=True)
                return None
            delay = _MOST_DELAY / self.traffic.speed if n == _PLANS_PER_CALL - 1 else 0.0
            if self.traffic.play_generated(plan, self.traffic.get_time() + delay):
                return plan
        return None

    # -- story -------------------------------------------------------------------------------------

    def _open_story(self, _: float) -> None:
        if self._is_story_open or not self._is_active:
            return
        self._is_story_open = True
        for name, seconds in _OPENING.items():
            self._schedule(seconds, partial(self._play_scene, name))
        self._schedule(
            _PAUSE_AFTER_OPENING,
            lambda _: self._repeat(self._play_random_scene, _CALLS_PER_SCENE / _STORY_SHARE),
        )

    def _play_random_scene(self, moment: float) -> None:
        self._play_scene(self._rng.choice(list(_SCENES)), moment)

    def _play_scene(self, name: str, _: float) -> None:
        shared: dict[str, Any] = {}
        if name == "missed_caller":
            # No other call uses such a number, which could be engaged.
            shared["caller"] = self.world.assign_mobile(activity.choose_visitor_phone(self._rng))
        if name == "full_queue":
            shared["group"] = next((group for group in self.world.groups if group.kind == "queue"), None)
        for seconds, script, values in _SCENES[name]:
            start = partial(self._start_scene_call, script, CallOptions(**shared, **values))
            self._schedule(seconds * self._rng.uniform(0.85, 1.15), start)

    def _start_scene_call(self, script: str, options: CallOptions, moment: float) -> None:
        """Start a call of a free user, if there is one."""
        end = moment + _SCENE_SECONDS / self.traffic.speed
        users = options.group.members if options.group is not None else self.world.online_people
        free = [person for person in users if self.traffic.occupancy.is_free(person.id, moment, end)]
        options.user = self._rng.choice(free) if free else None
        if options.talk_seconds is not None:
            options.talk_seconds *= self._rng.uniform(0.85, 1.15)
        self._start_call(script, options)

    # -- other events ------------------------------------------------------------------------------

    def _receive_sms(self, moment: float) -> None:
        """Receive an SMS if the drawn sender has a mobile number, and answer it later."""
        rng, player = self._rng, self.traffic.player
        ddi = rng.choice([ddi for ddi in self.world.ddis if ddi["sms_enabled"]])
        with self.world.lock:
            sender = self.world.scripts.choose_caller()
        if sender.startswith("447"):
            # In turn, so that a short history has some of each user.
            people = self.world.online_people
            person = people[next(self._sms_count) % len(people)]
            question, answer = rng.choice(SEEDS["words"]["sms_pairs"])
            player.receive_sms(sender, ddi["e164"], question, person if rng.random() < 0.8 else None, moment)
            self._schedule(
                60 + rng.random() * 700, partial(player.send_sms, person, ddi["e164"], sender, answer)
            )

    def start_other(self, kind: str, moment: float) -> None:
        """Add a fax or an ended chat, or start a web call or a call-me-back."""
        if kind not in ("fax", "chat"):
            self._start_call(kind, CallOptions())
            return
        with self.world.lock:
            if kind == "fax":
                activity.add_fax(self.world, self._rng, moment)
            else:
                operator = self._rng.choice(self.world.online_people)
                activity.add_chat(self.world, self._rng, operator, moment - 180)
