"""Trial of wrong clocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import requests

from integration.core import clock, scheduler
from tests.support.harness import Simulator
from tests.trials.tools.local_product import LocalProduct
from tests.trials.trial import Trial

DAY, HOUR = 86_400.0, 3600.0
SKEWS, JUMPS = (DAY, -DAY), (HOUR, -HOUR, DAY, -DAY)
DATES = ("2999-01-01 00:00:00", "1970-01-01 00:00:00")
STEP, LIMIT = 15.0, 300.0
EVENTS = (("initial", "INITIAL"), ("connected", "CONNECTED"), ("hangup", "HANGUP"))


class Clocks(Trial):
    """Wrong clocks cause no gap, end no session and delay nothing.

    Disturbed: the product's clock is a day fast or slow; it is set an hour and a day forward and back while
    calls happen; events and records are dated 2999 and 1970. The platform, whose clock is right, is a
    process.
    Checked: calls from webhooks, from records and from both are complete in time, live calls are
    live, nothing is marked as deleted, sessions go on, no job fails.
    Detects: sessions that end when the clock is set.
    """

    name = "clocks"
    bugs, symptoms = ("ignore_clock_changes",), ("returns 200",)
    promises = ("P15",)

    def disturb(self) -> None:
        for skew in () if self.is_seeded else SKEWS:
            self._run(skew, self._try_skew)
        self._run(0.0, self._set_clock)
        if not self.is_seeded:
            self._run(0.0, self._send_wrong_dates)

    product: LocalProduct
    simulator: Simulator

    def _run(self, skew: float, disturb: Callable[[], None]) -> None:
        self.simulator = self.start_simulator("--seed", str(self.options.seed), "--no-traffic", history=60)
        with self.run_product(self.simulator, wall=skew) as self.product:
            self.simulator.control("POST", "webhook", {"url": self.product.webhook_url})
            self.browser = self.product.login()
            disturb()

    def _try_skew(self) -> None:
        where = f"clock {self.product.moved.wall_offset / HOUR:+.0f} h"
        took = self._make_calls(where)
        self._check_pages(where)
        self.figures.append(f"{where}: all records after {took:.0f} s")

    def _set_clock(self) -> None:
        for jump in JUMPS:
            where = f"set by {jump / HOUR:+.0f} h"
            live = self._control("calls", {"script": "plain_answered", "until": "connected"})
            self._settle()
            self.product.set_wall(jump)
            self.product.advance(STEP)
            sql = "SELECT state, unconfirmed FROM _calls WHERE id = ?"
            state = self.product.query(sql, live["root_call_id"])
            self.verify(state == [("talking", 0)], f"{where}: a live call stays live, not {state}")
            self._make_calls(where)
            self._check_pages(where)

    def _send_wrong_dates(self) -> None:
        for date in DATES:
            sample = self._control("calls", {"script": "plain_answered", "instant": True, "silent": True})
            leg = sample["root_call_id"] + 5_000_000
            for name, state in EVENTS:
                body: dict[str, Any] = {
                    "id": f"clocks.{leg}.{name}", "event_time": date, "event_name": f"call.{name}",
                    "call_id": leg, "state": state, "start_time": date,
                    "connected_at": date if state != "INITIAL" else None, "context": "LOCAL_USER",
                    "destination": "in", "src": "447700900123", "dst": "442079460001",
                }  # fmt: skip
                status = requests.post(
                    self.product.webhook_url, data=json.dumps(body), timeout=30
                ).status_code
                self.verify(status == 200, f"{date}: {name} is acknowledged, not {status}")
            cdr = sample["cdr_ids"][0]
            self.simulator.control("PATCH", f"records/cdrs/{cdr}", {"calldate": date})
            self.product.advance(STEP)
            self._make_calls(f"beside {date}")
            ended = self.product.query("SELECT state FROM _calls WHERE id = ?", leg)
            self.verify(ended == [("ended",)], f"{date}: the call has ended, not {ended}")
            stored = self.product.query_value("SELECT count(*) FROM cdrs WHERE id = ?", cdr)
            self.verify(stored == 1, f"{date}: a record with this date is stored")
            self._check_pages(f"beside {date}")

    def _make_calls(self, where: str) -> float:
        """Make calls and messages with and without webhooks.

        Returns seconds until all records are stored.
        """
        options = {"instant": True, "recorded": True}
        calls = [
            self._control("calls", {**options, "script": script, "silent": silent})
            for script in ("plain_answered", "ring_group_missed")
            for silent in (False, True)
        ]
        text = f"text {where}"
        self._control("sms", {"message": text})
        self._control("sms", {"message": text, "silent": True})
        self._settle()
        expected = {
            "cdrs": {key for call in calls for key in call["cdr_ids"]},
            "monitors": {key for call in calls for key in call["monitor_ids"]},
        }
        took = 0.0
        while took < LIMIT and self._count_missing(expected):
            self.product.advance(STEP)
            took += STEP
        missing = self._count_missing(expected)
        self.verify(not missing, f"{where}: all records are stored within {LIMIT:.0f} s, not {missing}")
        # The time in which another leg could begin.
        self.product.advance(4 * STEP)
        for call in calls:
            row = self.product.query("SELECT state, outcome FROM _calls WHERE id = ?", call["root_call_id"])
            outcome = "missed" if call["script"].endswith("missed") else "answered"
            self.verify(
                row == [("ended", outcome)], f"{where}: {call['script']} ended as {outcome}, not {row}"
            )
        messages = self.product.query_value("SELECT count(*) FROM _messages WHERE text = ?", text)
        self.verify(messages == 2, f"{where}: there are two messages, not {messages}")
        return took

    def _control(self, what: str, options: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = self.simulator.control("POST", what, options)
        return made

    def _settle(self) -> None:
        self._control("webhooks/wait", {"seconds": 15})
        self.product.settle()

    def _count_missing(self, expected: dict[str, set[int]]) -> dict[str, int]:
        missing = {}
        for name, keys in expected.items():
            listed = ",".join(map(str, keys)) or "NULL"
            sql = f"SELECT count(*) FROM {name} WHERE id IN ({listed})"
            missing[name] = len(keys) - self.product.query_value(sql)
        return {name: count for name, count in missing.items() if count}

    def _check_pages(self, where: str) -> None:
        for path in ("/live", "/calls", "/missed", "/reports", "/system"):
            url = self.product.origin + path
            status = self.browser.get(url, timeout=60, allow_redirects=False).status_code
            self.verify(status == 200, f"{where}: {path} returns 200, not {status}")
        deleted = self.product.query_value("SELECT count(*) FROM _deletions WHERE state = 'confirmed'")
        self.verify(deleted == 0, f"{where}: no record is marked as deleted, not {deleted}")
        sql = "SELECT count(*) FROM _lookups WHERE state = 'open' AND next_at > ?"
        late = self.product.query_value(sql, clock.unix() + DAY)
        self.verify(late == 0, f"{where}: no lookup is due in more than a day, not {late}")
        # The heartbeats of these threads come in real seconds, which a moved clock exceeds.
        threads = {scheduler.WATCHDOG, *(one.name for one in self.product.product.consumers)}
        failing = self.product.list_failing("failing")
        failing += self.product.list_failing("stalled", excluded=threads)
        self.verify(not failing, f"{where}: no job fails, not {failing}")
