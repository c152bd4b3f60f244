"""Months of calls, recordings, voice messages and SMS before the simulator started.

Weekdays are busy, evenings and weekends quiet. Most people who were missed are called back or get through
later, so that a call-back list made from this history has a handful of open items.
"""

from __future__ import annotations

import heapq
import math
import random
from datetime import UTC, datetime

from integration.simulator.calls.legs import Plan, Wish
from integration.simulator.calls.player import Player, recorded
from integration.simulator.calls.webcalls import note
from integration.simulator.records import chats, notes, numbers, widgets, words
from integration.simulator.records import faxes as papers
from integration.simulator.world import World

DAY = 86400
DEFAULT_CDRS = 20_000
# CDRs an average day yields with the shares below; decides how far back a history of n CDRs reaches.
_CDRS_PER_DAY = 80.0
_CALLS_PER_WEEK = 392
_RECORDINGS_KEPT_DAYS = 45
_OPEN_DAYS = 6

_WEEK = (1.18, 1.1, 1.08, 1.1, 0.98, 0.28, 0.08)
_HOURS = (0, 0, 0, 0, 0, 0, 0.1, 0.6, 3, 6, 7.5, 6.5, 4, 5, 7, 6.5, 5, 3, 1.2, 0.6, 0.3, 0.1, 0, 0)

_SHARES = {
    "plain_answered": 24,
    "plain_missed": 4,
    "ring_group_answered": 9,
    "ring_group_missed": 2,
    "hunt_answered": 4,
    "queue_answered": 5,
    "queue_abandoned": 1.5,
    "transfer": 3,
    "voicemail": 1.3,
    "click_to_call": 5,
    "outbound": 28,
    "outbound_missed": 5,
    "internal": 8,
}
MISSED_SCRIPTS = frozenset({"plain_missed", "ring_group_missed", "queue_abandoned", "voicemail"})


def seed_history(world: World, cdrs: int = DEFAULT_CDRS) -> None:
    """Fill `world` with about `cdrs` CDRs (a little more than fewer) and what belongs to them."""
    if not cdrs:
        return
    days = _days(world, cdrs)
    rng = random.Random(f"history {world.seed}")
    player = Player(world, history=True)
    ends: list[tuple[float, int, Plan]] = []
    planned = _starts(world, rng, days)
    planned += _web_starts(world, days, len(planned), cdrs)
    heapq.heapify(planned)
    number = len(planned)
    while planned:
        start, _, script, wish = heapq.heappop(planned)
        plan = world.scripts.by_name[script](wish)
        if script == "web_call" and start + plan.length < world.start:
            note(world, plan, start)
        for step in plan.steps:
            player.step(plan, step, start + step.at)
        end = start + plan.length
        if end >= world.start:
            continue
        ends.append((end, plan.legs[0].id, plan))
        if plan.script in MISSED_SCRIPTS and plan.party:
            follow_up = _follow_up(rng, plan, end, recent=end > world.start - _OPEN_DAYS * DAY)
            if follow_up is not None and follow_up[0] < world.start - 60:
                number += 1
                heapq.heappush(planned, (follow_up[0], number, *follow_up[1:]))
    world.live.clear()
    ends.sort(key=lambda entry: entry[:2])
    _file(world, player, ends)
    _messages(world, player, rng, days, round(cdrs / 25))
    _papers_and_chats(world, days)
    notes.seed(world)


def _days(world: World, cdrs: int) -> int:
    """How many days before the last yield so many CDRs: behind a Monday's morning lies a weekend."""
    days, expected = 0, 0.0
    while days < max(2, math.ceil(cdrs / _CDRS_PER_DAY)) or expected < cdrs:
        days += 1
        weekday = datetime.fromtimestamp(world.start - days * DAY, UTC).weekday()
        expected += _CDRS_PER_DAY * 7 / sum(_WEEK) * _WEEK[weekday]
    return days


def _starts(world: World, rng: random.Random, days: int) -> list[tuple[float, int, str, Wish]]:
    """Starts of calls nobody else causes: (time, number, script, wish)."""
    scripts, weights = list(_SHARES), list(_SHARES.values())
    midnight = world.start - world.start % DAY
    found: list[tuple[float, int, str, Wish]] = []
    for day in range(days, -1, -1):
        at = midnight - day * DAY
        weekday = datetime.fromtimestamp(at, UTC).weekday()
        expected = _CALLS_PER_WEEK / sum(_WEEK) * _WEEK[weekday]
        for _ in range(max(1, round(rng.gauss(expected, math.sqrt(expected) * 0.8)))):
            start = at + rng.choices(range(24), weights=_HOURS)[0] * 3600 + rng.random() * 3600
            if at + DAY > world.start and start > world.start - 120:
                continue
            script = rng.choices(scripts, weights=weights)[0]
            own_leg = script == "voicemail" and rng.random() < 0.25
            found.append((start, len(found), script, Wish(form="leg" if own_leg else None)))
    return found


