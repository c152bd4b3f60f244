"""The clockwork that lets calls happen in real time.

`speed` makes calls shorter; all times told are real ones. A CDR appears some seconds after its leg ended, a
recording later still.
"""

from __future__ import annotations

import heapq
import random
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from integration.core import clock
from integration.simulator.calls.legs import Leg, Plan, Step
from integration.simulator.calls.player import Made, Player, recorded
from integration.simulator.world import World

_CDR_LAG = (2.0, 8.0)
_RECORDING_LAG = (6.0, 20.0)


@dataclass(slots=True, eq=False)
class Running:
    """A call under way: `made` grows as it goes; `turn` changes when somebody takes it over."""

    plan: Plan
    made: Made
    turn: int = 0
    lag: tuple[float, float] | None = None
    silent: bool = False
    left: list[Leg] = field(default_factory=list)


class Traffic:
    """Runs calls on one thread. `stop()` ends it; an error in it is printed and kept in `error`."""

    def __init__(self, world: World, player: Player, quiet_player: Player, speed: float = 1.0) -> None:
        self.world = world
        self.player = player
        self.quiet_player = quiet_player
        self.speed = speed
        self.error: str | None = None
        self._rng = random.Random(f"traffic {world.seed}")
        self._queue: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._running: dict[int, Running] = {}
        self._thread = threading.Thread(target=self._run, name="simulator-traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(2)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def at(self, moment: float, what: Callable[[float], None]) -> None:
        """Call `what(moment)` at Unix time `moment`."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._queue, (moment, self._count, what))
            self._changed.notify_all()

    # -- calls on demand ---------------------------------------------------------------------------

    def play(self, plan: Plan, *, silent: bool = False, lag: tuple[float, float] | None = None) -> Running:
        """Let `plan` happen from now on, in real time. `lag`: seconds until CDR and recording."""
        running = Running(plan, Made([leg.id for leg in plan.legs]), lag=lag, silent=silent)
        now = clock.unix()
        with self.world.lock:
            # What begins at once has begun when this returns: the call can be asked for.
            for leg in plan.legs:
                self._running[leg.id] = running
            for step in [step for step in plan.steps if step.at <= 0]:
                self._step(running, step, now)
        self._schedule(running, [step for step in plan.steps if step.at > 0], now)
        return running

    def play_at_once(
        self,
        plan: Plan,
        *,
        silent: bool = False,
        until: str | None = None,
        lag: tuple[float, float] | None = None,
    ) -> Running:
        """Let `plan` have happened until now: its events are told at once, with times of the past.

        `until` stops after the first event of that name and leaves the call as it is then. Without `lag`
        CDRs and recordings are there when this returns.
        """
        running = Running(plan, Made([leg.id for leg in plan.legs]), lag=lag or (0.0, 0.0), silent=silent)
        steps = plan.steps
        if until is not None:
            stop = next((n for n, step in enumerate(steps) if step.event == until), len(steps) - 1)
            steps = steps[: stop + 1]
        start = clock.unix() - steps[-1].at
        with self.world.lock:
            for leg in plan.legs:
                self._running[leg.id] = running
            for step in steps:
                self._step(running, step, start + step.at)
        return running

    def running(self, leg_id: int) -> Running | None:
        return self._running.get(leg_id)

    def take_over(self, running: Running, steps: list[Step]) -> None:
        """Drop what was planned for a call and let `steps` happen instead, their times from now."""
        running.turn += 1
        running.plan.steps = steps
        for step in steps:
            if step.leg not in running.plan.legs:
                running.plan.legs.append(step.leg)
                running.made.leg_ids.append(step.leg.id)
        now = clock.unix()
        with self.world.lock:
            for step in [step for step in steps if step.at <= 0]:
                self._step(running, step, now)
        self._schedule(running, [step for step in steps if step.at > 0], now)

    def _schedule(self, running: Running, steps: list[Step], start: float) -> None:
        for leg in running.plan.legs:
            self._running[leg.id] = running
        turn = running.turn
        for step in steps:
            self.at(start + step.at / self.speed, lambda at, step=step: self._due(running, turn, step, at))  # type: ignore[misc]

    def _due(self, running: Running, turn: int, step: Step, at: float) -> None:
        if running.turn == turn:
            self._step(running, step, at)

    def _step(self, running: Running, step: Step, at: float) -> None:
        leg, plan = step.leg, running.plan
        was_over = leg.ended is not None
        player = self.quiet_player if running.silent else self.player
        event = player.step(plan, step, at)
        if event is not None:
            running.made.events.append(event)
        if leg.ended is None or was_over:
            return
        self._running.pop(leg.id, None)
        cdr_lag, recording_lag = running.lag or (
            self._rng.uniform(*_CDR_LAG) / self.speed,
            self._rng.uniform(*_RECORDING_LAG) / self.speed,
        )
        self._later(cdr_lag, at, lambda _: self._file(running, leg))
        if leg.connected is not None and recorded(leg):
            self._later(recording_lag, at, lambda moment: self._record(running, leg, moment))

    def _later(self, lag: float, at: float, what: Callable[[float], None]) -> None:
        if lag <= 0:
            what(at)
        else:
            self.at(max(at, clock.unix()) + lag, what)

    def _file(self, running: Running, leg: Leg) -> None:
        cdr = self.player.file_cdr(running.plan, leg)
        if cdr is not None:
            running.made.cdr_ids.append(cdr["id"])
        message = running.plan.message
        if message is not None and message.leg is leg:
            record = self.player.file_message(running.plan)
            if record is not None:
                running.made.voicemessage_ids.append(record["id"])

    def _record(self, running: Running, leg: Leg, at: float) -> None:
        player = self.quiet_player if running.silent else self.player
        monitor, event = player.file_recording(leg, at)
        running.made.monitor_ids.append(monitor["id"])
        if event is not None:
            running.made.events.append(event)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                wait = self._queue[0][0] - clock.unix() if self._queue else None
                if wait is None or wait > 0:
                    self._changed.wait(None if wait is None else min(wait, 1.0))
                    continue
                moment, _, what = heapq.heappop(self._queue)
            try:
                what(moment)
            except Exception as error:  # noqa: BLE001  one broken call must not end all traffic; it is shown
                self.error = f"{type(error).__name__}: {error}"
                traceback.print_exc(file=sys.stderr)
