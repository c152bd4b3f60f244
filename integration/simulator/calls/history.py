"""Seeded history: months of calls, recordings, voicemail and SMS before the start.

Weekdays are busy, evenings and weekends quiet. Most missed parties are called back or reach a user later, so
that the call-back list of this history has only a few open items. A call starts later if one of its users
would be on two calls at once.
"""

from __future__ import annotations

import heapq
import math
import random
from datetime import timedelta

from integration.simulator.calls.legs import CallOptions, CallPlan
from integration.simulator.calls.occupancy import Occupancy
from integration.simulator.calls.player import Player, is_leg_recorded
from integration.simulator.calls.records import add_webcall
from integration.simulator.calls.world import World
from integration.simulator.records import activity, numbers

DAY = 86400
DEFAULT_CDRS = 20_000
# Determines how many days a history of n CDRs covers.
_CDRS_PER_CALL = 80 / 56
_RECORDING_DAYS = 45
_BUSY_RECORDING_DAYS = 6
"""Days of a busy account with recordings. More would need gigabytes in the archive of a demo."""
_RECENT_DAYS = 6
"""Days before the start whose missed calls have fewer follow-ups."""
_BUSY_RECENT_DAYS = 0.2
_BUSY_FOLLOW_UP_RANGE = 0.65
"""Highest draw of a follow-up in a busy account, so that nearly every older missed call is called back."""

SCRIPT_WEIGHTS = {
    "plain_answered": (24, 22),
    "plain_missed": (4, 6),
    "ring_group_answered": (9, 14),
    "ring_group_missed": (2, 4),
    "hunt_answered": (4, 5),
    "queue_answered": (5, 8),
    "queue_abandoned": (1.5, 3),
    "transfer": (3, 6),
    "voicemail": (1.3, 4),
    "click_to_call": (5, 6),
    "outbound": (28, 14),
    "outbound_missed": (5, 3),
    "internal": (8, 5),
}
"""Frequency of scripts in a history or an office day, and in frequent live traffic."""
MISSED_SCRIPTS = frozenset({"plain_missed", "ring_group_missed", "queue_abandoned", "voicemail"})


def seed_history(world: World, cdrs: int = DEFAULT_CDRS) -> None:
    """Fill `world` with at least about `cdrs` CDRs and their related records."""
    if not cdrs:
        return
    days = _count_days(world, cdrs)
    rng = random.Random(f"history {world.seed}")
    player = Player(world)
    occupancy = Occupancy()
    ended_calls: list[tuple[float, int, CallPlan]] = []
    planned_calls = _plan_call_starts(world, rng, days)
    planned_calls += _plan_web_call_starts(world, days, len(planned_calls), cdrs)
    heapq.heapify(planned_calls)
    number = len(planned_calls)
    while planned_calls:
        planned_start, _, script, options = heapq.heappop(planned_calls)
        plan = world.scripts.by_name[script](options)
        start = occupancy.find_start(plan, planned_start)
        occupancy.book(plan, start, planned_start)
        if script == "web_call" and start + plan.duration < world.start:
            add_webcall(world, plan, start)
        for step in plan.steps:
            player.apply_step(plan, step, start + step.offset)
        end = start + plan.duration
        if end >= world.start:
            continue
        ended_calls.append((end, plan.legs[0].id, plan))
        if plan.script in MISSED_SCRIPTS and plan.outside_party:
            follow_up = _plan_follow_up(world, rng, plan, end)
            if follow_up is not None and follow_up[0] < world.start - 60:
                number += 1
                heapq.heappush(planned_calls, (follow_up[0], number, *follow_up[1:]))
    world.live_legs.clear()
    ended_calls.sort(key=lambda entry: entry[:2])
    _store_records(world, player, ended_calls)
    _add_sms(world, player, rng, days, round(cdrs / 25))
    _add_faxes_and_chats(world, days)
    activity.seed_notes(world)


def _count_days(world: World, cdrs: int) -> int:
    """Count the days before the start that yield `cdrs` CDRs.

    Weekend days yield fewer.
    """
    hours, today = world.office_hours, world.office_hours.find_day(world.start)
    mean_cdrs = _CDRS_PER_CALL * hours.calls_per_week / 7
    days, expected_cdrs = 0, 0.0
    while days < max(2, math.ceil(cdrs / mean_cdrs)) or expected_cdrs < cdrs:
        days += 1
        expected_cdrs += _CDRS_PER_CALL * hours.expect_calls(today - timedelta(days))
    return days


def _plan_call_starts(
    world: World, rng: random.Random, days: int
) -> list[tuple[float, int, str, CallOptions]]:
    """Plan calls that are not follow-ups, as (Unix time, number, script, options)."""
    scripts, weights = list(SCRIPT_WEIGHTS), [weight for weight, _ in SCRIPT_WEIGHTS.values()]
    today = world.office_hours.find_day(world.start)
    starts: list[tuple[float, int, str, CallOptions]] = []
    for days_before in range(days, -1, -1):
        day = today - timedelta(days_before)
        expected_calls = world.office_hours.expect_calls(day)
        for _ in range(max(1, round(rng.gauss(expected_calls, math.sqrt(expected_calls) * 0.8)))):
            start = world.office_hours.choose_time(rng, day)
            if start > world.start - 120:
                continue
            script = rng.choices(scripts, weights=weights)[0]
            uses_own_leg = script == "voicemail" and rng.random() < 0.25
            starts.append((start, len(starts), script, CallOptions(variant="leg" if uses_own_leg else None)))
    return starts


