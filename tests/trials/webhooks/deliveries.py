"""Trial of webhooks in any order, any number of times, with any id."""

from __future__ import annotations

import json
import operator
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from integration.core import clock
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.plan import list_full_sync_policies
from tests.support.harness import Product, wait_for
from tests.trials.tools import databases
from tests.trials.tools.databases import query_number, query_rows
from tests.trials.tools.traffic import STEPS, Posts, Response, create_access, make_event
from tests.trials.trial import Trial, await_new_worker, kill_worker, until

SENDERS = 16
BATCHES = 20
"""Each batch is applied before the next is sent, because events applied together have no order."""
MAX_COPIES = 20
EXPORT = "/exports/call-history.csv"
AGE = 7200.0
"""Seconds since the calls, after which no timer of theirs is due."""
SCRIPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ring_group_answered", {"has_hold": True, "talk_seconds": 40}),
    ("ring_group_missed", {"ring_seconds": 9}),
    ("transfer", {"talk_seconds": 60}),
    ("hunt_answered", {"has_hold": False, "talk_seconds": 30}),
    ("queue_abandoned", {"ring_seconds": 8}),
    ("queue_answered", {"has_hold": True, "talk_seconds": 40}),
    ("plain_answered", {"has_hold": True, "talk_seconds": 30}),
    ("voicemail", {"variant": "leg"}),
    ("click_to_call", {"variant": "two", "has_hold": True, "talk_seconds": 30}),
)
MISSING = object()
"""In place of an id: the event has none."""
UNUSUAL: tuple[object, ...] = (
    7, "7", 7.0, 0, -1, 2**63, 2**64, 10**40, 1.5, 1e300, "", " ", None, True, False, "x" * 10_000,
    "ä" * 5_000, "\ud800", "\x00", "a\nb", "' OR 1=1", [1], {"a": 1}, MISSING,
)  # fmt: skip
PAIRS = 20
"""Pairs of events with one id."""
FLAGGED = "SELECT count(*) FROM inbox WHERE flagged = 1 AND event_id LIKE 'pair%'"
CALLBACKS = (
    "SELECT party, opened_at, last_at, attempts, last_call_id, reason, state, closed_at FROM callbacks"
)
PAIR_SENDER = 700


