"""Promise P3: the platform delivers an event as often as it likes.

Events of whole calls are posted 1 to 20 times each, shuffled, by 16 senders, with a kill -9 and a restart on
the way. In the end each stands in the inbox once with the number of its deliveries; calls and their export
are those of a second product that was told each event once, in order.

    python -m tests.trials duplicates [--events N]          1,000 events
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tests.support.harness import Product, wait_for
from tests.trials.sync.platform import Report
from tests.trials.tools.traffic import PLANTED, furnish, look, told
from tests.trials.webhooks.crash import SCRIPT, await_new_worker, event, unapplied

SENDERS = 16
MOST_COPIES = 20
EXPORT = "/exports/call-history.csv"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials duplicates")
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seed-bug", action="store_true", help="do not know a copy")
    options = parser.parse_args(arguments)
    report, rng = Report("duplicates"), random.Random(options.seed)
    bodies = {
        f"d{number}": event(f"d{number}", 0, number)
        for number in range(options.events - options.events % len(SCRIPT))
    }
    copies = {identifier: rng.randint(1, MOST_COPIES) for identifier in bodies}
    deliveries = [identifier for identifier, count in copies.items() for _ in range(count)]
    rng.shuffle(deliveries)
    program = (*PLANTED, "forgetful") if options.seed_bug else ("app.py",)
    with tempfile.TemporaryDirectory(prefix="switchroom-duplicates-") as folder:
        often = _told_often(Path(folder) / "often", program, bodies, deliveries, report)
        once = _told_once(Path(folder) / "once", bodies)
        _same(Path(folder), often, once, report)
    found = any("deliveries" in promise for promise in report.broken)
    about = f"{len(deliveries)} deliveries of {len(bodies)} events are {len(bodies)} events"
    return report.end(about) if not options.seed_bug else int(not found)


def _told_often(
    folder: Path,
    program: tuple[str, ...],
    bodies: Mapping[str, bytes],
    deliveries: Sequence[str],
    report: Report,
) -> bytes:
    """Returns the export. Deliveries that a kill broke off were counted or not: both are right."""
    visitor = furnish(folder)
    product = Product(folder, program=program)
    queue, answers = _Deliveries(deliveries), _Answers()
    senders = [
        threading.Thread(target=_send, args=(product, bodies, queue, answers), daemon=True)
        for _ in range(SENDERS)
    ]
    try:
        for sender in senders:
            sender.start()
        wait_for(lambda: queue.left < len(deliveries) * 2 // 3, "a third of the deliveries", 300)
        worker = product.worker
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        await_new_worker(product, worker)
        wait_for(lambda: queue.left < len(deliveries) // 3, "two thirds of the deliveries", 300)
        status = product.stop(30)
        report.check(status == 0, f"it stops well amid deliveries, not with {status}")
        product = Product(folder, port=product.port, program=program)
        for sender in senders:
            sender.join(300)
        wait_for(lambda: not unapplied(folder), "every event to be applied", 120)
        export = product.client.ask("GET", EXPORT, headers=visitor.dashboard)[1]
    finally:
        product.stop(30)
    with closing(look(folder / "inbox.db")) as connection:
        rows = Counter(dict(connection.execute("SELECT event_id, count(*) FROM inbox GROUP BY 1")))
        counted = dict(connection.execute("SELECT event_id, sum(deliveries) FROM inbox GROUP BY 1"))
    report.check(
        set(rows) == set(bodies) and set(rows.values()) == {1},
        f"every event is there once; {len(bodies) - len(rows)} are missing, "
        f"{sum(count > 1 for count in rows.values())} there again",
    )
    wrong = [
        identifier
        for identifier in bodies
        if not answers.ok[identifier]
        <= counted[identifier]
        <= answers.ok[identifier] + answers.cut[identifier]
    ]
    report.check(not wrong, f"deliveries are counted; not so those of {len(wrong)}, such as {wrong[:1]}")
    report.check(
        set(answers.statuses) <= {200, 503}, f"every delivery is answered 200, not {dict(answers.statuses)}"
    )
    return export


def _told_once(folder: Path, bodies: Mapping[str, bytes]) -> bytes:
    visitor = furnish(folder)
    product = Product(folder)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=30)
        for body in bodies.values():
            connection.request("POST", product.webhook_path, body)
            connection.getresponse().read()
        connection.close()
        wait_for(lambda: not unapplied(folder), "every event to be applied", 120)
        return product.client.ask("GET", EXPORT, headers=visitor.dashboard)[1]
    finally:
        product.stop(30)


def _same(folder: Path, often: bytes, once: bytes, report: Report) -> None:
    first, second = told(folder / "often"), told(folder / "once")
    for table in first:
        strange = first[table] ^ second[table]
        report.check(not strange, f"{table} is as if each event had come once; {len(strange)} rows differ")
    report.check(once.count(b"\n") > 10, f"there is something to export, not {once[:100]!r}")
    report.check(often == once, "the export is as if each event had come once")


class _Deliveries:
    """What is still to be delivered, for many senders. One that broke off is delivered again."""

    def __init__(self, deliveries: Sequence[str]) -> None:
        self._todo = list(deliveries)
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        return len(self._todo)

    def next(self) -> str | None:
        with self._lock:
            return self._todo.pop() if self._todo else None


class _Answers:
    """For each event, how many deliveries were acknowledged, and how many broke off."""

    def __init__(self) -> None:
        self.ok: Counter[str] = Counter()
        self.cut: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.lock = threading.Lock()

    def note(self, identifier: str, status: int | None) -> None:
        with self.lock:
            if status == 200:
                self.ok[identifier] += 1
            else:
                self.cut[identifier] += 1
            if status is not None:
                self.statuses[status] += 1


def _send(product: Product, bodies: Mapping[str, bytes], queue: _Deliveries, answers: _Answers) -> None:
    connection: http.client.HTTPConnection | None = None
    pause = threading.Event()
    while (identifier := queue.next()) is not None:
        while True:
            status = None
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", product.port, timeout=30)
                connection.request("POST", product.webhook_path, bodies[identifier])
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                connection = None
                pause.wait(0.05)
            answers.note(identifier, status)
            if status == 200:
                break
