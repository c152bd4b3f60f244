"""Seeded history: months of calls, recordings, voicemail and SMS before the start.

The traffic of live calls creates them, at times that have passed. Weekdays are busy, evenings and weekends
quiet. Most missed parties are called back or reach a user later, so that the call-back list of this history
has only a few open items.
"""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial

from integration.core import clock
from integration.simulator.calls.legs import Step
from integration.simulator.calls.player import Player
from integration.simulator.calls.traffic import RunningCall, Traffic
from integration.simulator.calls.traffic_generator import OTHER_EVENTS, TrafficGenerator
from integration.simulator.calls.world import World
from integration.simulator.records import activity

_DAY = 86400
_CDRS_PER_CALL = 80 / 56
"""Determines how many days a history of n CDRs covers."""
_RECORDING_DAYS, _BUSY_RECORDING_DAYS = 45, 6
"""Days with recordings. More of a busy account would need gigabytes in the archive of a demo."""
_LEAST_OTHER_EVENTS = 3
"""Voicemail messages, faxes, chats, web calls and call-me-backs, each, of the shortest history."""
_UNREAD_DAYS = 3
"""Days before the start whose voicemail messages are new."""


class _PastTraffic(Traffic):
    """Traffic whose time is that of the running action."""

    def __init__(self, world: World, start: float) -> None:
        super().__init__(world, Player(world))
        self._time = start

    def get_time(self) -> float:
        return self._time

    def play_steps(self, running: RunningCall, steps: list[Step], start: float) -> None:
        # Nothing reads a live call of the past, so its steps need not wait for their times.
        self.run_steps(running, steps, start)

    def run_until(self, end: float) -> None:
        while (moment := self.next_action_time) is not None and moment < end:
            self._time = moment
            self.run_next_action()


def seed_history(world: World, cdrs: int) -> None:
    """Fill `world` with at least about `cdrs` CDRs and their related records."""
    if not cdrs:
        return
    hours, rng = world.office_hours, random.Random(f"history {world.seed}")
    days = _count_days(world, cdrs)
    traffic = _PastTraffic(world, hours.find_midnight(world.start, days))
    traffic.recorded_from = world.start - (_BUSY_RECORDING_DAYS if hours.is_busy else _RECORDING_DAYS) * _DAY
    generator = TrafficGenerator(traffic, hours.expect_calls_per_hour)
    generator.start()
    for kind in ("voicemail", *OTHER_EVENTS) * _LEAST_OTHER_EVENTS:
        traffic.schedule(_choose_office_time(world, rng, days), partial(generator.start_other, kind))
    traffic.run_until(world.start)
    world.live_legs.clear()
    for message in world.collections["voicemessages"].records.values():
        if message["origtime"] < clock.utc_text(world.start - _UNREAD_DAYS * _DAY):
            message["is_new"], message["folder"] = False, 2
    activity.seed_notes(world)


def _count_days(world: World, cdrs: int) -> int:
    """Count the days before the start that yield `cdrs` CDRs.

    Weekend days yield fewer.
    """
    hours, today = world.office_hours, world.office_hours.find_day(world.start)
    days, expected_cdrs = 0, 0.0
    while days < 2 or expected_cdrs < cdrs:
        days += 1
        expected_cdrs += _CDRS_PER_CALL * hours.expect_calls(today - timedelta(days))
    return days


def _choose_office_time(world: World, rng: random.Random, days: int) -> float:
    """Choose a Unix time in office hours of the last `days`.

    The time is at least 90 min before the start.
    """
    day = world.office_hours.find_day(world.start) - timedelta(rng.randrange(days))
    unix_time = world.office_hours.choose_time(rng, day)
    return unix_time - _DAY if unix_time > world.start - 5400 else unix_time
