"""Trial of the order of webhooks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from unittest import mock

from integration.core import clock
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.plan import list_full_sync_policies
from tests.support.harness import wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import count_complete, open_database
from tests.trials.tools.traffic import Deliveries
from tests.trials.trial import Trial, until

SENDERS = 8
BATCHES = 40
"""Each batch is applied before the next is sent, because events applied together have no order."""
MAX_ORDERS = 900
"""Orders of one product: each is from a caller of its own."""
FIRST_ORDER = 100
ID_STEP = 1_000_000
"""Difference between the ids of two copies of a call."""
AGE = 7200.0
"""Seconds since the calls, after which no timer of theirs is due."""

SCRIPTS: tuple[tuple[str, CallOptions], ...] = (
    ("ring_group_answered", CallOptions(has_hold=True, talk_seconds=40)),
    ("ring_group_missed", CallOptions(ring_seconds=9)),
    ("transfer", CallOptions(talk_seconds=60)),
    ("hunt_answered", CallOptions(has_hold=False, talk_seconds=30)),
    ("queue_abandoned", CallOptions(ring_seconds=8)),
    ("queue_answered", CallOptions(has_hold=True, talk_seconds=40)),
    ("plain_answered", CallOptions(has_hold=True, talk_seconds=30)),
    ("voicemail", CallOptions(variant="leg")),
    ("click_to_call", CallOptions(variant="two", has_hold=True, talk_seconds=30)),
)
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Script:
    """A recorded call: events, ids of legs, number of the caller."""

    name: str
    events: list[dict[str, Any]]
    legs: frozenset[int]
    caller: str

    def copy(self, number: int) -> list[bytes]:
        """Return the webhooks of copy `number`, from another caller, in their order."""
        return [json.dumps(self._shift(event, number)).encode() for event in self.events]

    def _shift(self, event: dict[str, Any], number: int) -> dict[str, Any]:
        moved: dict[str, Any] = json.loads(json.dumps(event).replace(self.caller, get_caller(number)))
        for name in ("call_id", "root_call_id"):
            if name in moved:
                moved[name] += number * ID_STEP
        return {**moved, "id": f"{event['id'].rpartition('.')[0]}.{number:08d}"}

    def list_legs(self, number: int) -> set[int]:
        return {leg + number * ID_STEP for leg in self.legs}


def get_caller(number: int) -> str:
    return f"447700900{number % 1000:03d}"


class Order(Trial):
    """Webhooks in any order lead to the same final state.

    Disturbed: complete calls (ring group, hunt, queue, hold, transfer, missed legs, mailbox, click-to-call,
    in both dialects) are sent in order, then as calls of other callers with their events shuffled, some
    twice.
    Checked: state, legs and call-back list of each copy equal those of the call that was sent in order.
    Detects: events that are dropped because they arrive after the end of their leg.
    """

    name = "order"
    size_option, size = "--orders", 500
    bugs, symptoms = ("drop_events_after_end",), ("of copy",)
    short = ("--orders 60", "--orders 20 --seed-bug")
    long = LongForm(
        promises=("P4",),
        rounds=("--orders 100",) * 5,
        minutes=10,
        remains="every order of seven events in process: `tests/mirror/calls/test_any_order.py`",
        expectation="the same call in order; by hand: `tests/mirror/calls/scripts`",
    )

    def boot(self) -> None:
        self.random, self.posts = random.Random(self.options.seed), 0

    def disturb(self) -> None:
        begun, left = time.monotonic(), self.options.size
        while left > 0:
            self._try_orders(min(MAX_ORDERS, left))
            left -= MAX_ORDERS
        self.sums = {
            "orders": self.options.size,
            "posts": self.posts,
            "with another final state": len(self.failures),
        }
        self.figures.append(
            f"{self.options.size} orders of {2 * len(SCRIPTS)} calls, {self.posts} posts in "
            f"{time.monotonic() - begun:.0f} s"
        )

    def _try_orders(self, orders: int) -> None:
        """Compare `orders` orders, in a product of their own."""
        with self.embed_simulator(0) as simulator:
            scripts = _record_scripts(simulator)
            self.product = self.start_product(self.make_folder(), simulator, dashboard__country="GB")
            total = len(list_full_sync_policies())
            wait_for(lambda: count_complete(self.product.data_dir) >= total, "the initial sync", 240)
        in_order = dict(enumerate(scripts, 1))
        self._post([body for number, script in in_order.items() for body in script.copy(number)], senders=1)
        numbers = range(FIRST_ORDER, FIRST_ORDER + orders)
        shuffled = {number: scripts[number % len(scripts)] for number in numbers}
        bodies: list[bytes] = []
        for number, script in shuffled.items():
            events = script.copy(number)
            bodies += events + self.random.sample(events, number % 3)
        self.random.shuffle(bodies)
        size = -(-len(bodies) // BATCHES)
        for begin in range(0, len(bodies), size):
            self._post(bodies[begin : begin + size], SENDERS)
        self.posts += len(bodies)
        self._compare(in_order, shuffled)
        self.stop_product(self.product)

    def _compare(self, in_order: dict[int, Script], shuffled: dict[int, Script]) -> None:
        def read_expected() -> dict[str, dict[str, Rows]]:
            return {script.name: self._read_state(script, number) for number, script in in_order.items()}

        until(lambda: not any(self._find_differences(shuffled, read_expected())), 3 if self.is_seeded else 15)
        expected = read_expected()
        for difference in self._find_differences(shuffled, expected):
            self.verify(False, difference)
        outcomes = {row["outcome"] for state in expected.values() for row in state["calls"]}
        self.verify(
            {"answered", "missed"} <= outcomes, f"calls were answered and missed, not only {outcomes}"
        )
        self.verify(any(state["callbacks"] for state in expected.values()), "calls are in the call-back list")

    def _post(self, bodies: list[bytes], senders: int) -> None:
        path = self.product.webhook_path
        sent = Deliveries(self.product.port, path, [("", body) for body in bodies], count=senders)
        sent.wait()
        self.verify(set(sent.statuses) == {200}, f"webhooks get 200, not {dict(sent.statuses)}")
        self.verify_applied(self.product.data_dir)

    def _find_differences(
        self, copies: dict[int, Script], expected: dict[str, dict[str, Rows]]
    ) -> Iterator[str]:
        for number, script in copies.items():
            found = self._read_state(script, number)
            for table, rows in expected[script.name].items():
                if found[table] != rows:
                    difference = _describe_difference(rows, found[table])
                    yield f"{script.name}: {table} of copy {number}: {difference}"

    def _read_state(self, script: Script, number: int) -> dict[str, Rows]:
        """Return what is stored of copy `number`, in terms of the script."""
        folder, legs = self.product.data_dir, ",".join(map(str, script.list_legs(number)))
        calls = f"SELECT DISTINCT call_id FROM _legs WHERE leg_id IN ({legs})"
        queries = {
            "calls": f"SELECT * FROM _calls WHERE id IN ({calls}) ORDER BY id",
            "legs": f"SELECT * FROM _legs WHERE call_id IN ({calls}) ORDER BY leg_id",
            "ids": f"SELECT * FROM _call_ids WHERE call_id IN ({calls}) ORDER BY id",
        }
        with closing(open_database(folder / "mirror.db")) as mirror:
            found = {name: mirror.execute(sql).fetchall() for name, sql in queries.items()}
        with closing(open_database(folder / "house.db")) as app_db:
            sql = "SELECT * FROM callbacks WHERE party LIKE '%' || ? ORDER BY opened_at"
            found["callbacks"] = app_db.execute(sql, (get_caller(number),)).fetchall()
        return {name: [_restore(dict(row), script, number) for row in rows] for name, rows in found.items()}


def _restore(row: dict[str, Any], script: Script, number: int) -> dict[str, Any]:
    """Return a row with the ids and the caller of the script."""
    legs, caller = script.list_legs(number), get_caller(number)
    # Both depend on the time at which the call was first known.
    for name in ("change_no", "is_past"):
        row.pop(name, None)
    if "attempts" in row:  # An item of the call-back list, whose id depends on the order.
        row.pop("id")
    for name, value in row.items():
        if isinstance(value, int) and value in legs:
            row[name] = value - number * ID_STEP
        elif isinstance(value, str):
            row[name] = value.replace(caller, script.caller).replace(caller[2:], script.caller[2:])
    return row


def _describe_difference(expected: Rows, found: Rows) -> str:
    if len(expected) != len(found):
        return f"{len(found)} rows instead of {len(expected)}"
    pairs = zip(expected, found, strict=True)
    return ", ".join(
        f"{name} is {b[name]!r} instead of {a[name]!r}" for a, b in pairs for name in a if a[name] != b[name]
    )


def _record_scripts(simulator: embed.Simulator) -> list[Script]:
    """Play calls that happened two hours ago, in both dialects."""
    world, scripts, unix = simulator.world, [], clock.unix
    world.collections["contacts"].records.clear()  # No caller may have a name.

    def read_earlier() -> float:
        return unix() - AGE

    with mock.patch.object(clock, "unix", read_earlier):
        for documented in (False, True):
            for number, (name, options) in enumerate(SCRIPTS):
                options.caller = f"44207946{number + 20:04d}"
                plan = world.scripts.by_name[name](options)
                plan.uses_documented_events = documented
                made = simulator.context.traffic.play_instantly(plan)
                events = [event for event in made.events if event["event_name"].startswith("call.")]
                label = f"{name}, {'documented' if documented else 'observed'}"
                scripts.append(Script(label, events, frozenset(made.leg_ids), options.caller))
    return scripts
