"""Trial of text back."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

from integration.core import clock
from tests.support.harness import wait_for
from tests.trials.tools.databases import query_number, query_rows
from tests.trials.trial import (
    NO_TRAFFIC,
    Trial,
    await_new_worker,
    await_sync,
    kill_all_processes,
    kill_worker,
)

TEXT = "Sorry we missed you"
RESPONSE_SECONDS = 0.4
"""Duration of the platform's response to a text, so that kills happen between text and response."""
CALLERS_AFTER_RESTORE = 3


class Texts(Trial):
    """A missed caller gets at most one text, also after kills and after a restored house.db.

    Disturbed: SIGKILL of the worker or of all processes of the product, while the platform responds to a
    text. In the end house.db is replaced by a copy without the last texts, and their callers call again.
    Checked: the platform has at most one text for each caller, and each kill costs at most one text.
    Detects: a text that is stored after its response.
    """

    name = "texts"
    size_option, size = "--kills", 50
    bugs, symptoms = ("claim_texts_late",), ("no caller gets a second text",)
    plants = ("look_for_texts_often",)
    short = ("--kills 6", "--kills 6 --seed-bug")
    promises = ("P33",)
    long = ("--kills 50",)

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        self.callers: list[str] = []
        faults = f"drip={RESPONSE_SECONDS}@POST /sms"
        self.simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", "100", "--faults", faults)
        self.product = self.start_product(
            self.data_dir,
            self.simulator,
            sync__recent_interval="2",
            sync__live_interval="2",
            text_back__per_hour="1000",
            text_back__per_day="1000",
        )
        await_sync(self.product, "cdrs", "ddis")
        self.simulator.control("POST", "webhook", {"url": f"{self.product.url}{self.product.webhook_path}"})
        (sender,) = query_rows(self.data_dir / "mirror.db", "SELECT e164 FROM ddis WHERE sms_enabled LIMIT 1")
        rule = (1, "", "always", None, TEXT, 0, f"+{sender[0]}", "GB", clock.utc_text())
        with closing(sqlite3.connect(self.app_db)) as connection, connection:
            connection.execute("INSERT INTO text_back_rules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rule)

    @property
    def app_db(self) -> Path:
        return self.data_dir / "house.db"

    def disturb(self) -> None:
        for _ in range(self.options.size):
            requests = self._count_requests()
            self._call(f"4474001{len(self.callers):05d}")
            wait_for(lambda requests=requests: self._count_requests() > requests, "the next text", 60)
            threading.Event().wait(self.random.uniform(0, RESPONSE_SECONDS))
            if self.random.random() < 0.5:
                await_new_worker(self.product, kill_worker(self.product))
            else:
                kill_all_processes(self.product)
                self.product.start()
        self._lose_texts()

    def _count_requests(self) -> int:
        return query_number(self.app_db, "SELECT count(*) FROM journal WHERE path = '/sms'")

    def _call(self, caller: str) -> None:
        self.callers.append(caller)
        call = {"script": "ring_group_missed", "caller": caller, "instant": True}
        self.simulator.control("POST", "calls", call)

    def _lose_texts(self) -> None:
        """Replace house.db by a copy without the last texts, and let their callers call again."""
        self._await_decisions()
        older = self.folder / "older.db"
        with closing(sqlite3.connect(self.app_db)) as source, closing(sqlite3.connect(older)) as copy:
            source.backup(copy)
        for _ in range(CALLERS_AFTER_RESTORE):
            self._call(f"4474001{len(self.callers):05d}")
        self._await_decisions()
        kill_all_processes(self.product)
        for suffix in ("", "-wal", "-shm"):
            self.app_db.with_name(f"house.db{suffix}").unlink(missing_ok=True)
        older.rename(self.app_db)
        self.product.start()
        for caller in self.callers[-CALLERS_AFTER_RESTORE:]:
            self._call(caller)
        paused = "SELECT count(*) FROM text_back_state WHERE pause_reason IS NOT NULL"
        self.verify_soon(lambda: query_number(self.app_db, paused), "an older house.db pauses all rules", 60)

    def _await_decisions(self) -> None:
        """Wait until each caller is decided. A claim of a killed process stays without a response."""
        sql = "SELECT number FROM text_back_calls WHERE state <> 'claimed' OR at < ?"

        def find_undecided() -> set[str]:
            before = clock.utc_text(clock.now().timestamp() - 5)
            return {f"+{caller}" for caller in self.callers} - {
                row[0] for row in query_rows(self.app_db, sql, before)
            }

        wait_for(lambda: not find_undecided(), "a decision about each caller", 120)

    def check(self) -> None:
        self.verify_applied(self.data_dir, 120)
        least = len(set(self.callers)) - self.options.size
        self.verify_soon(lambda: len(self._count_texts()) >= least, "each kill costs at most one text", 60)
        texts = self._count_texts()
        twice = sorted(caller for caller, count in texts.items() if count > 1)
        self.verify(not twice, f"no caller gets a second text, not {twice[:5]}")
        self.figures.append(f"{len(set(self.callers))} callers, {sum(texts.values())} texts")

    def _count_texts(self) -> Counter[str]:
        rows = query_rows(self.data_dir / "mirror.db", 'SELECT "to" FROM sms WHERE message = ?', TEXT)
        return Counter(str(row[0]) for row in rows)
