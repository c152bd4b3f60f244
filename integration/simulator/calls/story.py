"""Story of an office day: scenes of calls for the demo.

The opening has every scene within about three minutes. Later single scenes repeat with other callers and
users. The scenes are calls like all others, so pages, reports and exports agree on them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial

from integration.core import clock
from integration.simulator.calls.legs import CallOptions
from integration.simulator.calls.participants import NoParticipant
from integration.simulator.calls.traffic import Traffic
from integration.simulator.records.people import Group, Person

PlayCall = Callable[[str, CallOptions], object]
"""Function that plays a script with options if its users are free."""

_MOST_SECONDS = 160.0
"""Seconds for which the users of a scene must be free."""
_CALLS_BY_SCENE = {"conversations": 2, "full_queue": 4, "missed_caller": 3, "transfer": 1, "voicemail": 1}
_OPENING = (
    (0.5, "conversations"),
    (8.0, "missed_caller"),
    (20.0, "full_queue"),
    (55.0, "transfer"),
    (125.0, "voicemail"),
)
"""Seconds from the start of the story to each scene of its opening."""
_PAUSE_AFTER_OPENING = 210.0
_LONGEST_WAIT = 600.0
"""Seconds after which the rate of calls is read again."""


class Story:
    """Scenes that are scheduled on `traffic`.

    `play`: starts a call. `calls_per_hour`: returns the rate of the story's calls at a Unix time.
    """

    def __init__(self, traffic: Traffic, play: PlayCall, calls_per_hour: Callable[[float], float]) -> None:
        self.traffic = traffic
        self.world = traffic.world
        self._play = play
        self._calls_per_hour = calls_per_hour
        self._rng = random.Random(f"story {traffic.world.seed}")
        self._remaining_scenes: list[str] = []
        self._is_opened = False
        self._version = 0

    def begin(self, delay: float) -> None:
        """Begin with the opening `delay` seconds from now. Scheduled scenes are dropped."""
        self._version += 1
        version = self._version
        start = clock.unix() + delay
        for offset, name in _OPENING:
            self._schedule(start, offset, partial(self._play_scene, name), version)
        self._schedule(start, _PAUSE_AFTER_OPENING, self._play_next_scene, version)

    def stop(self) -> None:
        """Start no more scenes and none of their later calls."""
        self._version += 1

    def _schedule(self, start: float, offset: float, action: Callable[[float], object], version: int) -> None:
        def run(unix_time: float) -> None:
            if version != self._version:
                return
            try:
                action(unix_time)
            except NoParticipant as error:
                print(f"Simulator: a scene of the story is omitted: {error}", file=sys.stderr, flush=True)

        self.traffic.schedule(start + offset / self.traffic.speed, run)

    def _play_next_scene(self, unix_time: float) -> None:
        """Play a scene and schedule the next by the rate of calls."""
        wait = 0.0
        rate = self._calls_per_hour(unix_time)
        if rate * _LONGEST_WAIT / 3600 > 1:
            self._remaining_scenes = self._remaining_scenes or self._rng.sample(
                list(_CALLS_BY_SCENE), len(_CALLS_BY_SCENE)
            )
            self._is_opened = True
            name = self._remaining_scenes.pop()
            self._schedule(unix_time, 0.0, partial(self._play_scene, name), self._version)
            wait = _CALLS_BY_SCENE[name] * 3600 / rate * self._rng.uniform(0.8, 1.2)
        self._schedule(unix_time, wait or _LONGEST_WAIT, self._play_next_scene, self._version)

    def _play_scene(self, name: str, unix_time: float) -> None:
        scene: Callable[[float], None] = getattr(self, f"_play_{name}")
        scene(unix_time)

    # -- scenes ------------------------------------------------------------------------------------

    def _play_conversations(self, unix_time: float) -> None:
        """Two users talk: one called a customer, the other was called."""
        called = self._choose_free(self._list_directly_reachable(), unix_time)
        caller = self._choose_free(self._list_others(), unix_time, besides=called)
        self._call_later(
            unix_time, 0, "outbound", user=caller, ring_seconds=7.0, talk_seconds=self._vary(125)
        )
        self._call_later(
            unix_time, 3, "plain_answered", user=called, ring_seconds=5.0, talk_seconds=self._vary(100)
        )

    def _play_full_queue(self, unix_time: float) -> None:
        """Four callers wait in a queue.

        Three are answered one after another, one hangs up.
        """
        queue = self._choose_queue()
        agents = self._list_free(queue.members, unix_time)
        self._rng.shuffle(agents)
        callers = self._choose_callers(4)
        waits = [36.0, 50.0, 62.0, 72.0]
        answers = [True, True, True, False]
        # In the opening the last caller hangs up, in later scenes any but the first.
        if self._is_opened:
            answers[1:] = self._rng.sample(answers[1:], 3)
        offset = 0.0
        for caller, wait, is_answered in zip(callers, waits, answers, strict=True):
            agent = agents.pop() if is_answered and agents else None
            script = "queue_answered" if agent else "queue_abandoned"
            seconds = {"ring_seconds": wait, "talk_seconds": self._vary(70)}
            self._call_later(unix_time, offset, script, group=queue, caller=caller, user=agent, **seconds)
            offset += self._vary(9)

    def _play_missed_caller(self, unix_time: float) -> None:
        """A caller is missed, calls again, and is called back."""
        called = self._rng.choice(self._list_directly_reachable())
        (caller,) = self._choose_callers(1)
        self._call_later(unix_time, 0, "plain_missed", user=called, caller=caller, ring_seconds=15.0)
        self._call_later(
            unix_time, self._vary(62), "plain_missed", user=called, caller=caller, ring_seconds=12.0
        )
        self._schedule(unix_time, self._vary(105), partial(self._call_back, caller, called), self._version)

    def _call_back(self, number: str, called: Person, unix_time: float) -> None:
        """Call `number` back from the called user or a free colleague."""
        user = called
        if called not in self._list_free([called], unix_time):
            user = self._choose_free(self.world.people, unix_time)
        options = CallOptions(
            user=user, caller=number, ring_seconds=6.0, talk_seconds=self._vary(55), has_hold=False
        )
        self._play("outbound", options)

    def _play_transfer(self, unix_time: float) -> None:
        """A call is answered, put on hold and transferred to a colleague."""
        first = self._choose_free(self._list_directly_reachable(), unix_time)
        second = self._choose_free(self._list_others(), unix_time, besides=first)
        (caller,) = self._choose_callers(1)
        parties = {"user": first, "second_user": second, "caller": caller}
        seconds = {"ring_seconds": 6.0, "hold_seconds": 18.0, "talk_seconds": self._vary(75)}
        self._call_later(unix_time, 0, "transfer", **parties, **seconds)

    def _play_voicemail(self, unix_time: float) -> None:
        """A caller reaches no user and leaves a message."""
        person = self._choose_free(self._list_directly_reachable(), unix_time)
        (caller,) = self._choose_callers(1)
        seconds = {"ring_seconds": 14.0, "talk_seconds": self._vary(20)}
        self._call_later(unix_time, 0, "voicemail", user=person, caller=caller, **seconds)

    # -- parties -----------------------------------------------------------------------------------

    def _call_later(self, unix_time: float, offset: float, script: str, **options: object) -> None:
        call_options = CallOptions(**options)  # type: ignore[arg-type]
        self._schedule(unix_time, offset, lambda _: self._play(script, call_options), self._version)

    def _vary(self, seconds: float) -> float:
        return seconds * self._rng.uniform(0.85, 1.15)

    def _choose_queue(self) -> Group:
        queues = [g for g in self.world.groups if g.kind == "queue" and g.strategy == "A" and g.members]
        if not queues:
            raise NoParticipant("the account has no queue whose phones ring at once")
        return self._rng.choice(queues)

    def _list_directly_reachable(self) -> list[Person]:
        """List the users with a number of their own."""
        targets = [ddi["target_id"] for ddi in self.world.ddis]
        return [person for person in self.world.people if person.id in targets]

    def _list_others(self) -> list[Person]:
        """List the users who answer no queue of a full-queue scene."""
        queue = self._choose_queue()
        return [person for person in self.world.people if person not in queue.members]

    def _list_free(self, people: list[Person], unix_time: float) -> list[Person]:
        end = unix_time + _MOST_SECONDS / self.traffic.speed
        with self.world.lock:
            return [
                person
                for person in people
                if person.is_online and self.traffic.occupancy.is_free(person.id, unix_time, end)
            ]

    def _choose_free(self, people: list[Person], unix_time: float, besides: Person | None = None) -> Person:
        """Choose a free user, preferably one of `people`."""
        for candidates in (people, self._list_others(), self.world.people):
            free = [person for person in self._list_free(candidates, unix_time) if person is not besides]
            if free:
                return self._rng.choice(free)
        raise NoParticipant("no user is free")

    def _choose_callers(self, count: int) -> list[str]:
        """Choose different outside numbers that are not on a call."""
        callers: list[str] = []
        with self.world.lock:
            live_numbers = {number for leg in self.world.live_legs.values() for number in (leg.src, leg.dst)}
            while len(callers) < count:
                number = self.world.scripts.choose_reachable_number()
                if number not in live_numbers and number not in callers:
                    callers.append(number)
        return callers