def _web_starts(world: World, days: int, number: int, cdrs: int) -> list[tuple[float, int, str, Wish]]:
    """Web calls and calls back to visitors of the website, in office hours."""
    rng = random.Random(f"web history {world.seed}")
    scripts = ["web_call"] * max(2, cdrs // 400) + ["call_me_back"] * max(2, cdrs // 250)
    found = []
    for n, script in enumerate(scripts):
        start = _office_hour(world, rng, days)
        phone = widgets.visitor_phone(rng)
        found.append((start, number + n, script, Wish(caller=phone, answered=rng.random() < 0.8)))
    return found


def _office_hour(world: World, rng: random.Random, days: int) -> float:
    """Some moment of the last `days`, not in the last hour and a half."""
    midnight = world.start - world.start % DAY
    at = midnight - rng.randrange(days) * DAY + rng.choices(range(24), weights=_HOURS)[0] * 3600
    at += rng.random() * 3600
    return at - DAY if at > world.start - 5400 else at


def _papers_and_chats(world: World, days: int) -> None:
    rng = random.Random(f"papers {world.seed}")
    people = [person for person in world.account.people if person.online]
    for at in sorted(_office_hour(world, rng, days) for _ in range(max(4, days // 3))):
        papers.fax(world, rng, at)
    for at in sorted(_office_hour(world, rng, days) for _ in range(max(6, days // 2))):
        chats.chat(world, rng, rng.choice(people), at)


def _follow_up(rng: random.Random, plan: Plan, end: float, *, recent: bool) -> tuple[float, str, Wish] | None:
    """How a missed party is reached in the end: mostly called back, sometimes it rings again, or not.

    In recent days more of them still wait, as at a business that works through its list.
    """
    draw = rng.random() + (0.4 if recent else 0.0)
    wait = 120 + rng.expovariate(1 / 3600.0)
    if draw < 0.62:
        return end + wait, "outbound", Wish(caller=plan.party, talk=30 + rng.random() * 300)
    if draw < 0.70:
        return end + wait, "outbound_missed", Wish(caller=plan.party)
    if draw < 0.86:
        return end + wait, rng.choice(("plain_answered", "ring_group_answered")), Wish(caller=plan.party)
    return None


def _file(world: World, player: Player, ends: list[tuple[float, int, Plan]]) -> None:
    kept_from = world.start - _RECORDINGS_KEPT_DAYS * DAY
    legs = sorted(
        ((leg.ended, leg.id, plan, leg) for _, _, plan in ends for leg in plan.legs if leg.ended is not None),
        key=lambda entry: entry[:2],
    )
    for ended, _, plan, leg in legs:
        player.file_cdr(plan, leg)
        if leg.connected is not None and recorded(leg) and ended >= kept_from:
            player.file_recording(leg, ended)
        if plan.message is not None and plan.message.leg is leg:
            message = player.file_message(plan)
            if message is not None and ended < world.start - 3 * DAY:
                message["is_new"], message["folder"] = False, 2


def _messages(world: World, player: Player, rng: random.Random, days: int, count: int) -> None:
    """SMS in pairs: somebody asks, somebody of ours answers some minutes later."""
    lines = [line for line in world.account.lines if line.sms]
    people = [person for person in world.account.people if person.online]
    partners = [c["mobile"] for c in world.account.contacts if c["mobile"]][:30]
    partners += [numbers.mobile(rng.randrange(700, 1000)) for _ in range(15)]
    todo = []
    for _ in range(count // 2):
        at = world.start - rng.random() * days * DAY
        at += (rng.choices(range(24), weights=_HOURS)[0] - at % DAY / 3600) * 3600 + rng.random() * 3599
        if at > world.start - 900:
            at -= DAY
        partner, line, person = rng.choice(partners), rng.choice(lines), rng.choice(people)
        question, answer = words.sms_pair(rng)
        todo.append((at, True, partner, line.e164, question, person))
        todo.append((at + 60 + rng.random() * 700, False, partner, line.e164, answer, person))
    for at, inbound, partner, own, text, person in sorted(todo, key=lambda entry: entry[:3]):
        if inbound:
            player.receive_sms(partner, own, text, person if rng.random() < 0.8 else None, at)
        else:
            player.send_sms(person, own, partner, text, at)
