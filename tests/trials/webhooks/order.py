"""Promise P4: in whatever order a call's webhooks arrive, one final state.

Whole calls – ring group, hunt, queue, hold, transfer, missed legs, mailbox, click-to-call, in both dialects –
are told to the receiver of a running product: once in the order in which they happened, then again and again
as another caller's, the events of all tellings shuffled together, some of them twice. Calls, legs and the
call-back list must be those of the first telling.

    python -m tests.trials order [--orders N]     500 orders
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from integration.core import clock
from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions
from integration.sync.plan import list_full_sync_policies
from tests.support.harness import Product
from tests.trials.sync.platform import Report, until
from tests.trials.webhooks.crash import unapplied

SENDERS = 8
CALLERS = 900
"""Orders of one round: so many callers there are, and no caller may be two calls'."""
HANDFULS = 40
"""Each is applied before the next is told: what is applied together has no order."""
STEP = 1_000_000
"""By so much the ids of one telling are beyond those of the one before."""
AGO = 7200.0
"""Seconds since the calls: nothing about them is still due."""

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

SEEDED = """
from integration.mirror.calls import store
keep = store._store_event
def final(tx, event):
    row = tx.execute("SELECT state FROM _legs WHERE leg_id = ?", (event.leg_id,)).fetchone()
    return False if row and row[0] == "ENDED" else keep(tx, event)
store._store_event = final
import runpy, sys
sys.argv[0] = "app.py"
runpy.run_path("app.py", run_name="__main__")
"""
"""What comes after a leg's end is thrown away."""


@dataclass(frozen=True, slots=True)
class Script:
    """A call as it was told once: `legs` its ids, `caller` whose number becomes another's in each telling."""

    name: str
    events: list[dict[str, Any]]
    legs: frozenset[int]
    caller: str

    def told(self, number: int) -> list[bytes]:
        """The webhooks of telling `number`, in the order in which they happened."""
        return [json.dumps(self._shift(event, number)).encode() for event in self.events]

    def _shift(self, event: dict[str, Any], number: int) -> dict[str, Any]:
        text = json.dumps(event).replace(self.caller, caller(number))
        moved: dict[str, Any] = json.loads(text)
        for name in ("call_id", "root_call_id"):
            if name in moved:
                moved[name] += number * STEP
        return {**moved, "id": f"{event['id'].rpartition('.')[0]}.{number:08d}"}