def _plan_web_call_starts(
    world: World, days: int, number: int, cdrs: int
) -> list[tuple[float, int, str, CallOptions]]:
    """Plan web calls and call-me-back calls in office hours, like `_plan_call_starts`."""
    rng = random.Random(f"web history {world.seed}")
    scripts = ["web_call"] * max(2, cdrs // 400) + ["call_me_back"] * max(2, cdrs // 250)
    starts = []
    for n, script in enumerate(scripts):
        start = _choose_office_time(world, rng, days)
        phone = activity.choose_visitor_phone(rng)
        starts.append((start, number + n, script, CallOptions(caller=phone, is_answered=rng.random() < 0.8)))
    return starts


def _choose_office_time(world: World, rng: random.Random, days: int) -> float:
    """Choose a Unix time in office hours of the last `days`.

    The time is at least 90 min before the start.
    """
    day = world.office_hours.find_day(world.start) - timedelta(rng.randrange(days))
    unix_time = world.office_hours.choose_time(rng, day)
    return unix_time - DAY if unix_time > world.start - 5400 else unix_time


def _add_faxes_and_chats(world: World, days: int) -> None:
    rng = random.Random(f"papers {world.seed}")
    people = world.online_people
    for unix_time in sorted(_choose_office_time(world, rng, days) for _ in range(max(4, days // 3))):
        activity.add_fax(world, rng, unix_time)
    for unix_time in sorted(_choose_office_time(world, rng, days) for _ in range(max(6, days // 2))):
        activity.add_chat(world, rng, rng.choice(people), unix_time)


def _plan_follow_up(
    world: World, rng: random.Random, plan: CallPlan, end: float
) -> tuple[float, str, CallOptions] | None:
    """Plan the follow-up of a missed call, if any.

    A follow-up is a call-back or another call of the party. Recent missed calls have fewer follow-ups, so
    that the call-back list has open items. In a busy account older ones are called back, or the list would be
    long.
    """
    is_busy = world.office_hours.is_busy
    draw = rng.random() * (_BUSY_FOLLOW_UP_RANGE if is_busy else 1.0)
    if end > world.start - (_BUSY_RECENT_DAYS if is_busy else _RECENT_DAYS) * DAY:
        draw += 0.4
    start, party = end + 120 + rng.expovariate(1 / 3600.0), plan.outside_party
    if draw < 0.62:
        return start, "outbound", CallOptions(caller=party, talk_seconds=30 + rng.random() * 300)
    if draw < 0.70:
        return start, "outbound_missed", CallOptions(caller=party)
    if draw < 0.86:
        return start, rng.choice(("plain_answered", "ring_group_answered")), CallOptions(caller=party)
    return None


def _store_records(world: World, player: Player, ended_calls: list[tuple[float, int, CallPlan]]) -> None:
    recording_days = _BUSY_RECORDING_DAYS if world.office_hours.is_busy else _RECORDING_DAYS
    kept_from = world.start - recording_days * DAY
    legs = [
        (leg.ended_at, leg.id, plan, leg)
        for _, _, plan in ended_calls
        for leg in plan.legs
        if leg.ended_at is not None
    ]
    for ended, _, plan, leg in sorted(legs, key=lambda entry: entry[:2]):
        player.store_cdr(plan, leg)
        if leg.connected_at is not None and is_leg_recorded(leg) and ended >= kept_from:
            player.store_recording(leg, ended)
        if plan.message is not None and plan.message.leg is leg:
            message = player.store_voicemail(plan)
            if message is not None and ended < world.start - 3 * DAY:
                message["is_new"], message["folder"] = False, 2


def _add_sms(world: World, player: Player, rng: random.Random, days: int, count: int) -> None:
    """Add `count` SMS in pairs.

    A pair is a question from outside and a user's reply 1 to 13 min later.
    """
    ddis = [ddi for ddi in world.ddis if ddi["sms_enabled"]]
    people = world.online_people
    partners = [c["mobile"] for c in world.collections["contacts"].records.values() if c["mobile"]][:30]
    partners += [numbers.make_mobile_number(rng.randrange(700, 1000)) for _ in range(15)]
    planned_messages = []
    for _ in range(count // 2):
        unix_time = world.start - rng.random() * days * DAY
        unix_time = world.office_hours.choose_time(rng, world.office_hours.find_day(unix_time))
        if unix_time > world.start - 900:
            unix_time -= DAY
        partner, ddi, person = rng.choice(partners), rng.choice(ddis), rng.choice(people)
        question, answer = activity.choose_sms_pair(rng)
        replied_at = unix_time + 60 + rng.random() * 700
        planned_messages.append((unix_time, True, partner, ddi["e164"], question, person))
        planned_messages.append((replied_at, False, partner, ddi["e164"], answer, person))
    planned_messages.sort(key=lambda entry: entry[:3])
    for unix_time, inbound, partner, own_number, text, person in planned_messages:
        if inbound:
            player.receive_sms(partner, own_number, text, person if rng.random() < 0.8 else None, unix_time)
        else:
            player.send_sms(person, own_number, partner, text, unix_time)
