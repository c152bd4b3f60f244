"""Background thread that runs on events and reports to Health."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from integration.core import retry_delays
from integration.core.backoff import Backoff, doubling
from integration.core.errors import SwitchroomError
from integration.core.health import Health

log = logging.getLogger(__name__)

CHECK_SECONDS = 30.0
"""Seconds between two runs without a wake-up, in case a wake-up was lost."""
STALLED_AFTER_SECONDS = 60.0
"""Seconds without a heartbeat, beyond the interval, after which the thread counts as stalled."""


class Consumer:
    """Call `work()` after each `wake()`, at the latest every `check_every` seconds.

    A run that raises is logged, shown as failing, and retried after FIRST_OF_JOBS seconds, then after twice
    as long, up to `check_every`; a `wake()` shortens that to FIRST_OF_JOBS.
    """

    def __init__(
        self, name: str, work: Callable[[], object], health: Health, *, check_every: float = CHECK_SECONDS
    ) -> None:
        self.name = name
        self._work = work
        self._check_every = check_every
        self._health = health
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._health.watch(self.name, self._check_every + STALLED_AFTER_SECONDS)
        self._thread.start()

    def wake(self) -> None:
        """Request a run.

        Does not block, so the writer thread of a database may call this.
        """
        self._wake.set()

    def stop(self) -> None:
        """Finish the current run, then end the thread.

        Safe to call twice, and before `start()`.
        """
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._health.unwatch(self.name)

    def _run(self) -> None:
        backoff = Backoff(doubling(retry_delays.FIRST_OF_JOBS, self._check_every))
        while not self._stop.is_set():
            pause = self._check_every
            try:
                self._work()
                self._health.ok(self.name)
                backoff.succeeded()
            except Exception as error:
                # The thread must survive an unexpected error in one run; the health report shows the error.
                if isinstance(error, SwitchroomError):
                    log.warning("%s: %s", self.name, error)
                else:
                    log.exception("%s: a run failed", self.name)
                self._health.fail(self.name, error)
                pause = backoff.failed()
                self._stop.wait(min(pause, retry_delays.FIRST_OF_JOBS))
                pause -= retry_delays.FIRST_OF_JOBS
            if pause > 0:
                self._wake.wait(pause)
            self._wake.clear()
