"""Trial of outgoing webhooks."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import threading
from collections import Counter
from contextlib import closing
from itertools import pairwise
from typing import Any

from tests.support.harness import keep_port, wait_for
from tests.trials.tools.databases import query_rows
from tests.trials.trial import (
    NO_TRAFFIC,
    Trial,
    await_new_worker,
    await_sync,
    kill_all_processes,
    kill_worker,
)

SCRIPTS = ("plain_answered", "ring_group_answered", "ring_group_missed")
SEEDED_PAUSE_SECONDS = 6.0
"""Seconds without a receiver, so that the planted bug loses all events of a call."""
CALLS_BETWEEN_KILLS = 5


class Events(Trial):
    """A receiver gets the end of each call at least once and in order, also after kills.

    Disturbed: SIGKILL of the worker, of all processes of the product and of the receiver at random moments,
    while calls happen. Once mirror.db is replaced by a copy without the last commits.
    Checked: the receiver, which stores each event before its response, has each call of the simulator with
    its end; within an epoch the numbers of the events never decrease; each signature is valid.
    Detects: a cursor that is stored before the response.
    """

    name = "events"
    size_option, size = "--kills", 50
    bugs, symptoms = ("store_cursor_early",), ("the receiver has the end of each call",)
    plants = ("retry_events_soon",)
    short = ("--kills 6", "--kills 3 --seed-bug")
    promises = ("P32",)
    long = ("--kills 50",)

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        self.kills: Counter[str] = Counter()
        self.legs: list[int] = []
        self.stopping = threading.Event()
        self.file = self.folder / "received.jsonl"
        self.file.touch()
        self.simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", "100")
        self.product = self.start_product(
            self.data_dir,
            self.simulator,
            outgoing__allow_hosts="127.0.0.1",
            sync__recent_interval="2",
            sync__live_interval="2",
        )
        await_sync(self.product, "cdrs")
        kept = self.cleanup.enter_context(keep_port())
        self.port = kept.getsockname()[1]
        added = self.product.command(
            *("events", "add", "trial", f"http://127.0.0.1:{self.port}/", "--kinds"),
            "call.ringing,call.answered,call.ended,call.updated",
        )
        self.secret = added.stdout.strip()
        self._start_receiver()
        self.simulator.control("POST", "webhook", {"url": f"{self.product.url}{self.product.webhook_path}"})

    def _start_receiver(self) -> None:
        module = "tests.trials.tools.event_receiver"
        self.receiver = self.start_process(
            sys.executable, "-m", module, str(self.port), self.secret, str(self.file)
        )
        self.receiver.line("Listening")

    def load(self) -> None:
        caller = threading.Thread(target=self._call, daemon=True)
        caller.start()
        self.cleanup.callback(caller.join, 30)
        self.cleanup.callback(self.stopping.set)

    def _call(self) -> None:
        while not self.stopping.wait(0.1):
            script = SCRIPTS[len(self.legs) % len(SCRIPTS)]
            call = self.simulator.control("POST", "calls", {"script": script, "instant": True})
            self.legs += call["leg_ids"]

    def disturb(self) -> None:
        pause = threading.Event()
        for number in range(self.options.size):
            made = len(self.legs)
            wait_for(lambda made=made: len(self.legs) >= made + CALLS_BETWEEN_KILLS, "calls", 120)
            pause.wait(self.random.uniform(0, 1))
            if number == self.options.size // 2:
                self._lose_commits()
            else:
                victims = ["receiver"] if self.is_seeded else ["worker", "product", "receiver", "receiver"]
                self._kill(self.random.choice(victims))
        self.stopping.set()

    def _kill(self, what: str) -> None:
        self.kills[what] += 1
        if what == "receiver":
            self.receiver.kill()
            if self.is_seeded:
                threading.Event().wait(SEEDED_PAUSE_SECONDS)
            self._start_receiver()
        elif what == "worker":
            await_new_worker(self.product, kill_worker(self.product))
        else:
            kill_all_processes(self.product)
            self.product.start()

    def _lose_commits(self) -> None:
        """Replace mirror.db by a copy that was made some calls before."""
        self.kills["product, and commits lost"] += 1
        older = self.folder / "older.db"
        path = self.data_dir / "mirror.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source:
            with closing(sqlite3.connect(older)) as copy:
                source.backup(copy)
        made = len(self.legs)
        wait_for(lambda: len(self.legs) >= made + CALLS_BETWEEN_KILLS, "calls after the copy", 120)
        kill_all_processes(self.product)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"mirror.db{suffix}").unlink(missing_ok=True)
        older.rename(path)
        self.product.start()

    def check(self) -> None:
        self.verify_applied(self.data_dir, 120)
        self.verify_soon(
            lambda: not self._list_missing(),
            lambda: f"the receiver has the end of each call, not of {self._list_missing()[:5]}",
            20 if self.is_seeded else 120,
        )
        events = self._read_events()
        numbers: dict[str, list[int]] = {}
        for event in events:
            epoch, _, number = event["id"].partition("-")
            # Numbers of calls after a gap are negative.
            if not number.startswith("-"):
                numbers.setdefault(epoch, []).append(int(number))
        unordered = [pair for epoch in numbers.values() for pair in pairwise(epoch) if pair[0] > pair[1]]
        self.verify(not unordered, f"events arrive in order, not {unordered[:3]}")
        gaps = sum(event["type"] == "gap" for event in events)
        self.verify(gaps == 1 or self.is_seeded, f"one gap is sent for the lost commits, not {gaps}")
        different = len({event["id"] for event in events})
        self.figures.append(
            f"kills {dict(self.kills)}, {len(self.list_calls())} calls, {different} events,"
            f" {len(events) - different} received again"
        )

    def list_calls(self) -> set[int]:
        """Return the ids of the calls of all legs that the simulator reported."""
        sql = "SELECT DISTINCT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))"
        rows = query_rows(self.data_dir / "mirror.db", sql, json.dumps(self.legs))
        return {row[0] for row in rows}

    def _list_missing(self) -> list[int]:
        sql = "SELECT leg_id FROM _legs"
        known = {row[0] for row in query_rows(self.data_dir / "mirror.db", sql)}
        ended = {
            event["data"]["id"]
            for event in self._read_events()
            if event["type"].startswith("call.") and event["data"].get("state") == "ended"
        }
        return sorted({leg for leg in self.legs if leg not in known} | (self.list_calls() - ended))

    def _read_events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]
