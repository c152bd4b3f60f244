"""Promises P7 and P8: webhooks are lost, and everything is here all the same, once.

Product and simulator run as processes; the simulator drops a share of its webhooks while calls, recordings
and messages happen, messages of the same text by twos. Look-backs come every LOOK_BACK seconds instead of
every minute: what takes five of them stands for five minutes.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report

LOOK_BACK = 2
SCRIPTS = ("plain_answered", "ring_group_answered", "ring_group_missed")
DROPPED = (0.0, 0.5, 0.9, 1.0)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials lost")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--sms", type=int, default=100)
    parser.add_argument("--dropped", type=float, nargs="+", default=DROPPED, help="shares of webhooks")
    parser.add_argument("--seed-bug", action="store_true", help="lose a record that the trial must find")
    options = parser.parse_args(arguments)
    report = Report("lost")
    told = [f"{share:.0%}: {_drop(share, options, report)}" for share in options.dropped]
    found = bool(report.broken)
    return report.end("; ".join(told)) if not options.seed_bug else int(not found)


def _drop(share: float, options: argparse.Namespace, report: Report) -> str:
    faults = ("--faults", f"webhook-drop:{share}") if share else ()
    simulator = Simulator("--seed", "5", "--no-traffic", *faults)
    try:
        with tempfile.TemporaryDirectory() as folder:
            product = Product(
                Path(folder),
                base_url=simulator.url,
                user_id=simulator.user_id,
                api_key=simulator.api_key,
                sync__recent_interval=str(LOOK_BACK),
                sync__live_interval=str(LOOK_BACK),
                sync__max_requests_per_minute="60000",
            )
            try:
                return _happen(share, options, report, simulator, product)
            finally:
                product.stop(30)
    finally:
        simulator.stop()


def _happen(
    share: float, options: argparse.Namespace, report: Report, simulator: Simulator, product: Product
) -> str:
    mirror = product.data_dir / "mirror.db"
    unread = (
        "SELECT count(*) FROM _walks WHERE collection IN ('cdrs', 'sms', 'monitors') AND complete_at > ''"
    )
    wait_for(lambda: _ask(mirror, unread) == 3, "the first walk", 600)
    simulator.control("POST", "webhook", {"url": f"{product.url}{product.webhook_path}"})
    made: list[dict[str, Any]] = []
    for number in range(options.calls):
        wish = {"script": SCRIPTS[number % len(SCRIPTS)], "instant": True, "recorded": number % 6 == 0}
        made.append(simulator.control("POST", "calls", {**wish, "cdr_lag": number % 3}))
    texts = [
        simulator.control("POST", "sms", {"message": f"text {number // 2}"})["sms"]["id"]
        for number in range(options.sms)
    ]
    sent = _in_time(lambda: simulator.control("POST", "webhooks/wait", {"seconds": 5})["idle"], 300)
    report.check(sent, f"{share:.0%} lost: every other webhook is sent")
    made = [_listed(simulator, one["leg_ids"][0]) for one in made]
    begun = time.monotonic()
    cdrs = [key for one in made for key in one["cdr_ids"]]
    monitors = [key for one in made for key in one["monitor_ids"]]
    if options.seed_bug:
        cdrs.append(max(cdrs) + 1_000_000)

    def missing() -> dict[str, int]:
        wanted = {"cdrs": cdrs, "monitors": monitors, "sms": texts}
        return {name: len(keys) - _among(mirror, name, keys) for name, keys in wanted.items()}

    patience = 5 if options.seed_bug else 300
    here = _in_time(lambda: not any(missing().values()), patience)
    took = time.monotonic() - begun
    limit = max(5 * LOOK_BACK, 30)
    report.check(here and took <= limit, f"{share:.0%} lost: all is here within {limit} s, not {missing()}")
    files = _in_time(lambda: _files(mirror, monitors) == len(monitors), patience)
    report.check(files, f"{share:.0%} lost: every recording is in the archive")
    settled = _in_time(
        lambda: _ask(mirror, "SELECT count(*) FROM _calls WHERE state <> 'ended'") == 0, patience
    )
    report.check(settled, f"{share:.0%} lost: no call stays live")
    legs = ",".join(str(leg) for one in made for leg in one["leg_ids"])
    calls = _ask(mirror, f"SELECT count(DISTINCT call_id) FROM _legs WHERE leg_id IN ({legs})")
    report.check(calls == len(made), f"{share:.0%} lost: {len(made)} calls are {len(made)}, not {calls}")
    messages = _ask(mirror, "SELECT count(*) FROM _messages WHERE text LIKE 'text %'")
    report.check(messages == len(texts), f"{share:.0%} lost: {len(texts)} messages, not {messages}")
    return f"{len(cdrs)} CDRs, {len(monitors)} recordings, {len(texts)} messages after {took:.1f} s"


def _listed(simulator: Simulator, leg: int) -> dict[str, Any]:
    """The call once its records are listed: they come later than its end."""

    def asked() -> dict[str, Any] | None:
        told: dict[str, Any] = simulator.control("GET", f"calls/{leg}")
        return told if told["cdr_ids"] else None

    return dict(wait_for(asked, f"the records of call {leg}", 60))


def _in_time(condition: Any, seconds: float) -> bool:
    try:
        wait_for(condition, "it", seconds)
    except TimeoutError:
        return False
    return True


def _ask(mirror: Path, sql: str, *values: object) -> int:
    with closing(sqlite3.connect(f"file:{mirror}?mode=ro", uri=True, timeout=10)) as connection:
        return int(connection.execute(sql, values).fetchone()[0])


def _among(mirror: Path, table: str, keys: Sequence[int]) -> int:
    return _ask(mirror, f"SELECT count(*) FROM {table} WHERE id IN ({','.join(map(str, keys)) or 'NULL'})")


def _files(mirror: Path, keys: Sequence[int]) -> int:
    listed = ",".join(map(str, keys)) or "NULL"
    return _ask(
        mirror,
        f"SELECT count(*) FROM media WHERE kind = 'recording' AND state = 'have' AND record_id IN ({listed})",
    )
