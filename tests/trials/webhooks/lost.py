"""Trial of lost webhooks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from tests.support.harness import Product, Simulator, wait_for
from tests.trials.tools.databases import count_keys, query_number
from tests.trials.trial import NO_TRAFFIC, Trial, await_sync, until

INTERVAL = 2
"""Seconds between incremental syncs, instead of a minute."""
SCRIPTS = ("plain_answered", "ring_group_answered", "ring_group_missed")
SHARES = (0.0, 0.5, 0.9, 1.0)
HISTORY = "100"
"""CDRs before the trial: few, because their recordings are downloaded."""


class Lost(Trial):
    """Calls, recordings and messages are stored once despite lost webhooks.

    Disturbed: the simulator drops a share of its webhooks while calls, recordings and messages happen,
    messages with the same text in pairs.
    Checked: all records are stored within five incremental syncs, recordings are archived, no call stays
    live, no call and no message is doubled.
    Detects: incremental syncs that read no new records; equal texts that are merged.
    """

    name = "lost"
    size_option, size = "--calls", 300
    bugs, symptoms = ("skip_incremental_sync", "merge_equal_texts"), ("is stored within", "messages, not")
    short = ("--calls 20 --sms 10 --dropped 0.5 1", "--calls 4 --sms 2 --dropped 0 --seed-bug")
    promises = ("P7", "P8")
    long = tuple(f"--dropped {share:g}" for share in SHARES)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sms", type=int, default=100)
        parser.add_argument("--dropped", type=float, nargs="+", default=SHARES, help="shares of webhooks")

    def disturb(self) -> None:
        for share in self.options.dropped:
            faults = ("--faults", f"webhook-drop:{share}") if share else ()
            simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", HISTORY, *faults)
            product = self.start_product(
                self.make_folder(),
                simulator,
                sync__recent_interval=str(INTERVAL),
                sync__live_interval=str(INTERVAL),
            )
            self.where = f"{share:.0%} lost"
            self._compare(simulator, product)
            self.stop_product(product)

    def _compare(self, simulator: Simulator, product: Product) -> None:
        """Cause calls and messages at the platform; compare the mirror."""
        await_sync(product, "cdrs", "sms", "monitors")
        simulator.control("POST", "webhook", {"url": f"{product.url}{product.webhook_path}"})
        made = [
            simulator.control(
                "POST",
                "calls",
                {
                    "script": SCRIPTS[number % len(SCRIPTS)],
                    "instant": True,
                    "recorded": number % 6 == 0,
                    "cdr_lag": number % 3,
                },
            )
            for number in range(self.options.size)
        ]
        texts = [
            simulator.control("POST", "sms", {"message": f"text {number // 2}"})["sms"]["id"]
            for number in range(self.options.sms)
        ]
        sent = f"{self.where}: every other webhook is sent"
        wait = ("POST", "webhooks/wait", {"seconds": 5})
        self.verify_soon(lambda: simulator.control(*wait)["idle"], sent, 600)
        self._check_records(product, [_await_records(simulator, one["leg_ids"][0]) for one in made], texts)

    def _check_records(self, product: Product, made: Sequence[dict[str, Any]], texts: list[int]) -> None:
        mirror, begun = product.data_dir / "mirror.db", time.monotonic()
        cdrs = [key for one in made for key in one["cdr_ids"]]
        monitors = [key for one in made for key in one["monitor_ids"]]
        expected = {"cdrs": cdrs, "monitors": monitors, "sms": texts}

        def count_missing() -> dict[str, int]:
            return {name: len(keys) - count_keys(mirror, name, keys) for name, keys in expected.items()}

        limit, patience = max(5 * INTERVAL, 30), 5 if self.is_seeded else 300
        is_here = until(lambda: not any(count_missing().values()), patience)
        took = time.monotonic() - begun
        self.verify(
            is_here and took <= limit,
            f"{self.where}: every record is stored within {limit} s, "
            f"not {count_missing()} after {took:.0f} s",
        )
        messages = query_number(mirror, "SELECT count(*) FROM _messages WHERE text LIKE 'text %'")
        self.verify(messages == len(texts), f"{self.where}: there are {len(texts)} messages, not {messages}")
        if self.is_seeded:
            return
        listed = ",".join(map(str, monitors)) or "NULL"
        archived = (
            "SELECT count(*) FROM media WHERE kind = 'recording' AND state = 'have'"
            f" AND record_id IN ({listed})"
        )
        self.verify_soon(
            lambda: query_number(mirror, archived) == len(monitors),
            f"{self.where}: every recording is in the archive",
        )
        live = "SELECT count(*) FROM _calls WHERE state <> 'ended'"
        self.verify_soon(lambda: query_number(mirror, live) == 0, f"{self.where}: no call stays live")
        legs = ",".join(str(leg) for one in made for leg in one["leg_ids"])
        calls = query_number(mirror, f"SELECT count(DISTINCT call_id) FROM _legs WHERE leg_id IN ({legs})")
        self.verify(calls == len(made), f"{self.where}: there are {len(made)} calls, not {calls}")
        self.figures.append(
            f"{self.where}: {len(cdrs)} CDRs, {len(monitors)} recordings, "
            f"{len(texts)} messages after {took:.1f} s"
        )


def _await_records(simulator: Simulator, leg: int) -> dict[str, Any]:
    """Return the call once its records are listed."""

    def request() -> dict[str, Any] | None:
        call: dict[str, Any] = simulator.control("GET", f"calls/{leg}")
        return call if call["cdr_ids"] else None

    return dict(wait_for(request, f"the records of call {leg}", 60))
