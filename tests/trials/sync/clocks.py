"""Promise P15: wrong clocks make no gap, end no session, and hold nothing up.

    skew   our clock a day fast, a day slow: calls told by webhooks, by records alone, and by both are here
           in time and read right, those that go on are live, nothing is taken to be deleted
    jump   our clock is set an hour and a day forward and back while calls come and go: the same, and
           whoever works at the dashboard works on
    dates  events and records dated 2999 and 1970, among sound ones: kept, and nobody waits for them

The platform is a process of its own, by whose clock all is right; the product runs in this one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from integration.access import sessions
from integration.core import clock
from tests.support.harness import Simulator
from tests.trials.sync.platform import Report, friday_evening
from tests.trials.tools.moved_clock import Office, Time, office_at

DAY, HOUR = 86_400.0, 3600.0
SKEWS, JUMPS = (DAY, -DAY), (HOUR, -HOUR, DAY, -DAY)
DATES = ("2999-01-01 00:00:00", "1970-01-01 00:00:00")
STEP, LIMIT = 15.0, 300.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials clocks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="jumps from either skew, too")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    options = parser.parse_args(arguments)
    report, look, told = Report("clocks"), sessions.ClockWatch.check, list[str]()
    if options.seed_bug:
        # Nobody looks after the sessions.
        sessions.ClockWatch.check = lambda _steady: None
    try:
        for skew in () if options.seed_bug else SKEWS:
            told.append(_run(options, report, skew, _skewed))
            if options.long:
                _run(options, report, skew, _jumping)
        _run(options, report, 0.0, _jumping)
        if not options.seed_bug:
            _run(options, report, 0.0, _misdated)
    finally:
        sessions.ClockWatch.check = look
    found = bool(report.broken)
    return report.end("; ".join(told)) if not options.seed_bug else int(not found)


def _run(
    options: argparse.Namespace,
    report: Report,
    skew: float,
    happen: Callable[[Office, Simulator, Report], str],
) -> str:
    history = ("--cdrs", "60", "--start", str(friday_evening()))
    simulator = Simulator("--seed", str(options.seed), "--no-traffic", *history)
    try:
        with Time() as moved, tempfile.TemporaryDirectory(prefix="switchroom-clocks-") as folder:
            moved.jump(skew)
            with office_at(simulator.url, simulator.user_id, simulator.api_key, Path(folder), moved) as made:
                simulator.control("POST", "webhook", {"url": made.webhooks})
                return happen(made, simulator, report)
    finally:
        simulator.stop()


# --- what happens --------------------------------------------------------------------------------------


def _skewed(made: Office, simulator: Simulator, report: Report) -> str:
    about = f"our clock {made.moved.jumped / HOUR:+.0f} h"
    browser = made.login()
    took = _calls(made, simulator, report, about)
    _well(made, browser, report, about)
    return f"{about}: all is here after {took:.0f} s"


def _jumping(made: Office, simulator: Simulator, report: Report) -> str:
    browser = made.login()
    for jump in JUMPS:
        about = f"set by {jump / HOUR:+.0f} h"
        going = simulator.control("POST", "calls", {"script": "plain_answered", "until": "connected"})
        _told(made, simulator)
        made.jump(jump)
        made.pass_(STEP)
        live = made.rows("SELECT state, unconfirmed FROM _calls WHERE id = ?", going["root_call_id"])
        report.check(live == [("talking", 0)], f"{about}: a call that goes on is live, not {live}")
        _calls(made, simulator, report, about)
        _well(made, browser, report, about)
    return ""


def _misdated(made: Office, simulator: Simulator, report: Report) -> str:
    browser = made.login()
    for date in DATES:
        sample = simulator.control(
            "POST", "calls", {"script": "plain_answered", "instant": True, "silent": True}
        )
        leg = sample["root_call_id"] + 5_000_000
        for name, state in (("initial", "INITIAL"), ("connected", "CONNECTED"), ("hangup", "HANGUP")):
            body: dict[str, Any] = {
                "id": f"clocks.{leg}.{name}", "event_time": date, "event_name": f"call.{name}",
                "call_id": leg, "state": state, "start_time": date,
                "connected_at": date if state != "INITIAL" else None, "context": "LOCAL_USER",
                "destination": "in", "src": "447700900123", "dst": "442079460001",
            }  # fmt: skip
            answer = requests.post(made.webhooks, data=json.dumps(body), timeout=30)
            report.check(answer.status_code == 200, f"{date}: {name} is acknowledged")
        cdr = sample["cdr_ids"][0]
        changed = json.dumps({"calldate": date}).encode()
        simulator.client.ask("PATCH", f"/_simulator/records/cdrs/{cdr}", changed)
        made.pass_(STEP)
        _calls(made, simulator, report, f"beside {date}")
        ended = made.rows("SELECT state FROM _calls WHERE id = ?", leg)
        report.check(ended == [("ended",)], f"{date}: the call has ended, not {ended}")
        here = made.one("SELECT count(*) FROM cdrs WHERE id = ?", cdr)
        report.check(here == 1, f"{date}: a record dated so is here")
        _well(made, browser, report, f"beside {date}")
    return ""


# --- parts ---------------------------------------------------------------------------------------------


def _calls(made: Office, simulator: Simulator, report: Report, about: str) -> float:
    """Calls told in every way; returns after how many seconds all their records were here."""
    wish = {"instant": True, "recorded": True}
    calls = [
        simulator.control("POST", "calls", {**wish, "script": script, "silent": silent})
        for script in ("plain_answered", "ring_group_missed")
        for silent in (False, True)
    ]
    text = f"text {about}"
    simulator.control("POST", "sms", {"message": text})
    simulator.control("POST", "sms", {"message": text, "silent": True})
    _told(made, simulator)
    wanted = {
        "cdrs": {key for call in calls for key in call["cdr_ids"]},
        "monitors": {key for call in calls for key in call["monitor_ids"]},
    }
    took = 0.0
    while took < LIMIT and (missing := _missing(made, wanted)):
        made.pass_(STEP)
        took += STEP
    missing = _missing(made, wanted)
    report.check(not missing, f"{about}: all is here within {LIMIT:.0f} s, not {missing}")
    # The time within which a next leg might come passes.
    made.pass_(4 * STEP)
    for call in calls:
        row = made.rows("SELECT state, outcome FROM _calls WHERE id = ?", call["root_call_id"])
        outcome = "missed" if call["script"].endswith("missed") else "answered"
        report.check(row == [("ended", outcome)], f"{about}: {call['script']} ended as {outcome}, not {row}")
    messages = made.one("SELECT count(*) FROM _messages WHERE text = ?", text)
    report.check(messages == 2, f"{about}: two messages are two, not {messages}")
    return took


def _told(made: Office, simulator: Simulator) -> None:
    simulator.control("POST", "webhooks/wait", {"seconds": 15})
    made.settle()


def _missing(made: Office, wanted: dict[str, set[int]]) -> dict[str, int]:
    found = {}
    for name, keys in wanted.items():
        listed = ",".join(map(str, keys)) or "NULL"
        lacking = len(keys) - made.one(f"SELECT count(*) FROM {name} WHERE id IN ({listed})")
        if lacking:
            found[name] = lacking
    return found


def _well(made: Office, browser: requests.Session, report: Report, about: str) -> None:
    for path in ("/live", "/calls", "/missed", "/reports", "/system"):
        answer = browser.get(made.origin + path, timeout=60, allow_redirects=False)
        report.check(answer.status_code == 200, f"{about}: {path} answers {answer.status_code}")
    gone = made.one("SELECT count(*) FROM _deletions WHERE state = 'confirmed'")
    report.check(gone == 0, f"{about}: nothing is taken to be deleted, not {gone}")
    late = made.one("SELECT count(*) FROM _lookups WHERE state = 'open' AND next_at > ?", clock.unix() + DAY)
    report.check(late == 0, f"{about}: no look-up waits for more than a day, {late} do")
    checks = made.product.health.report()["checks"]
    failing = [f"{name}: {one['error']}" for name, one in checks.items() if one["state"] != "ok"]
    failing = [one for one in failing if "None" not in one]
    report.check(not failing, f"{about}: no job fails, not {failing}")
