"""Office day: time zone, rate of calls, users with one call, story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from integration.simulator.calls.history import seed_history
from integration.simulator.calls.legs import CallOptions
from integration.simulator.calls.occupancy import list_user_ids
from integration.simulator.calls.office_hours import OfficeHours, find_morning_offset, make_busy_hours
from integration.simulator.calls.player import Player
from integration.simulator.calls.traffic import Traffic
from integration.simulator.calls.traffic_generator import TrafficGenerator
from integration.simulator.calls.world import World
from tests.support.clock import Clock
from tests.support.simulator_client import find_double_calls, to_unix

LONDON = ZoneInfo("Europe/London")
MONDAY_10 = datetime(2026, 11, 23, 10, tzinfo=LONDON).timestamp()
SUNDAY_3_IN_LONDON = datetime(2026, 11, 22, 3, tzinfo=UTC).timestamp()


def make_morning_zone(unix_time: float) -> timezone:
    return timezone(find_morning_offset(unix_time))


def count_calls_until(world: World, hours: OfficeHours, end: float) -> Counter[Any]:
    """Count the calls of each day up to the time of day of `end`."""
    time_of_day = datetime.fromtimestamp(end, hours.zone).time()
    counts: Counter[Any] = Counter()
    for cdr in world.collections["cdrs"].records.values():
        moment = datetime.fromtimestamp(to_unix(cdr["calldate"]), hours.zone)
        if cdr["is_root"] and moment.time() <= time_of_day:
            counts[moment.date()] += 1
    return counts


@dataclass
class OfficeDay:
    """Live calls whose clock moves from one action to the next."""

    clock: Clock
    world: World
    traffic: Traffic
    generator: TrafficGenerator
    events: list[dict[str, Any]] = field(default_factory=list)
    most_live_users: int = 0
    most_waiting: int = 0
    most_calls_by_user: int = 0
    most_calls_by_party: int = 0

    def run_until(self, end: float) -> None:
        while (moment := self.traffic.next_action_time) is not None and moment <= end:
            self.clock.freeze(max(moment, self.clock.unix()))
            self.traffic.run_next_action()
            legs = self.world.live_legs.values()
            talking = [leg for leg in legs if leg.user and leg.state in ("CONNECTED", "ON_HOLD")]
            waiting = [leg for leg in legs if leg.context == "Queue" and leg.user is None]
            self.most_live_users = max(self.most_live_users, len({leg.root_id for leg in talking}))
            self.most_waiting = max(self.most_waiting, len(waiting))
            users = {(user_id, leg.root_id) for leg in legs for user_id in list_user_ids(leg)}
            parties = {(leg.dst if leg.is_outbound else leg.src, leg.root_id) for leg in legs}
            self.most_calls_by_user = max(
                self.most_calls_by_user, *Counter(user_id for user_id, _ in users).values(), 0
            )
            self.most_calls_by_party = max(
                self.most_calls_by_party,
                *Counter(party for party, _ in parties if len(party) > len("1001")).values(),
                0,
            )
        self.clock.freeze(end)
        assert self.traffic.error is None


Begin = Callable[..., OfficeDay]


@pytest.fixture
def begin_day(movable_clock: Clock) -> Begin:
    def begin(start: float, *, cdrs: int = 0, seed: int = 1, is_office_day: bool = True) -> OfficeDay:
        movable_clock.freeze(start)
        hours = make_busy_hours(make_morning_zone(start), start)
        world = World(seed, start, hours)
        seed_history(world, cdrs)
        events: list[dict[str, Any]] = []
        traffic = Traffic(world, Player(world, lambda event, _: events.append(event)))
        generator = TrafficGenerator(
            traffic, hours.expect_calls_per_hour if is_office_day else None, has_story=is_office_day
        )
        generator.start()
        return OfficeDay(movable_clock, world, traffic, generator, events)

    return begin


def test_in_a_busy_history_users_have_one_call_and_today_is_like_other_working_days():
    start = SUNDAY_3_IN_LONDON
    hours = make_busy_hours(make_morning_zone(start), start)
    world = World(1, start, hours)
    seed_history(world, 4000)
    assert find_double_calls(world.collections["cdrs"].records.values()) == []
    counts = count_calls_until(world, hours, start)
    today = hours.find_day(start)
    working_days = [day for day in counts if day != today and (hours.is_open_daily or day.weekday() < 5)]
    mean = sum(counts[day] for day in working_days) / len(working_days)
    assert 80 < mean < 120
    assert 0.7 * mean < counts[today] < 1.4 * mean


def test_live_calls_are_as_frequent_as_those_of_the_history_and_no_user_is_on_two(begin_day: Begin):
    day = begin_day(MONDAY_10)
    day.generator.schedule_first_calls()
    day.run_until(MONDAY_10 + 3 * 3600)
    cdrs = list(day.world.collections["cdrs"].records.values())
    assert find_double_calls(cdrs) == []
    assert day.most_live_users <= 11
    assert day.most_calls_by_party == 1
    # A Monday has 610 calls: 13 % of them from 10 to 11, then 12 %, then 7 %.
    assert 0.8 * 195 < sum(cdr["is_root"] for cdr in cdrs) < 1.3 * 195


def test_an_office_day_is_silent_at_night(begin_day: Begin):
    day = begin_day(MONDAY_10)
    day.run_until(MONDAY_10 + 12.5 * 3600)
    earlier = len(day.events)
    day.run_until(MONDAY_10 + 19 * 3600)
    assert len(day.events) == earlier
    day.run_until(MONDAY_10 + 24 * 3600)
    assert len(day.events) > earlier + 100


def test_the_story_begins_with_the_webhook_url_and_has_every_scene(begin_day: Begin):
    day = begin_day(MONDAY_10)
    day.run_until(MONDAY_10 + 4)
    day.generator.schedule_first_calls()
    day.run_until(MONDAY_10 + 64)
    assert day.most_waiting >= 3
    assert len({leg.root_id for leg in day.world.live_legs.values()}) >= 5
    day.run_until(MONDAY_10 + 300)
    assert read_scenes(day) == {
        "a caller hangs up in the queue",
        "a caller is missed twice",
        "the missed caller is called back",
        "a held call is transferred",
        "a message arrives",
    }


def read_scenes(day: OfficeDay) -> set[str]:
    """Return what happened in the ended calls of an office day."""
    cdrs = list(day.world.collections["cdrs"].records.values())
    talks = [cdr for cdr in cdrs if cdr["disposition"] in ("CONNECTED", "ON_HOLD") and cdr["user_id"]]
    talks_by_call = Counter(cdr["root_live_id"] for cdr in talks)
    roots = [cdr for cdr in cdrs if cdr["is_root"] and cdr["destination"] == "in"]
    unanswered = [cdr for cdr in roots if not talks_by_call[cdr["live_id"]]]
    missed = Counter(cdr["src"] for cdr in unanswered if cdr["context"] == "LOCAL_USER")
    missed_twice = {caller for caller, count in missed.items() if count == 2}
    happened = {
        "a caller hangs up in the queue": any(cdr["context"] == "Queue" for cdr in unanswered),
        "a caller is missed twice": bool(missed_twice),
        "the missed caller is called back": any(
            cdr["destination"] == "out" and cdr["dst"] in missed_twice for cdr in talks
        ),
        "a held call is transferred": any(
            cdr["disposition"] == "ON_HOLD" and talks_by_call[cdr["live_id"]] == 2 for cdr in talks
        ),
        "a message arrives": bool(day.world.collections["voicemessages"].records),
    }
    return {scene for scene, is_found in happened.items() if is_found}


def test_a_generated_call_ends_unanswered_when_its_user_places_a_call(begin_day: Begin):
    day = begin_day(MONDAY_10, is_office_day=False)
    day.generator.stop()
    ada, scripts = day.world.admin, day.world.scripts
    options = CallOptions(user=ada, ring_seconds=10.0, talk_seconds=60.0)
    assert day.traffic.play_generated(scripts.plain_answered(options), MONDAY_10)
    day.run_until(MONDAY_10 + 2)
    day.traffic.play(scripts.click_to_call(CallOptions(user=ada, ring_seconds=3.0, talk_seconds=60.0)))
    day.run_until(MONDAY_10 + 120)
    (inbound, outbound) = sorted(
        day.world.collections["cdrs"].records.values(), key=lambda cdr: cdr["destination"]
    )
    assert (inbound["billsec"], inbound["type"]) == (0, "M")
    assert outbound["billsec"] > 50
