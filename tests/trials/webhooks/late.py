"""Promise P9: CDRs and recordings that come late are attached, however late; a call without any is marked.

Calls end, told by webhooks; their records are listed by the platform after 0 s to 2 h, in the order of their
ids or long after records with higher ones, of short calls and of one that took four hours, a second CDR
later than the first. Attached they are within two minutes in the first hour, within fifteen later, with at
most twelve look-ups a call. Where nothing comes within a day, the call says so. Hours are moved through.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from integration.core import clock
from integration.mirror.sync_state import lookup_queue
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.reading import incremental_sync
from tests.trials.sync.platform import Report, friday_evening
from tests.trials.tools.moved_clock import Office, Time, office

HOUR = 3600.0
SOON, LATER = 120.0, 900.0
"""Seconds to attach a record that is listed within an hour of the call's end, and one listed later."""
MOST = 12
STEP = 20.0
SHORT, LONG, SEEDED = (0, 100, 1000, 3300, 4000, 5500), tuple(range(0, 7201, 300)), (5500,)
"""Seconds from the end of a call until a record of it is listed."""
WHOLE = 4 * HOUR


@dataclass
class Record:
    """A record the platform keeps back until `at` (Unix seconds)."""

    what: str
    collection: str
    record: dict[str, Any]
    ended: float
    at: float
    listed: float | None = None
    attached: float | None = None

    @property
    def limit(self) -> float:
        return SOON if self.at - self.ended < HOUR else LATER


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials late")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="a record every five minutes")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    options = parser.parse_args(arguments)
    report, reread = Report("late"), incremental_sync.refresh_recent
    if options.seed_bug:
        # What was listed behind records with higher ids is found by reading again alone.
        incremental_sync.refresh_recent = lambda context, policy, days, tally=None: tally
    try:
        with Time() as moved, tempfile.TemporaryDirectory(prefix="switchroom-late-") as folder:
            simulator = embed.start(seed=options.seed, cdrs=20, start_at=friday_evening())
            try:
                with office(simulator, Path(folder), moved) as made:
                    about = _trial(made, simulator, options, report)
            finally:
                simulator.stop()
    finally:
        incremental_sync.refresh_recent = reread
    found = bool(report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _trial(made: Office, simulator: embed.Simulator, options: argparse.Namespace, report: Report) -> str:
    lags = SEEDED if options.seed_bug else LONG if options.long else SHORT
    records, legs = _calls(simulator, lags)
    silent = _silent(simulator)
    report.check(simulator.context.webhook_sender.wait_until_idle(60), "every webhook is sent")
    made.settle()
    waiting = sorted(records, key=lambda one: one.at)
    deadline = clock.unix() + lags[-1] + LATER + SOON
    while any(one.attached is None for one in records) and clock.unix() < deadline:
        _list_due(simulator, waiting)
        made.pass_(STEP)
        for one in records:
            if one.listed is not None and one.attached is None and _attached(made, one):
                one.attached = clock.unix()
    worst: Counter[str] = Counter()
    for one in records:
        took = (one.attached or clock.unix()) - (one.listed or 0)
        when = "the first hour" if one.limit == SOON else "later"
        worst[when] = max(worst[when], round(took))
        lag = one.at - one.ended
        said = f"after {took:.0f} s" if one.attached else "not at all"
        # By as much as a step lasts nobody looked.
        report.check(
            one.attached is not None and took <= one.limit + STEP,
            f"{one.what} listed {lag:.0f} s after the end is attached within {one.limit:.0f} s, not {said}",
        )
    if not options.seed_bug:
        _nothing(made, silent, report)
    asked = _asked(simulator)
    most = max(asked[leg] for leg in [*legs, silent])
    report.check(most <= MOST, f"at most {MOST} look-ups of a call, not {most}")
    times = ", ".join(f"{when} {seconds} s" for when, seconds in worst.items())
    return f"{len(records)} records attached, at worst {times}; at most {most} look-ups of a call"


# --- the platform's side -----------------------------------------------------------------------------------


def _calls(simulator: embed.Simulator, lags: tuple[int, ...]) -> tuple[list[Record], list[int]]:
    """A call for each lag and way of being late, all ending now; records by when they will be listed."""
    simulator.context.faults.add("webhook-drop@monitor.audio_ready")
    records, legs = list[Record](), list[int]()
    for lag in lags:
        for way in ("in order", "out of order", "of a long call", "as second"):
            if way == "as second" and lag == 0:
                continue
            leg, kept = _call(simulator, WHOLE if way == "of a long call" else 30.0)
            legs.append(leg)
            now = clock.unix()
            for collection, record in kept:
                if way == "as second" and collection == "cdrs":
                    _add(simulator, collection, dict(record))
                    record = {**record, "id": simulator.world.new_id(collection), "duration": 7, "billsec": 0}
                if way == "in order":
                    record = {**record, "id": None}
                records.append(Record(f"{collection} {way}", collection, record, now, now + lag))
    return records, legs


def _call(simulator: embed.Simulator, talk: float) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """A recorded call that has just ended: its leg, and its records, which are not listed."""
    world = simulator.world
    with world.lock:
        plan = world.scripts.plain_answered(CallOptions(talk_seconds=talk, has_hold=False))
        plan.legs[0].is_recorded = True
        made = simulator.context.traffic.play_instantly(plan).result
        kept = [("cdrs", world.collections["cdrs"].records.pop(key)) for key in made.cdr_ids]
        kept += [("monitors", world.collections["monitors"].records.pop(key)) for key in made.monitor_ids]
    return plan.legs[0].id, kept


def _silent(simulator: embed.Simulator) -> int:
    """A call that no record will ever tell of."""
    return _call(simulator, 30.0)[0]


def _list_due(simulator: embed.Simulator, waiting: list[Record]) -> None:
    while waiting and waiting[0].at <= clock.unix():
        one = waiting.pop(0)
        if one.record["id"] is None:
            one.record["id"] = simulator.world.new_id(one.collection)
        _add(simulator, one.collection, one.record)
        one.listed = clock.unix()


def _add(simulator: embed.Simulator, collection: str, record: dict[str, Any]) -> None:
    with simulator.world.lock:
        simulator.world.collections[collection].add(record)


def _asked(simulator: embed.Simulator) -> Counter[int]:
    """How often CDRs of a leg were asked for by its id."""
    asked: Counter[int] = Counter()
    for entry in list(simulator.context.request_log):
        if entry["path"] == "/cdrs":
            asked.update(_legs_in(entry["query"]))
    return asked


def _legs_in(query: str) -> Iterator[int]:
    for condition in json.loads(parse_qs(query).get("filter", ["[]"])[0]):
        if condition["property"] == "live_id":
            value = condition["value"]
            yield from value if isinstance(value, list) else [value]


# --- ours --------------------------------------------------------------------------------------------------


def _attached(made: Office, one: Record) -> bool:
    """The record is here, and its call counts it."""
    column = {"cdrs": "cdrs", "monitors": "recordings"}[one.collection]
    return bool(
        made.rows(
            f"SELECT 1 FROM {one.collection} AS r JOIN _legs AS l ON l.leg_id = r.live_id"
            f" JOIN _calls AS c ON c.id = l.call_id WHERE r.id = ? AND c.{column} >="
            f" (SELECT count(*) FROM {one.collection} WHERE live_id = r.live_id)",
            one.record["id"],
        )
    )


def _nothing(made: Office, leg: int, report: Report) -> None:
    """A day after its end it is known that nothing will be learnt, and people see it."""
    for _ in range(12):
        made.pass_(2 * HOUR)
    with made.mirror_db.read() as connection:
        marked = lookup_queue.list_unresolved_calls(connection, 0.0)
    report.check(marked == [leg], f"a call without a CDR is marked after a day: {marked}")
    browser = made.login()
    page = browser.get(f"{made.origin}/calls/{leg}").text
    report.check("no record of it" in page, "its page says so")
    page = browser.get(f"{made.origin}/system").text
    report.check("no record of it" in page, "System says so")