def caller(number: int) -> str:
    return f"447700900{number % 1000:03d}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials order", description=__doc__)
    parser.add_argument("--orders", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seed-bug", action="store_true", help="run with a planted bug; it must be found")
    options = parser.parse_args(arguments)
    report, begun, posts, left = Report("order"), time.monotonic(), 0, options.orders
    rng = random.Random(options.seed)
    while left > 0:
        posts += _round(min(CALLERS, left), options, rng, report)
        left -= CALLERS
    about = (
        f"{options.orders} orders of {2 * len(SCRIPTS)} calls, {posts} posts in "
        f"{time.monotonic() - begun:.0f} s"
    )
    found = bool(report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _round(orders: int, options: argparse.Namespace, rng: random.Random, report: Report) -> int:
    """So many orders told to a product of their own; returns how many posts that took."""
    simulator = embed.start(seed=options.seed, cdrs=0)
    try:
        scripts = _scripts(simulator)
        with tempfile.TemporaryDirectory(prefix="switchroom-order-") as folder:
            product = Product(
                Path(folder),
                base_url=simulator.url,
                user_id=str(simulator.admin.id),
                api_key=simulator.admin.api_key,
                program=("-c", SEEDED) if options.seed_bug else ("app.py",),
                dashboard__country="GB",
            )
            try:
                # People and groups are known; of the calls nobody but the webhooks tells.
                report.check(until(lambda: _read_all(product.data_dir)), "everything is read once")
                simulator.stop()
                return _tell(scripts, orders, product, rng, report, 3 if options.seed_bug else 15)
            finally:
                product.stop(30)
    finally:
        simulator.stop()


def _scripts(simulator: embed.Simulator) -> list[Script]:
    """Calls that happened two hours ago, in both dialects."""
    world, found, unix = simulator.world, [], clock.unix
    world.collections["contacts"].records.clear()  # Of two callers none may have a name.
    clock.unix = lambda: unix() - AGO
    try:
        for documented in (False, True):
            for number, (name, wish) in enumerate(SCRIPTS):
                wish.caller = f"44207946{number + 20:04d}"
                plan = world.scripts.by_name[name](wish)
                plan.uses_documented_events = documented
                made = simulator.context.traffic.play_instantly(plan).result
                told = [event for event in made.events if event["event_name"].startswith("call.")]
                label = f"{name}, {'documented' if documented else 'observed'}"
                found.append(Script(label, told, frozenset(made.leg_ids), wish.caller))
    finally:
        clock.unix = unix
    return found


def _tell(
    scripts: Sequence[Script],
    orders: int,
    product: Product,
    rng: random.Random,
    report: Report,
    patience: float,
) -> int:
    plain = dict(enumerate(scripts, 1))
    _post(product, [body for number, script in plain.items() for body in script.told(number)], senders=1)
    shuffled = {number: scripts[number % len(scripts)] for number in range(100, 100 + orders)}
    bodies: list[bytes] = []
    for number, script in shuffled.items():
        told = script.told(number)
        bodies += told + rng.sample(told, number % 3)
    rng.shuffle(bodies)
    folder, handful = product.data_dir, -(-len(bodies) // HANDFULS)
    for begin in range(0, len(bodies), handful):
        _post(product, bodies[begin : begin + handful], SENDERS)
        report.check(until(lambda: unapplied(folder) == 0), "every webhook is applied")

    def told_once() -> dict[str, dict[str, Any]]:
        return {script.name: _state(folder, script, number) for number, script in plain.items()}

    until(lambda: not any(_differing(folder, shuffled, told_once())), patience)
    wanted = told_once()
    for name, wrong in _differing(folder, shuffled, wanted):
        report.check(False, f"{name}: {wrong}")
    outcomes = {row["outcome"] for state in wanted.values() for row in state["calls"]}
    report.check({"answered", "missed"} <= outcomes, f"calls were answered and missed, not only {outcomes}")
    report.check(any(state["callbacks"] for state in wanted.values()), "some are to be called back")
    return len(bodies)


def _post(product: Product, bodies: Sequence[bytes], senders: int) -> None:
    path, failures = product.webhook_path, list[str]()
    waiting: SimpleQueue[bytes] = SimpleQueue()
    for body in bodies:
        waiting.put(body)

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=30)
        while True:
            try:
                body = waiting.get_nowait()
            except Empty:
                connection.close()
                return
            connection.request("POST", path, body)
            answer = connection.getresponse()
            if answer.read() and answer.status != 200:
                failures.append(str(answer.status))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    if failures:
        raise RuntimeError(f"webhooks were not taken: {failures[:5]}")


def _differing(
    folder: Path, told: dict[int, Script], wanted: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    for number, script in told.items():
        found = _state(folder, script, number)
        for table, rows in wanted[script.name].items():
            if found[table] != rows:
                yield script.name, f"{table} of telling {number}: {_first_difference(rows, found[table])}"


def _first_difference(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> str:
    if len(wanted) != len(found):
        return f"{len(found)} rows instead of {len(wanted)}"
    pairs = zip(wanted, found, strict=True)
    return ", ".join(
        f"{name} is {b[name]!r} instead of {a[name]!r}" for a, b in pairs for name in a if a[name] != b[name]
    )


def _state(folder: Path, script: Script, number: int) -> dict[str, Any]:
    """All that is known of telling `number`, in the ids and numbers of the script."""
    legs = ",".join(str(leg + number * STEP) for leg in script.legs)
    calls = f"SELECT DISTINCT call_id FROM _legs WHERE leg_id IN ({legs})"
    with closing(_open(folder / "mirror.db")) as mirror:
        found = {
            "calls": mirror.execute(f"SELECT * FROM _calls WHERE id IN ({calls}) ORDER BY id").fetchall(),
            "legs": mirror.execute(
                f"SELECT * FROM _legs WHERE call_id IN ({calls}) ORDER BY leg_id"
            ).fetchall(),
            "ids": mirror.execute(
                f"SELECT * FROM _call_ids WHERE call_id IN ({calls}) ORDER BY id"
            ).fetchall(),
        }
    with closing(_open(folder / "house.db")) as app_db:
        found["callbacks"] = app_db.execute(
            "SELECT * FROM callbacks WHERE party LIKE '%' || ? ORDER BY opened_at", (caller(number),)
        ).fetchall()
    return {name: [_plain(row, script, number) for row in rows] for name, rows in found.items()}


def _plain(row: sqlite3.Row, script: Script, number: int) -> dict[str, Any]:
    ids = {leg + number * STEP for leg in script.legs}
    values: dict[str, Any] = {}
    for name in row.keys():  # noqa: SIM118  a row iterates over its values
        value = row[name]
        if isinstance(value, int) and value in ids:
            value -= number * STEP
        elif isinstance(value, str):
            value = value.replace(caller(number), script.caller).replace(
                caller(number)[2:], script.caller[2:]
            )
        values[name] = value
    for name in ("change_no", "id") if "attempts" in values else ("change_no",):
        values.pop(name, None)
    return values


def _read_all(folder: Path) -> bool:
    with closing(_open(folder / "mirror.db")) as mirror:
        read = mirror.execute("SELECT count(*) FROM _walks WHERE complete_at > ''").fetchone()[0]
    return int(read) >= len(list_full_sync_policies())


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    connection.row_factory = sqlite3.Row
    return connection
