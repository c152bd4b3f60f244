"""Pages that are open for a day: nodes, listeners, memory, timers and streams do not grow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page

from integration.core import clock
from integration.workspace import wallboards
from integration.workspace.callback_following import update_from_mirror
from tests.browser.conftest import log_in, watch
from tests.support.application import TestApp
from tests.support.harness import wait_for
from tests.support.records import ACCOUNT_NUMBER

pytestmark = pytest.mark.exhaustive

DAY_SECONDS = 24 * 3600
ROUNDS = 12
WARM_UP_ROUNDS = 4
CALLS = 60
"""Calls of a round. All of them are live at the same time, so this many rows come and go."""
MISSED = 10
"""Missed calls of each second round.

The round after it answers the same callers, which removes them from the page Missed.
"""
LIMITS = {"documents": 8, "nodes": 4000, "jsEventListeners": 8, "heap": 300_000}
"""Differences of the process of all pages that are no leak: responses that are not collected yet.

One row that is kept per call would be 16,000 nodes, one response per refresh more than 100 documents.
"""

MAX_NEW_ELEMENTS = 20
"""Elements of a page that come and go, such as the note of a figure. One row per missed call would be 240."""

COUNTING_SCRIPT = """
(() => {
  // Timers of pages run 20 times faster. Counts timers that are pending, streams that are open, and requests.
  const SPEED = 20, timers = new Set(), streams = new Set(), held = [], fetch = window.fetch;
  let paused = false, requests = 0;
  for (const name of ["Timeout", "Interval"]) {
    const start = window[`set${name}`], stop = window[`clear${name}`], once = name === "Timeout";
    window[`set${name}`] = (action, delay = 0) => {
      const id = start(() => { if (once) timers.delete(id); action(); }, delay / SPEED);
      timers.add(id);
      return id;
    };
    window[`clear${name}`] = (id) => { timers.delete(id); stop(id); };
  }
  window.EventSource = class extends EventSource {
    constructor(url) { super(url); streams.add(this); }
    close() { streams.delete(this); super.close(); }
  };
  window.fetch = async (...given) => {
    if (paused) await new Promise((go) => held.push(go));
    requests += 1;
    try {
      const answer = await fetch(...given);
      await answer.clone().blob();
      return answer;
    } finally { requests -= 1; }
  };
  window.pause = (on) => { paused = on; if (!on) for (const go of held.splice(0)) go(); return requests; };
  const elements = document.getElementsByTagName("*");
  window.count = () => ({ elements: elements.length, timers: timers.size, streams: streams.size });
})();
"""


@dataclass
class Day:
    """Calls of a day, received as webhooks by `app` and followed on the open page `live`."""

    app: TestApp
    live: Page
    rounds: int = 0

    def receive(self, name: str, calls: range, group: str, rows: int, **values: Any) -> None:
        """Receive an event of each call.

        Wait until the page shows `rows` in the group of calls.
        """
        self.app.clock.advance(DAY_SECONDS / ROUNDS / 4)
        now = clock.utc_text()
        for number in calls:
            event = {"id": f"t.{number}.{name}", "event_name": f"call.{name}", "event_time": now}
            call = {"call_id": number, "start_time": now, "context": "LOCAL_USER", "destination": "in"}
            ends = {
                "src": f"44770090{number % CALLS:04}",
                "src_id": "0",
                "dst": ACCOUNT_NUMBER,
                "dst_id": "1",
            }
            body = {**event, **call, **ends, "dst_name": "Ann Example", "connected_at": now, **values}
            accepted = self.app.context.inbox.receive(json.dumps(body).encode())
        accepted.result(30)
        self.app.apply_webhooks()
        while update_from_mirror(self.app.app_db, self.app.mirror_db):
            pass
        self.live.wait_for_function(
            f"() => document.querySelectorAll('#group-{group} tr.row').length === {rows}", timeout=60_000
        )

    def play_round(self) -> None:
        """Let CALLS calls ring, talk and end, some of them without an answer."""
        self.rounds += 1
        calls = range(self.rounds * CALLS, (self.rounds + 1) * CALLS)
        answered = calls[MISSED if self.rounds % 2 else 0 :]
        missed = range(calls.start, answered.start)
        self.receive("ringing", calls, "ringing", CALLS, state="RINGING", connected_at=None)
        self.receive("connected", answered, "talking", len(answered), state="CONNECTED")
        self.receive("hangup", answered, "talking", 0, state="HANGUP", final=True)
        if missed:
            self.receive("missed", missed, "ringing", 0, state="HANGUP", final=True, connected_at=None)


def measure(pages: dict[str, Page], tools: CDPSession) -> dict[str, Any]:
    """Return counts of each page, and of the process of all pages after garbage collection."""
    for page in pages.values():
        wait_for(lambda page=page: page.evaluate("pause(true)") == 0, "responses")
    for _ in range(3):
        tools.send("HeapProfiler.collectGarbage")
    totals = tools.send("Memory.getDOMCounters")
    totals["heap"] = tools.send("Runtime.getHeapUsage")["usedSize"]
    counts = {path: page.evaluate("count()") for path, page in pages.items()}
    for page in pages.values():
        page.evaluate("pause(false)")
    return {**counts, "totals": totals}


def test_pages_that_are_open_for_a_day_do_not_grow(
    app: TestApp, context: Any, problems: list[str], cut_streams: Callable[[], None]
) -> None:
    log_in(app, context)
    context.add_init_script(COUNTING_SCRIPT)
    wallboard = f"/wall/{wallboards.add(app.app_db, 'Front desk')}"
    pages = {path: context.new_page() for path in ("/", "/missed", "/calls", wallboard)}
    for path, page in pages.items():
        watch(page, problems)
        page.set_default_timeout(90_000)  # The pages request twenty times as often as usual.
        page.goto(app.url + path)
    live, missed = pages["/"], pages["/missed"]
    day, tools = Day(app, live), context.new_cdp_session(live)

    def play(rounds: int) -> None:
        while day.rounds < rounds:
            day.play_round()
            if day.rounds % 2:  # each second hour an agent uses the pages, and the stream ends
                live.locator("#group-ended a[data-open]").first.click()
                live.wait_for_selector("#drawer h2")
                live.keyboard.press("Escape")
                missed.get_by_role("button", name="Claim").first.click()
                missed.get_by_role("button", name="Release").first.click()
                cut_streams()
        missed.wait_for_function("() => !document.querySelector('tr.row')")

    play(WARM_UP_ROUNDS)
    before = measure(pages, tools)
    play(ROUNDS)
    after = measure(pages, tools)
    growth = {name: after["totals"][name] - count for name, count in before.pop("totals").items()}
    assert {name: count for name, count in growth.items() if count > LIMITS[name]} == {}
    del after["totals"]
    for path, counts in after.items():
        # A timer that starts with a response may be pending in one measurement only; one that leaks stays.
        wait_for(
            lambda path=path: pages[path].evaluate("count()")["timers"] <= before[path]["timers"],
            f"no more timers than before on {path}",
        )
        assert counts["elements"] - before[path]["elements"] <= MAX_NEW_ELEMENTS, path
    assert [counts["streams"] for counts in after.values()] == [1, 0, 0, 0]
    assert problems == []
