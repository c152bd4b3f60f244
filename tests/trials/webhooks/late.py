"""Trial of CDRs and recordings that the platform lists late."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from integration.core import clock
from integration.mirror.sync_state import lookup_queue
from integration.simulator.calls.legs import CallOptions
from tests.trials.long_form import LongForm
from tests.trials.trial import Trial

HOUR = 3600.0
SOON, LATER = 120.0, 900.0
"""Seconds to attach a record that is listed within an hour of the call's end, and one listed later."""
MAX_LOOKUPS = 12
STEP = 20.0
SHORT, LONG, SEEDED = (0, 100, 1000, 3300, 4000, 5500), tuple(range(0, 7201, 300)), (5500,)
"""Seconds from the end of a call until a record of it is listed."""
LONG_CALL = 4 * HOUR
COUNT_COLUMNS = {"cdrs": "cdrs", "monitors": "recordings"}


@dataclass
class Record:
    """A record that the platform lists at `due_at` (Unix seconds)."""

    what: str
    collection: str
    values: dict[str, Any]
    ended_at: float
    due_at: float
    listed_at: float | None = None
    attached_at: float | None = None

    @property
    def limit(self) -> float:
        return SOON if self.due_at - self.ended_at < HOUR else LATER


class Late(Trial):
    """Late records are attached to their calls; calls without are marked.

    Disturbed: records are listed 0 s to 2 h after the end of a call, in the order of their ids and long
    after records with higher ids, of short calls and of one of four hours; a second CDR after the first.
    Checked: within the first hour records are attached within 2 min, later within 15 min, with at most
    twelve lookups for each call; a call without records is shown as such after a day.
    Detects: recent records that are not read again.
    """

    name = "late"
    bugs, symptoms = ("skip_refresh",), ("is attached within",)
    long = LongForm(
        promises=("P9",),
        rounds=("--all-delays",),
        minutes=5,
        remains="the clock is moved",
        expectation="simulator: its records at that time; hand-written exchanges: trial `exchanges`",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all-delays", action="store_true", help="a record every five minutes")

    def boot(self) -> None:
        self.product, self.simulator = self.cleanup.enter_context(self.run_simulated_product(20))

    def load(self) -> None:
        self.delays = SEEDED if self.is_seeded else LONG if self.options.all_delays else SHORT
        self.simulator.context.faults.add("webhook-drop@monitor.audio_ready")
        self.records, self.legs = list[Record](), list[int]()
        for delay in self.delays:
            for way in ("in order", "out of order", "of a long call", "as second"):
                if way != "as second" or delay:
                    self._add_call(delay, way)
        self.silent_leg = self._play_call(30.0)[0]
        self.verify(self.simulator.context.webhook_sender.wait_until_idle(60), "every webhook is sent")
        self.product.settle()

    def _add_call(self, delay: float, way: str) -> None:
        """Add an ended call, whose records are listed after `delay` seconds."""
        leg, kept = self._play_call(LONG_CALL if way == "of a long call" else 30.0)
        self.legs.append(leg)
        now = clock.unix()
        for collection, values in kept:
            if way == "as second" and collection == "cdrs":
                self._list(collection, dict(values))
                values = {
                    **values,
                    "id": self.simulator.world.new_id(collection),
                    "duration": 7,
                    "billsec": 0,
                }
            if way == "in order":
                values = {**values, "id": None}
            self.records.append(Record(f"{collection} {way}", collection, values, now, now + delay))

    def _play_call(self, talk: float) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
        """Play a recorded call.

        Returns its leg and its records, which are not listed.
        """
        world = self.simulator.world
        with world.lock:
            plan = world.scripts.plain_answered(CallOptions(talk_seconds=talk, has_hold=False))
            plan.legs[0].is_recorded = True
            made = self.simulator.context.traffic.play_instantly(plan).result
            kept = [("cdrs", world.collections["cdrs"].records.pop(key)) for key in made.cdr_ids]
            kept += [("monitors", world.collections["monitors"].records.pop(key)) for key in made.monitor_ids]
        return plan.legs[0].id, kept

    def _list(self, collection: str, values: dict[str, Any]) -> None:
        with self.simulator.world.lock:
            self.simulator.world.collections[collection].add(values)

    def disturb(self) -> None:
        waiting = sorted(self.records, key=lambda one: one.due_at)
        deadline = clock.unix() + self.delays[-1] + LATER + SOON
        while any(one.attached_at is None for one in self.records) and clock.unix() < deadline:
            while waiting and waiting[0].due_at <= clock.unix():
                one = waiting.pop(0)
                if one.values["id"] is None:
                    one.values["id"] = self.simulator.world.new_id(one.collection)
                self._list(one.collection, one.values)
                one.listed_at = clock.unix()
            self.product.advance(STEP)
            for one in self.records:
                if one.listed_at is not None and one.attached_at is None and self._is_attached(one):
                    one.attached_at = clock.unix()

    def _is_attached(self, one: Record) -> bool:
        """Whether the record is stored, and its call counts it."""
        sql = (
            f"SELECT 1 FROM {one.collection} AS r JOIN _legs AS l ON l.leg_id = r.live_id"
            f" JOIN _calls AS c ON c.id = l.call_id WHERE r.id = ? AND c.{COUNT_COLUMNS[one.collection]} >="
            f" (SELECT count(*) FROM {one.collection} WHERE live_id = r.live_id)"
        )
        return bool(self.product.query(sql, one.values["id"]))

    def check(self) -> None:
        worst: Counter[str] = Counter()
        for one in self.records:
            took = (one.attached_at or clock.unix()) - (one.listed_at or 0)
            when = "in the first hour" if one.limit == SOON else "later"
            worst[when] = max(worst[when], round(took))
            result = f"after {took:.0f} s" if one.attached_at else "not at all"
            delay = one.due_at - one.ended_at
            # The mirror is compared once a step.
            self.verify(
                one.attached_at is not None and took <= one.limit + STEP,
                f"{one.what} listed {delay:.0f} s after the end is attached "
                f"within {one.limit:.0f} s, not {result}",
            )
        if not self.is_seeded:
            self._check_silent_call()
        lookups = self._count_lookups()
        most = max(lookups[leg] for leg in [*self.legs, self.silent_leg])
        self.verify(most <= MAX_LOOKUPS, f"there are at most {MAX_LOOKUPS} lookups of a call, not {most}")
        times = ", ".join(f"{seconds} s {when}" for when, seconds in worst.items())
        self.figures.append(
            f"{len(self.records)} records attached, at most {times}; {most} lookups of a call"
        )

    def _check_silent_call(self) -> None:
        """Check that a call without records is marked after a day."""
        for _ in range(12):
            self.product.advance(2 * HOUR)
        with self.product.mirror_db.read() as connection:
            marked = lookup_queue.list_unresolved_calls(connection, 0.0)
        self.verify(
            marked == [self.silent_leg], f"the call without a CDR is marked after a day, not {marked}"
        )
        for path in (f"/calls/{self.silent_leg}", "/system"):
            self.verify(
                "phone system has no record of" in self.product.get_page(path),
                f"{path} shows the call without a CDR",
            )

    def _count_lookups(self) -> Counter[int]:
        """Number of requests for CDRs of each leg."""
        lookups: Counter[int] = Counter()
        for entry in list(self.simulator.context.request_log):
            if entry["path"] == "/cdrs":
                lookups.update(_parse_legs(entry["query"]))
        return lookups


def _parse_legs(query: str) -> Iterator[int]:
    for condition in json.loads(parse_qs(query).get("filter", ["[]"])[0]):
        if condition["property"] == "live_id":
            value = condition["value"]
            yield from value if isinstance(value, list) else [value]
