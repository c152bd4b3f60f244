"""Scheduler that plays calls in real time.

`speed` shortens calls; all reported times are real. Users of played calls are booked, so that no other
generated call connects them at the same time. A CDR appears 2 to 8 s and a recording 6 to 20 s after
the end of the leg, divided by `speed`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from integration.core import clock
from integration.simulator.calls.legs import CallPlan, Leg, Step
from integration.simulator.calls.occupancy import Occupancy, is_on_other_call, plan_unanswered_end
from integration.simulator.calls.player import Player, is_leg_recorded
from integration.simulator.calls.records import add_webcall
from integration.simulator.calls.timed_actions import TimedActions
from integration.simulator.calls.world import World
from integration.simulator.records.record_fields import Record

_CDR_DELAY_RANGE = (2.0, 8.0)
_RECORDING_DELAY_RANGE = (6.0, 20.0)
"""Range of the seconds from a leg's end to its recording."""


@dataclass(slots=True, eq=False)
class RunningCall:
    """Call in progress, and the ids and webhook bodies of its records so far, in order.

    `plan_version`: increases when `replace_steps` replaces the plan; steps of older versions are skipped.
    `record_delays`: seconds from the end of a leg to its CDR and its recording; None is random.
    `is_generated`: the call was not requested; it ends unanswered if a requested call occupies its user.
    """

    plan: CallPlan
    player: Player
    is_generated: bool = False
    record_delays: tuple[float, float] | None = None
    plan_version: int = 0
    events: list[Record] = field(default_factory=list)
    cdr_ids: list[int] = field(default_factory=list)
    monitor_ids: list[int] = field(default_factory=list)
    voicemessage_ids: list[int] = field(default_factory=list)

    @property
    def leg_ids(self) -> list[int]:
        return [leg.id for leg in self.plan.legs]


