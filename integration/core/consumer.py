"""A named thread that does one thing again and again, watched: its failure shows in the health report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from integration.core.errors import SwitchroomError
from integration.core.health import Health

log = logging.getLogger(__name__)

STALLED_AFTER_SECONDS = 60.0
"""How long one round may take before the watchdog calls the thread stalled, beyond its interval."""

PAUSE_AFTER_FAILURE = 1.0


class Consumer:
    """Calls `work()` after each `wake()`, and every `interval` seconds whether woken or not.

    A round that raises is logged, shown as failing, and tried again after `retry_seconds` seconds, then after
    twice as many and so on up to `interval`; sooner at a `wake()`, but never within a second.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        interval: float,
        health: Health,
        *,
        retry_seconds: float = PAUSE_AFTER_FAILURE,
    ) -> None:
        self.name = name
        self._work = work
        self._interval = interval
        self._retry_seconds = retry_seconds
        self._health = health
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._health.watch(self.name, self._interval + STALLED_AFTER_SECONDS)
        self._thread.start()

    def wake(self) -> None:
        """There is something to do. Never waits; safe on a database's writer thread."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the round at hand, then end. Safe to call twice, and before `start()`."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._health.unwatch(self.name)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            pause = self._interval
            try:
                self._work()
                self._health.ok(self.name)
                failures = 0
            except Exception as error:
                # The thread must outlive a mistake in one round; the health report shows it.
                if isinstance(error, SwitchroomError):
                    log.warning("%s: %s", self.name, error)
                else:
                    log.exception("%s: a round failed", self.name)
                self._health.fail(self.name, error)
                pause = min(self._interval, self._retry_seconds * 2.0 ** min(failures, 30))
                failures += 1
                self._stop.wait(min(pause, PAUSE_AFTER_FAILURE))
                pause -= PAUSE_AFTER_FAILURE
            if pause > 0:
                self._wake.wait(pause)
            self._wake.clear()