class Deliveries(Trial):
    """Webhooks may arrive in any order, any number of times, with any id.

    Disturbed: the events of complete calls (ring group, hunt, queue, hold, transfer, missed legs, mailbox,
    click-to-call, in both dialects), each call of another caller, are shuffled, and each is delivered 1 to
    20 times by 16 senders, with a kill of the worker and a restart in between. Some ids are numbers,
    fractions, beyond 64 bits, empty, null, very long or missing; some are shared by two events, the
    beginning and the end of a call.
    Checked: no delivery gets another 5xx than 503; each body is stored once, with the number of its
    deliveries; the second of two events with one id is flagged; calls, call-back list and export equal those
    of a second product that received each event once, in order.
    Detects: deliveries that are not counted; a second body that is not stored; an id whose type is assumed;
    events that are dropped because they arrive after the end of their leg.
    """

    name = "deliveries"
    size_option, size = "--calls", 500
    bugs = (
        "ignore_repeated_deliveries",
        "keep_first_body",
        "fail_on_numeric_ids",
        "drop_events_after_end",
    )
    symptoms = (
        "deliveries are counted",
        "every body is stored once",
        "deliveries get 200",
        "_legs of scripts is as",
    )
    short = ("--calls 60", "--calls 18 --seed-bug")
    promises = ("P3", "P4", "P5", "P6")
    long = ("--calls 500",) * 3

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        # The CDRs of the calls are in another account, with the same users and groups.
        events = record_events(self.embed_simulator(0), self.options.size)
        bodies = [json.dumps(event).encode() for event in events]
        bodies += [body for number in range(PAIRS) for body in _make_pair(number)]
        bodies += [_make_unusual(number, identifier) for number, identifier in enumerate(UNUSUAL)]
        self.bodies = dict(enumerate(bodies))
        self.simulator = self.embed_simulator(0)
        self.product, self.cookie = self._start(self.data_dir)
        self.other, self.other_cookie = self._start(self.folder / "once", program=("app.py",))

    def _start(self, data_dir: Path, **settings: Any) -> tuple[Product, Mapping[str, str]]:
        access = create_access(data_dir)
        product = self.start_product(data_dir, self.simulator, dashboard__country="GB", **settings)
        total = len(list_full_sync_policies())
        wait_for(lambda: databases.count_complete(data_dir) >= total, "the initial sync", 240)
        return product, access.dashboard

    def disturb(self) -> None:
        copies = [number for number in self.bodies for _ in range(self.random.randint(1, MAX_COPIES))]
        self.random.shuffle(copies)
        self.responses: list[Response] = []
        size = -(-len(copies) // BATCHES)
        for batch, begin in enumerate(range(0, len(copies), size)):
            sent = self._send(self.product, copies[begin : begin + size], SENDERS)
            if batch == BATCHES // 3:
                await_new_worker(self.product, kill_worker(self.product))
            if batch == BATCHES // 2:
                port = self.product.port
                self.stop_product(self.product)
                self.product = self.start_product(
                    self.data_dir, self.simulator, dashboard__country="GB", port=port
                )
            sent.wait()
            self.responses += sent.responses
            self.verify_applied(self.data_dir)
        self.figures.append(f"{len(copies)} deliveries of {len(self.bodies)} events")
        self._send(self.other, self.bodies, 1).wait()
        self.verify_applied(self.other.data_dir)

    def _send(self, product: Product, numbers: Iterable[int], senders: int) -> Posts:
        bodies = [(str(number), self.bodies[number]) for number in numbers]
        return Posts(product.port, product.webhook_path, bodies, count=senders)

    def check(self) -> None:
        self._check_inbox()
        statuses = Counter(response.status for response in self.responses)
        self.verify(set(statuses) <= {0, 200, 503}, f"deliveries get 200 or 503, not {dict(statuses)}")

        def read_both() -> list[dict[str, set[Any]]]:
            return [
                self._read_state(self.product, self.cookie),
                self._read_state(self.other, self.other_cookie),
            ]

        # The call-back list follows the calls.
        until(lambda: operator.eq(*read_both()), 3 if self.is_seeded else 60)
        state, expected = read_both()
        for name, rows in state.items():
            differing = rows ^ expected[name]
            of_pairs = set(filter(_is_of_pair, differing))
            for what, found in (("scripts", differing - of_pairs), ("pairs", of_pairs)):
                is_same = f"{name} of {what} is as after single deliveries"
                self.verify(not found, f"{is_same}; {len(found)} rows differ: {list(found)[:2]}")
        outcomes = {
            row[0] for row in query_rows(self.other.data_dir / "mirror.db", "SELECT outcome FROM _calls")
        }
        self.verify({"answered", "missed"} <= outcomes, f"there are all kinds of calls, not only {outcomes}")
        self.verify(len(expected["call-back list"]) > 1, "calls are in the call-back list")
        self.verify(len(expected["export"]) > 10, "there are calls to export")

    def _read_state(self, product: Product, cookie: Mapping[str, str]) -> dict[str, set[Any]]:
        """Return the rows of everything that is computed from the events."""
        return {
            **databases.read_calls(product.data_dir),
            "call-back list": set(query_rows(product.data_dir / "house.db", CALLBACKS)),
            "export": set(product.client.send("GET", EXPORT, headers=cookie)[1].splitlines()),
        }

    def _check_inbox(self) -> None:
        """Check the stored bodies, and how often each was delivered.

        A delivery whose response was lost may be counted or not.
        """
        inbox = self.data_dir / "inbox.db"
        rows = query_rows(inbox, "SELECT body, deliveries FROM inbox")
        found = {bytes(body): deliveries for body, deliveries in rows}
        missing = [body for body in self.bodies.values() if body not in found]
        self.verify(
            not missing and len(found) == len(rows) == len(self.bodies),
            f"every body is stored once; {len(missing)} are missing, such as {missing[:1]!r:.200}",
        )
        flagged = query_number(inbox, FLAGGED)
        self.verify(flagged == PAIRS, f"the second of {PAIRS} pairs is flagged, not of {flagged}")
        done, lost = Counter[str](), Counter[str]()
        for response in self.responses:
            (done if response.status == 200 else lost)[response.what] += 1
        wrong = [
            number
            for number, body in self.bodies.items()
            if not done[str(number)] <= found.get(body, 0) <= done[str(number)] + lost[str(number)]
        ]
        self.verify(not wrong, f"deliveries are counted, except of {len(wrong)} events, such as {wrong[:1]}")


def record_events(simulator: embed.Simulator, calls: int) -> list[dict[str, Any]]:
    """Play calls that happened two hours ago, in both dialects. Returns their webhooks."""
    world, events, unix = simulator.world, list[dict[str, Any]](), clock.unix
    world.collections["contacts"].records.clear()  # No caller may have a name.

    def read_earlier() -> float:
        return unix() - AGE

    with mock.patch.object(clock, "unix", read_earlier):
        for number in range(calls):
            name, options = SCRIPTS[number % len(SCRIPTS)]
            plan = world.scripts.by_name[name](CallOptions(**options, caller=f"4477009{number + 10_000:05d}"))
            plan.uses_documented_events = number // len(SCRIPTS) % 2 == 1
            events += simulator.context.traffic.play_instantly(plan).events
    return [event for event in events if event["event_name"].startswith("call.")]


def _make_pair(number: int) -> tuple[bytes, bytes]:
    """Beginning and end of a call, with one id."""
    first = len(STEPS) * number
    last = first + len(STEPS) - 1
    return make_event(f"pair{number}", PAIR_SENDER, first), make_event(f"pair{number}", PAIR_SENDER, last)


def _is_of_pair(row: Iterable[object]) -> bool:
    first, _ = _make_pair(0)
    begin = json.loads(first)["call_id"]
    return any(isinstance(value, int) and begin <= value < begin + PAIRS for value in row)


def _make_unusual(number: int, identifier: object) -> bytes:
    """The end of a call of its own, with this id."""
    event = json.loads(make_event("", 500, len(STEPS) * (number + 1) - 1))
    del event["id"]
    return json.dumps(event if identifier is MISSING else {**event, "id": identifier}).encode()