class Traffic(TimedActions):
    """Thread that plays calls until `stop()`. Times are Unix seconds.

    Calls that end before `recorded_from` have no recordings. `running_calls`: calls by id of a leg.
    """

    def __init__(self, world: World, player: Player, speed: float = 1.0) -> None:
        super().__init__("simulator-traffic", self.get_time)
        self.world = world
        self.player = player
        self.quiet_player = Player(world)
        self.speed = speed
        self.recorded_from = 0.0
        self.occupancy = Occupancy(speed)
        self._rng = random.Random(f"traffic {world.seed}")
        self.running_calls: dict[int, RunningCall] = {}

    def get_time(self) -> float:
        return clock.unix()

    # -- calls on demand ---------------------------------------------------------------------------

    def play(self, plan: CallPlan, *, is_silent: bool = False) -> RunningCall:
        """Play `plan` in real time from now. `is_silent`: send no webhooks."""
        running, now = RunningCall(plan, self.quiet_player if is_silent else self.player), self.get_time()
        with self.world.lock:
            self.occupancy.book(plan, now, now)
            self.play_steps(running, plan.steps, now)
        return running

    def play_generated(self, plan: CallPlan, latest_start: float) -> bool:
        """Play `plan` as soon as its users are free.

        Returns False, without a call, if they are not free by the Unix time `latest_start`.
        """
        now = self.get_time()
        with self.world.lock:
            start = self.occupancy.find_start(plan, now)
            if start > max(now, latest_start):
                return False
            self.occupancy.book(plan, start, now)
        running = RunningCall(plan, self.player, is_generated=True)
        self.schedule(start, partial(self.play_steps, running, plan.steps))
        return True

    def play_steps(self, running: RunningCall, steps: list[Step], start: float) -> None:
        """Run the steps at offset 0, so that the caller can request the live call; schedule the others."""
        self.run_steps(running, [step for step in steps if step.offset <= 0], start)
        for step in steps:
            if step.offset > 0:
                run_step = partial(self._run_current_step, running, running.plan_version, step)
                self.schedule(start + step.offset / self.speed, run_step)

    def run_steps(self, running: RunningCall, steps: list[Step], start: float) -> None:
        """Run `steps` now; their times follow from `start`. Add the record of a web call."""
        with self.world.lock:
            for leg in running.plan.legs:
                self.running_calls[leg.id] = running
            if running.plan.script == "web_call" and running.plan.webcall is None:
                add_webcall(self.world, running.plan, start)
            for step in steps:
                self._run_step(running, step, start + step.offset)

    def play_instantly(
        self,
        plan: CallPlan,
        *,
        is_silent: bool = False,
        until_event: str | None = None,
        record_delays: tuple[float, float] = (0.0, 0.0),
    ) -> RunningCall:
        """Play `plan` immediately, with past times.

        The last step has the current time.

        `until_event`: stop after the first step of that name; the call stays live.
        `record_delays`: seconds from the end of a leg to its CDR and its recording; by default they exist on
        return.
        """
        running = RunningCall(
            plan, self.quiet_player if is_silent else self.player, record_delays=record_delays
        )
        names = [step.event for step in plan.steps]
        steps = plan.steps[: names.index(until_event) + 1] if until_event in names else plan.steps
        self.run_steps(running, steps, self.get_time() - steps[-1].offset)
        return running

    def replace_steps(self, running: RunningCall, steps: list[Step]) -> None:
        """Replace the remaining steps of a call; offsets start now."""
        running.plan_version += 1
        running.plan.steps = steps
        for step in steps:
            if step.leg not in running.plan.legs:
                running.plan.legs.append(step.leg)
        now = self.get_time()
        with self.world.lock:
            self.occupancy.book(running.plan, now, now)
            self.play_steps(running, steps, now)

    def _run_current_step(
        self, running: RunningCall, plan_version: int, step: Step, unix_time: float
    ) -> None:
        if running.plan_version != plan_version:
            return
        if running.is_generated and step.event == "connected":
            with self.world.lock:
                is_occupied = is_on_other_call(step.leg, self.world.live_legs.values())
            if is_occupied:
                self.replace_steps(running, plan_unanswered_end(running.plan))
                return
        self._run_step(running, step, unix_time)

    def _run_step(self, running: RunningCall, step: Step, unix_time: float) -> None:
        leg, plan = step.leg, running.plan
        had_ended = leg.ended_at is not None
        event = running.player.apply_step(plan, step, unix_time)
        if event is not None:
            running.events.append(event)
        if leg.ended_at is None or had_ended:
            return
        self.running_calls.pop(leg.id, None)
        cdr_delay, recording_delay = running.record_delays or (
            self._rng.uniform(*_CDR_DELAY_RANGE) / self.speed,
            self._rng.uniform(*_RECORDING_DELAY_RANGE) / self.speed,
        )
        self._run_after(cdr_delay, unix_time, lambda _: self._store_cdr(running, leg))
        if leg.connected_at is not None and is_leg_recorded(leg) and unix_time >= self.recorded_from:
            self._run_after(
                recording_delay, unix_time, lambda moment: self._store_recording(running, leg, moment)
            )

    def _run_after(self, delay: float, unix_time: float, action: Callable[[float], None]) -> None:
        if delay <= 0:
            action(unix_time)
        else:
            self.schedule(max(unix_time, self.get_time()) + delay, action)

    def _store_cdr(self, running: RunningCall, leg: Leg) -> None:
        cdr = running.player.store_cdr(running.plan, leg)
        if cdr is not None:
            running.cdr_ids.append(cdr["id"])
        message = running.plan.message
        if message is not None and message.leg is leg:
            running.voicemessage_ids.append(running.player.store_voicemail(message)["id"])

    def _store_recording(self, running: RunningCall, leg: Leg, unix_time: float) -> None:
        monitor, event = running.player.store_recording(leg, unix_time)
        running.monitor_ids.append(monitor["id"])
        if event is not None:
            running.events.append(event)
