"""Thread that runs actions at their times."""

from __future__ import annotations

import heapq
import sys
import threading
import traceback
from collections.abc import Callable


class TimedActions:
    """Actions in the order of their times, run by a thread until `stop()`.

    `get_time`: returns the current time, in the seconds that `schedule` uses. Errors of actions are printed;
    `error` holds the last of them.
    """

    def __init__(self, name: str, get_time: Callable[[], float]) -> None:
        self.error: str | None = None
        self._get_time = get_time
        self._queue: list[tuple[float, int, Callable[[float], object]]] = []
        self._count = 0
        self._is_stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            # With a time limit: an action may hang, and the daemon thread ends with the process.
            self._thread.join(1)

    def schedule(self, moment: float, action: Callable[[float], object]) -> None:
        """Call `action(moment)` at `moment` on the thread."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._queue, (moment, self._count, action))
            self._changed.notify_all()

    @property
    def next_action_time(self) -> float | None:
        """Time of the next action; None without one."""
        with self._changed:
            return self._queue[0][0] if self._queue else None

    def run_next_action(self) -> None:
        """Run the next action, whatever its time."""
        with self._changed:
            moment, _, action = heapq.heappop(self._queue)
        try:
            action(moment)
        except Exception as error:  # noqa: BLE001  one broken action must not end all others; it is shown
            self.error = f"{type(error).__name__}: {error}"
            traceback.print_exc(file=sys.stderr)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_stopping:
                    return
                wait_seconds = self._queue[0][0] - self._get_time() if self._queue else None
                if wait_seconds is None or wait_seconds > 0:
                    self._changed.wait(None if wait_seconds is None else min(wait_seconds, 1.0))
                    continue
            self.run_next_action()
