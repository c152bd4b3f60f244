"""Promise P1: no acknowledged event is lost, whatever is killed at whatever moment.

Senders post unique events over 32 connections while worker, supervisor or both are killed with SIGKILL at
random moments and started again. Afterwards every acknowledged event must stand in inbox.db, once, and be
applied. `--seed-bug` runs a receiver that acknowledges before the commit: the trial must find it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.harness import Product, alive, keep_port, wait_for

SENDERS = 32
READY_SECONDS = 5.0
MANY = 100
"""Kills from which on restarts are judged by the promise itself; else by several times that, since others
work beside a short trial."""


@dataclass
class Tally:
    """What the senders and the killer saw."""

    acknowledged: set[str] = field(default_factory=set)
    refused: int = 0
    kills: dict[str, int] = field(default_factory=lambda: {"worker": 0, "supervisor": 0, "both": 0})
    recoveries: list[float] = field(default_factory=list)


SCRIPT = (
    ("call.initial", "INITIAL"),
    ("call.ringing", "RINGING"),
    ("call.connected", "CONNECTED"),
    ("call.hold", "ON_HOLD"),
    ("call.hangup", "HANGUP"),
)


def event(identifier: str, sender: int, number: int) -> bytes:
    """One event of a sender's calls, which have five each."""
    call, step = divmod(number, len(SCRIPT))
    name, state = SCRIPT[step]
    return json.dumps(
        {
            "id": identifier,
            "event_time": f"2026-09-02 08:45:5{step}",
            "event_name": name,
            "call_id": 4_278_000_000 + sender * 1_000_000 + call,
            "state": state,
            "connected_at": "2026-09-02 08:45:52" if step >= 2 else None,
            "start_time": "2026-09-02 08:45:50",
            "context": "LOCAL_USER",
            "destination": "in",
            "src": f"447700900{call % 1000:03d}",
            "src_id": "0",
            "dst": "442079460002",
            "dst_id": "10002",
        }
    ).encode()


def send(port: int, path: str, sender: int, stop: threading.Event, tally: Tally) -> None:
    """Post events one after another over one connection, opened again whenever it breaks."""
    connection = None
    number = -1
    while not stop.is_set():
        number += 1
        identifier = f"s{sender}-{number}"
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("POST", path, event(identifier, sender, number))
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                tally.acknowledged.add(identifier)
            else:
                tally.refused += 1
        except (OSError, http.client.HTTPException):
            connection = None
            stop.wait(0.01)


def kill(product: Product, what: str) -> None:
    worker = product.worker
    victims = {"worker": [worker], "supervisor": [product.pid], "both": [product.pid, worker]}[what]
    for victim in victims:
        if victim is not None:
            # A worker may end as soon as its supervisor has.
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)


def await_new_worker(product: Product, old: int | None) -> None:
    wait_for(lambda: product.worker not in (None, old), "a new worker", 60)
    product.ready()


def run(kills: int, seed: int, program: tuple[str, ...], folder: Path) -> tuple[Tally, list[str]]:
    """The trial. Returns what was seen and a list of complaints, empty when the promise was kept."""
    random_source = random.Random(seed)
    tally, complaints = Tally(), []
    kept = keep_port()
    port = kept.getsockname()[1]
    product = Product(folder, port=port, program=program)
    path = product.webhook_path
    stop = threading.Event()
    senders = [
        threading.Thread(target=send, args=(port, path, number, stop, tally), daemon=True)
        for number in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    pause = threading.Event()
    for _ in range(kills):
        before = len(tally.acknowledged)
        wait_for(lambda before=before: len(tally.acknowledged) > before + 50, "acknowledgements", 120)
        pause.wait(random_source.uniform(0, 0.2))
        what = random_source.choice(["worker", "worker", "supervisor", "both"])
        worker = product.worker
        kill(product, what)
        tally.kills[what] += 1
        began = time.monotonic()
        if what != "worker":
            product.popen.wait(60)
            if worker is not None:
                wait_for(lambda worker=worker: not alive(worker), "the orphaned worker's end", 60)
            product = Product(folder, port=port, program=program)
        else:
            await_new_worker(product, worker)
        tally.recoveries.append(time.monotonic() - began)
    stop.set()
    for sender in senders:
        sender.join(15)
    wait_for(lambda: not unapplied(folder), "every stored event to be applied", 60)
    kept.close()
    if (status := product.stop()) != 0:
        complaints.append(f"serve ended with {status} instead of 0")
    complaints += audit(folder, tally)
    return tally, complaints


def unapplied(folder: Path) -> int:
    connection = sqlite3.connect(f"file:{folder / 'inbox.db'}?mode=ro", uri=True)
    try:
        connection.execute("ATTACH ? AS mirror", (f"file:{folder / 'mirror.db'}?mode=ro",))
        return int(
            connection.execute(
                "SELECT count(*) FROM inbox WHERE seq NOT IN (SELECT seq FROM mirror._applied)"
            ).fetchone()[0]
        )
    finally:
        connection.close()


def audit(folder: Path, tally: Tally) -> list[str]:
    """Compare what was acknowledged with what is on disk."""
    complaints = []
    connection = sqlite3.connect(f"file:{folder / 'inbox.db'}?mode=ro", uri=True)
    stored = [row[0] for row in connection.execute("SELECT event_id FROM inbox")]
    lost = tally.acknowledged - set(stored)
    if lost:
        complaints.append(f"{len(lost)} acknowledged events are lost, e.g. {min(lost)}")
    if len(stored) != len(set(stored)):
        complaints.append(f"{len(stored) - len(set(stored))} events are stored twice")
    failed = connection.execute("SELECT count(*) FROM inbox WHERE status NOT IN ('done', 'new')").fetchone()[
        0
    ]
    if failed:
        complaints.append(f"{failed} events were not applied")
    connection.close()
    for name in ("inbox.db", "mirror.db", "house.db"):
        with sqlite3.connect(folder / name) as connection:
            verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
            if verdict != "ok":
                complaints.append(f"{name}: {verdict}")
    bound = READY_SECONDS * (1 if len(tally.recoveries) >= MANY else 10)
    slow = [seconds for seconds in tally.recoveries if seconds > bound]
    if slow:
        complaints.append(f"{len(slow)} of {len(tally.recoveries)} restarts took over {bound:.0f} s")
    return complaints


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seed-bug", action="store_true", help="acknowledge before the commit")
    options = parser.parse_args(arguments)
    program = ("-m", "tests.trials.tools.seeded_bug") if options.seed_bug else ("app.py",)
    with tempfile.TemporaryDirectory(prefix="switchroom-crash-") as folder:
        tally, complaints = run(options.kills, options.seed, program, Path(folder) / "data")
    print(
        f"crash: {sum(tally.kills.values())} kills {tally.kills}, {len(tally.acknowledged)} acknowledged, "
        f"{tally.refused} refused, slowest restart {max(tally.recoveries, default=0):.1f} s"
    )
    for complaint in complaints:
        print(f"crash: {complaint}")
    if options.seed_bug:
        found = any("lost" in complaint for complaint in complaints)
        print("crash: the seeded bug was " + ("found" if found else "NOT found"))
        return 0 if found else 1
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
