"""Processes of our own program, started beside this one and ended with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from integration.core import clock
from integration.core.errors import SwitchroomError

_ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
_LINE_TICK_SECONDS = 0.1


class ChildProcess:
    """`switchroom ARGUMENTS` in a session of its own: Ctrl-C reaches only us, who end processes in order.

    It is told to end (SIGTERM) by the kernel if we are killed. Its standard output is read here, line by
    line; its standard error is ours.
    """

    def __init__(self, name: str, *arguments: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self._lines: list[str] = []
        self._output_changed = threading.Condition()
        path = os.pathsep.join([str(_ROOT), *filter(None, [environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "integration", *arguments],
            env={**environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        threading.Thread(target=self._read_output, name=f"output of {name}", daemon=True).start()

    @property
    def exit_status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self.process.poll()

    def wait_for_line(self, prefix: str, seconds: float, stop: threading.Event) -> str:
        """What follows `prefix` in the first line of output that begins so, once that came.

        Raises SwitchroomError if the process ends first, or `seconds` pass; KeyboardInterrupt at `stop`.
        """
        deadline = clock.monotonic() + seconds
        with self._output_changed:
            while True:
                for line in self._lines:
                    if line.startswith(prefix):
                        return line[len(prefix) :].strip()
                if stop.is_set():
                    raise KeyboardInterrupt
                if self.exit_status is not None:
                    raise SwitchroomError(
                        f"{self.name} ended with status {self.exit_status} instead of starting"
                    )
                if clock.monotonic() > deadline:
                    raise SwitchroomError(f"{self.name} is not ready after {seconds:.0f} s")
                self._output_changed.wait(_LINE_TICK_SECONDS)

    def stop(self, seconds: float) -> None:
        """Ask it to end, wait, and kill it if it does not. Safe to call twice."""
        if self.exit_status is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._output_changed:
                # Only the first lines tell something; what comes later is read so that the pipe never fills.
                if len(self._lines) < 100:
                    self._lines.append(line.rstrip("\n"))
                self._output_changed.notify_all()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
