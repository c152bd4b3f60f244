"""Trial of lost webhooks of hang-ups."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.simulator import embed
from integration.simulator.calls.legs import CallOptions, Step
from integration.simulator.calls.traffic import RunningCall
from tests.trials.long_form import LongForm
from tests.trials.tools.local_product import LocalProduct
from tests.trials.trial import Trial

LOST = "webhook-drop@call.hangup,webhook-drop@call.missed,webhook-drop@monitor.audio_ready"
LIMIT = 300
"""Seconds that a call may stay live after its end."""
STEP = 5
LATE = 1200
"""Seconds after which a late record is listed."""
OUTAGE = 1800
LASTING = 3
"""Calls that have not ended."""
OUTAGES = ("status=503", "html", "malformed=json", "status=429/30")

SCRIPTS: tuple[tuple[str, str, CallOptions], ...] = (
    ("plain_answered", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("ring_group_answered", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("ring_group_missed", "ringing", CallOptions(ring_seconds=20)),
    # The queue's music is connected; no person answers.
    ("queue_abandoned", "connected", CallOptions(ring_seconds=20)),
    ("outbound", "connected", CallOptions(talk_seconds=600, has_hold=False)),
    ("internal", "connected", CallOptions(talk_seconds=600, has_hold=False, is_answered=True)),
)
OUTCOMES = {"ring_group_missed": "missed", "queue_abandoned": "missed", "internal": "internal"}


@dataclass
class Call:
    """A call that began.

    `records`: its records that the platform does not list yet.
    """

    script: str
    running: RunningCall
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    closed_after: float | None = None
    """Seconds from its end until it was closed."""

    @property
    def legs(self) -> str:
        return ",".join(str(leg.id) for leg in self.running.plan.legs)


class Ghosts(Trial):
    """A call whose hang-up was lost is closed within five minutes.

    Disturbed: webhooks of hang-ups are lost while the platform lists live calls, while it refuses to list
    them, and during outages of half an hour; some records come late, some never.
    Checked: every ended call is closed within five minutes, with the outcome of its record; without record it
    stays unconfirmed; calls that have not ended stay live; nothing is closed during an outage.
    Detects: legs that are missing from the list and are not requested.
    """

    name = "ghosts"
    size_option, size = "--calls", 60
    bugs, symptoms = ("skip_leg_requests",), ("no call stays live",)
    short = ("--calls 18", "--calls 12 --seed-bug")
    long = LongForm(
        promises=("P27",),
        rounds=("--all-outages",),
        minutes=5,
        remains="the clock is moved",
        expectation="by hand: outcome of each kind of call; hand-written exchanges: trial `exchanges`",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all-outages", action="store_true", help="every kind of outage")

    def disturb(self) -> None:
        with self.run_simulated_product(20) as (self.product, self.simulator):
            self._answer_requests()
        if self.is_seeded:
            return
        with self.run_simulated_product(20) as (self.product, self.simulator):
            self._refuse_list()
        for fault in OUTAGES if self.options.all_outages else OUTAGES[:1]:
            with self.run_simulated_product(20) as (self.product, self.simulator):
                self._fail_requests(fault)

    product: LocalProduct
    simulator: embed.Simulator

    # --- situations ------------------------------------------------------------------------------------

    def _answer_requests(self) -> None:
        """Check ended calls while the platform lists live calls.

        A third of the records come at once, a third late, a third never.
        """
        lasting, ghosts = self._begin(LASTING)
        self._hang_up(ghosts)
        self._list_records(ghosts[::3])
        self.verify(self._advance_to_limit(ghosts, lasting), "closed calls without a record are unconfirmed")
        silent = [ghost for ghost in ghosts if ghost.records]
        unconfirmed = self._count(silent, "unconfirmed")
        self.verify(
            unconfirmed == len(silent), f"{len(silent)} without a record are unconfirmed, not {unconfirmed}"
        )
        page = self.product.get_page(f"/calls/{silent[0].running.plan.legs[0].root_id}")
        self.verify(
            "Not confirmed by the phone system yet" in page, "the page of the call shows it as unconfirmed"
        )
        self.product.advance(LATE)
        self._list_records(ghosts[1::3])
        self.product.advance(120)
        self._check_outcomes([ghost for ghost in ghosts if not ghost.records])
        self._check_live(lasting)
        self.figures.append(f"{len(ghosts)} ended calls closed within {_find_slowest(ghosts):.0f} s")

    def _refuse_list(self) -> None:
        """Refuse to list live calls, and check that records close calls."""
        _, ghosts = self._begin(0)
        self.simulator.context.faults.add("status=403@/calls")
        self._hang_up(ghosts)
        self._list_records(ghosts)
        self._advance_to_limit(ghosts, [])
        self._check_outcomes(ghosts)
        self.figures.append(f"without a list within {_find_slowest(ghosts):.0f} s")

    def _fail_requests(self, fault: str) -> None:
        """Check an outage of half an hour.

        Every call becomes unconfirmed, none is closed.
        """
        lasting, ghosts = self._begin(LASTING)
        self.simulator.context.faults.add(fault)
        self._hang_up(ghosts)
        self._list_records(ghosts)
        calls, unconfirmed_after = [*ghosts, *lasting], None
        for second in range(3 * STEP, OUTAGE + 1, 3 * STEP):
            self.product.advance(3 * STEP)
            if unconfirmed_after is None and self._count(calls, "unconfirmed") == len(calls):
                unconfirmed_after = second
        in_time = unconfirmed_after is not None and unconfirmed_after <= LIMIT
        self.verify(in_time, f"{fault}: all calls are unconfirmed within {LIMIT} s, not {unconfirmed_after}")
        closed = self._count(calls, "state = 'ended'")
        self.verify(not closed, f"{fault}: no call is closed during the outage, not {closed}")
        page = self.product.get_page("/live")
        shown = sum(f'data-call="{self._get_id(one)}" data-group="unconfirmed"' in page for one in calls)
        self.verify(shown == len(calls), f"{fault}: {shown} of {len(calls)} are shown as unconfirmed")
        self.simulator.context.faults.clear()
        self.simulator.context.faults.add(LOST)
        self._advance_to_limit(ghosts, [])
        self._check_outcomes(ghosts)
        self._check_live(lasting)
        self.figures.append(
            f"{fault}: unconfirmed after {unconfirmed_after} s, closed within {_find_slowest(ghosts):.0f} s"
        )

    # --- the platform ----------------------------------------------------------------------------------

    def _begin(self, lasting: int) -> tuple[list[Call], list[Call]]:
        """Begin calls.

        Returns `lasting` calls that will not end, and those that will.
        """
        self.simulator.context.faults.add(LOST)
        world, calls = self.simulator.world, list[Call]()
        for number in range(self.options.size + lasting):
            script, last_event, options = SCRIPTS[number % len(SCRIPTS)]
            with world.lock:
                plan = world.scripts.by_name[script](options)
            for leg in plan.legs:
                leg.is_recorded, leg.logs_missed_calls = False, True
            running = self.simulator.context.traffic.play_instantly(plan, until_event=last_event)
            calls.append(Call(script, running))
        self.verify(self.simulator.context.webhook_sender.wait_until_idle(60), "every webhook is sent")
        for _ in range(60 // STEP):
            self.product.advance(STEP)
        self._check_live(calls)
        return calls[:lasting], calls[lasting:]

    def _hang_up(self, calls: Sequence[Call]) -> None:
        """End calls at the platform; their records are not listed yet."""
        world = self.simulator.world
        for call in calls:
            step = "missed" if OUTCOMES.get(call.script) == "missed" else "hangup"
            legs = [leg for leg in call.running.plan.legs if leg.ended_at is None and leg.started_at]
            steps = [
                Step(0.0, leg, step, cause="Normal Clearing", by="caller", final=leg is legs[-1])
                for leg in legs
            ]
            self.simulator.context.traffic.replace_steps(call.running, steps)
            with world.lock:
                keys = call.running.result.cdr_ids
                call.records["cdrs"] = [world.collections["cdrs"].records.pop(key) for key in keys]

    def _list_records(self, calls: Sequence[Call]) -> None:
        for call in calls:
            with self.simulator.world.lock:
                for name, records in call.records.items():
                    for record in records:
                        self.simulator.world.collections[name].add(record)
            call.records = {}

    # --- the product -----------------------------------------------------------------------------------

    def _advance_to_limit(self, ghosts: Sequence[Call], lasting: Sequence[Call]) -> bool:
        """Let LIMIT seconds pass, and check that `ghosts` are closed.

        Returns whether each of them had a record or was unconfirmed when it was closed.
        """
        is_certain = True
        for second in range(STEP, LIMIT + STEP, STEP):
            self.product.advance(STEP)
            for ghost in ghosts:
                if ghost.closed_after is None and self._count([ghost], "state = 'ended'"):
                    ghost.closed_after = second
                    is_certain &= not ghost.records or bool(self._count([ghost], "unconfirmed"))
        live = [ghost.script for ghost in ghosts if ghost.closed_after is None]
        self.verify(not live, f"no call stays live for {LIMIT} s, not {len(live)}: {sorted(set(live))}")
        self._check_live(lasting)
        return is_certain

    def _check_live(self, calls: Sequence[Call]) -> None:
        """Check that calls which have not ended are live and confirmed."""
        closed, unconfirmed = self._count(calls, "state = 'ended'"), self._count(calls, "unconfirmed")
        self.verify(not closed, f"{closed} of {len(calls)} calls that have not ended are closed")
        error = self.product.query_value("SELECT last_error FROM _walks WHERE collection = 'calls'")
        self.verify(not unconfirmed, f"{unconfirmed} of {len(calls)} live calls are unconfirmed; {error}")

    def _check_outcomes(self, calls: Sequence[Call]) -> None:
        """Check that calls with records have their outcomes."""
        unconfirmed = self._count(calls, "unconfirmed")
        self.verify(not unconfirmed, f"{unconfirmed} of {len(calls)} calls with a record are unconfirmed")
        for call in calls:
            expected = OUTCOMES.get(call.script, "answered")
            outcome = self.product.query_value("SELECT outcome FROM _calls WHERE id = ?", self._get_id(call))
            self.verify(outcome == expected, f"{call.script} ends as {expected}, not {outcome}")
        sql = "SELECT count(*) FROM calls WHERE id IN (SELECT leg_id FROM _legs WHERE state = 'ENDED')"
        rows = self.product.query_value(sql)
        self.verify(rows == 0, f"no ended leg is among the live calls, not {rows}")

    def _get_id(self, call: Call) -> int:
        return int(
            self.product.query_value(f"SELECT call_id FROM _legs WHERE leg_id IN ({call.legs}) LIMIT 1")
        )

    def _count(self, calls: Sequence[Call], condition: str) -> int:
        legs = ",".join(call.legs for call in calls) or "NULL"
        ids = f"SELECT call_id FROM _legs WHERE leg_id IN ({legs})"
        return int(
            self.product.query_value(f"SELECT count(*) FROM _calls WHERE id IN ({ids}) AND {condition}")
        )


def _find_slowest(calls: Sequence[Call]) -> float:
    return max((call.closed_after or float("inf") for call in calls), default=0.0)
