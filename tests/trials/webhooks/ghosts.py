"""Promise P27: a call whose hang-up was lost does not stay live for more than five minutes, and is shown as
unconfirmed meanwhile.

    answers  the platform lists live calls: its list and their own paths close them, records settle them;
             some records come late, some never; calls that go on stay live
    refused  it refuses to list live calls: their records close them
    away     it answers nothing for half an hour: everything is unconfirmed, nothing is closed; then as above

The product runs in this process, its receiver and the simulator over real HTTP. Hours are moved through.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions, Step
from integration.simulator.calls.traffic import RunningCall
from integration.sync.reading import live_poll
from tests.trials.sync.platform import Report, friday_evening
from tests.trials.tools.moved_clock import Office, Time, office

LOST = "webhook-drop@call.hangup,webhook-drop@call.missed,webhook-drop@monitor.audio_ready"
LIMIT = 300
"""Seconds that a call may stay live after its end."""
STEP = 5
LATE = 1200
"""Seconds after which a late record is listed."""
AWAY = 1800
OUTAGES = ("status=503", "html", "malformed=json", "status=429/30")

SCRIPTS: tuple[tuple[str, str, CallOptions], ...] = (
    ("plain_answered", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("ring_group_answered", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("ring_group_missed", "ringing", CallOptions(ring_seconds=20)),
    # Its music picks up; nobody else will.
    ("queue_abandoned", "connected", CallOptions(ring_seconds=20)),
    ("outbound", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("internal", "connected", CallOptions(talk_seconds=600, has_hold=False, is_answered=True)),
)
OUTCOMES = {"ring_group_missed": "missed", "queue_abandoned": "missed", "internal": "internal"}


@dataclass
class Ghost:
    """A call that began; `records` are those of its that the platform does not list yet."""

    script: str
    running: RunningCall
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    closed: float | None = None
    """Seconds after its end when it was no longer live."""

    @property
    def legs(self) -> str:
        return ",".join(str(leg.id) for leg in self.running.plan.legs)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials ghosts")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="every kind of outage")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    options = parser.parse_args(arguments)
    report, ask = Report("ghosts"), live_poll._request_legs
    if options.seed_bug:
        # What the list misses is not asked for.
        live_poll._request_legs = lambda context, legs: ([], [])
    try:
        told = [_trial(_answers, options, report)]
        if not options.seed_bug:
            told.append(_trial(_refused, options, report))
            for fault in OUTAGES if options.long else OUTAGES[:1]:
                told.append(_trial(lambda *parts, fault=fault: _away(*parts, fault), options, report))
    finally:
        live_poll._request_legs = ask
    found = bool(report.broken)
    return report.end("; ".join(told)) if not options.seed_bug else int(not found)


def _trial(happen: Callable[..., str], options: argparse.Namespace, report: Report) -> str:
    simulator = embed.start(seed=options.seed, cdrs=20, start_at=friday_evening())
    try:
        with (
            Time() as moved,
            tempfile.TemporaryDirectory(prefix="switchroom-ghosts-") as folder,
            office(simulator, Path(folder), moved) as made,
        ):
            return happen(made, simulator, options.calls, report)
    finally:
        simulator.stop()


# --- what happens --------------------------------------------------------------------------------------


def _answers(made: Office, simulator: embed.Simulator, count: int, report: Report) -> str:
    lasting, ghosts = _begin(made, simulator, count, report)
    _hang_up(simulator, ghosts)
    for number, ghost in enumerate(ghosts):
        if number % 3 == 0:
            _list(simulator, ghost)
    doubted = _follow(made, ghosts, lasting, report)
    report.check(doubted, "what ended without a word is unconfirmed")
    silent = [ghost for ghost in ghosts if ghost.records]
    report.check(_unconfirmed(made, silent) == len(silent), "what no record settled stays unconfirmed")
    browser = made.login()
    page = browser.get(f"{made.origin}/calls/{silent[0].running.plan.legs[0].root_id}").text
    report.check("not yet confirmed by a record" in page, "its page says so")
    made.pass_(LATE)
    late = [ghost for number, ghost in enumerate(ghosts) if number % 3 == 1]
    for ghost in late:
        _list(simulator, ghost)
    made.pass_(120)
    _settled(made, [ghost for ghost in ghosts if not ghost.records], report)
    _go_on(made, lasting, report)
    return f"{len(ghosts)} ghosts closed after {_worst(ghosts):.0f} s"


def _refused(made: Office, simulator: embed.Simulator, count: int, report: Report) -> str:
    _, ghosts = _begin(made, simulator, count, report, lasting=0)
    simulator.context.faults.add("status=403@/calls")
    _hang_up(simulator, ghosts)
    for ghost in ghosts:
        _list(simulator, ghost)
    _follow(made, ghosts, [], report)
    _settled(made, ghosts, report)
    return f"without a list after {_worst(ghosts):.0f} s"


def _away(made: Office, simulator: embed.Simulator, count: int, report: Report, fault: str) -> str:
    lasting, ghosts = _begin(made, simulator, count, report)
    simulator.context.faults.add(fault)
    _hang_up(simulator, ghosts)
    for ghost in ghosts:
        _list(simulator, ghost)
    everything, unsure = [*ghosts, *lasting], None
    for second in range(3 * STEP, AWAY + 1, 3 * STEP):
        made.pass_(3 * STEP)
        if unsure is None and _unconfirmed(made, everything) == len(everything):
            unsure = second
    report.check(unsure is not None and unsure <= LIMIT, f"{fault}: all is unconfirmed after {unsure} s")
    report.check(not _closed(made, everything), f"{fault}: nothing is closed that nobody saw end")
    page = made.login().get(f"{made.origin}/live").text
    shown = sum(f'data-call="{_call(made, one)}" data-group="unconfirmed"' in page for one in everything)
    report.check(shown == len(everything), f"{fault}: {shown} of {len(everything)} are shown as unconfirmed")
    simulator.context.faults.clear()
    simulator.context.faults.add(LOST)
    _follow(made, ghosts, lasting, report, doubts=False)
    _settled(made, ghosts, report)
    _go_on(made, lasting, report)
    return f"{fault}: unconfirmed after {unsure} s, closed {_worst(ghosts):.0f} s after the platform was back"


# --- parts ---------------------------------------------------------------------------------------------


def _begin(
    made: Office, simulator: embed.Simulator, count: int, report: Report, lasting: int = 3
) -> tuple[list[Ghost], list[Ghost]]:
    """So many calls that go on, and calls that will end unheard."""
    simulator.context.faults.add(LOST)
    world, begun = simulator.world, list[Ghost]()
    for number in range(count + lasting):
        script, until, wish = SCRIPTS[number % len(SCRIPTS)]
        with world.lock:
            plan = world.scripts.by_name[script](wish)
        for leg in plan.legs:
            leg.is_recorded, leg.logs_missed_calls = False, True
        begun.append(Ghost(script, simulator.context.traffic.play_instantly(plan, until_event=until)))
    report.check(simulator.context.webhook_sender.wait_until_idle(60), "every webhook is sent")
    for _ in range(60 // STEP):
        made.pass_(STEP)
    _go_on(made, begun, report)
    return begun[:lasting], begun[lasting:]


def _hang_up(simulator: embed.Simulator, ghosts: Sequence[Ghost]) -> None:
    """They end at the platform, and their records are not listed yet."""
    world = simulator.world
    for ghost in ghosts:
        missed = OUTCOMES.get(ghost.script) == "missed"
        open_ = [leg for leg in ghost.running.plan.legs if leg.ended_at is None and leg.started_at]
        steps = [
            Step(0.0, leg, "missed" if missed else "hangup", cause="Normal Clearing", by="caller", final=last)
            for leg in open_
            for last in [leg is open_[-1]]
        ]
        simulator.context.traffic.replace_steps(ghost.running, steps)
        with world.lock:
            ghost.records["cdrs"] = [
                world.collections["cdrs"].records.pop(key) for key in ghost.running.result.cdr_ids
            ]


def _list(simulator: embed.Simulator, ghost: Ghost) -> None:
    with simulator.world.lock:
        for name, records in ghost.records.items():
            for record in records:
                simulator.world.collections[name].add(record)
    ghost.records = {}


def _follow(
    made: Office, ghosts: Sequence[Ghost], lasting: Sequence[Ghost], report: Report, doubts: bool = True
) -> bool:
    """Let LIMIT seconds pass; whether each was unconfirmed or settled at the moment it was closed."""
    certain = True
    for second in range(STEP, LIMIT + STEP, STEP):
        made.pass_(STEP)
        for ghost in ghosts:
            if ghost.closed is None and _closed(made, [ghost]):
                ghost.closed = second
                certain &= not ghost.records or bool(_unconfirmed(made, [ghost]))
    left = [ghost.script for ghost in ghosts if ghost.closed is None]
    report.check(not left, f"no call stays live for {LIMIT} s, not {len(left)}: {sorted(set(left))}")
    if doubts:
        _go_on(made, lasting, report)
    return certain


def _go_on(made: Office, calls: Sequence[Ghost], report: Report) -> None:
    """Calls that go on are live, and nothing casts doubt on them."""
    closed, unsure = _closed(made, calls), _unconfirmed(made, calls)
    report.check(not closed, f"{closed} of {len(calls)} calls that go on are closed")
    error = made.one("SELECT last_error FROM _walks WHERE collection = 'calls'")
    report.check(not unsure, f"{unsure} of {len(calls)} calls that go on are unconfirmed; {error}")


def _settled(made: Office, ghosts: Sequence[Ghost], report: Report) -> None:
    """With their records calls read as if nothing had been lost."""
    unsure = _unconfirmed(made, ghosts)
    report.check(not unsure, f"{unsure} of {len(ghosts)} with a record are still unconfirmed")
    for ghost in ghosts:
        wanted = OUTCOMES.get(ghost.script, "answered")
        outcome = made.one("SELECT outcome FROM _calls WHERE id = ?", _call(made, ghost))
        report.check(outcome == wanted, f"{ghost.script} ends as {wanted}, not {outcome}")
    rows = made.one("SELECT count(*) FROM calls WHERE id IN (SELECT leg_id FROM _legs WHERE state = 'ENDED')")
    report.check(rows == 0, f"no ended leg is among the live calls, not {rows}")


def _call(made: Office, ghost: Ghost) -> int:
    return int(made.one(f"SELECT call_id FROM _legs WHERE leg_id IN ({ghost.legs}) LIMIT 1"))


def _closed(made: Office, calls: Sequence[Ghost]) -> int:
    return _count(made, calls, "state = 'ended'")


def _unconfirmed(made: Office, calls: Sequence[Ghost]) -> int:
    return _count(made, calls, "unconfirmed")


def _count(made: Office, calls: Sequence[Ghost], condition: str) -> int:
    legs = ",".join(call.legs for call in calls) or "NULL"
    sql = f"SELECT count(*) FROM _calls WHERE id IN (SELECT call_id FROM _legs WHERE leg_id IN ({legs}))"
    return int(made.one(f"{sql} AND {condition}"))


def _worst(ghosts: Sequence[Ghost]) -> float:
    return max((ghost.closed or float("inf") for ghost in ghosts), default=0.0)
