"""Child processes that run commands and end with this process."""

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
"""Maximum seconds between two checks for output, exit, stop and deadline."""


class ChildProcess:
    """Run `switchroom ARGUMENTS` in a separate session.

    Ctrl-C reaches only this process, which stops its children in order. On Linux the kernel sends the child
    SIGTERM if this process is killed. The child shares the standard error of this process; its standard
    output is read line by line.
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
        """Exit status of the child, None while it runs."""
        return self.process.poll()

    def wait_for_line(self, prefix: str, seconds: float, stop: threading.Event) -> str:
        """Wait for an output line with `prefix` and return its rest.

        Raises SwitchroomError if the child ends first or after `seconds`, KeyboardInterrupt when `stop` is
        set.
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
                        f"{self.name} ended with status {self.exit_status} instead of starting. "
                        "The lines above show the reason."
                    )
                if clock.monotonic() > deadline:
                    raise SwitchroomError(f"{self.name} was not ready after {seconds:.0f} s.")
                self._output_changed.wait(_LINE_TICK_SECONDS)

    def stop(self, seconds: float) -> None:
        """Terminate the child, and kill it if it runs for `seconds` more.

        Safe to call twice.
        """
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
                # Only the first lines are searched. Later lines are read so that the pipe does not fill.
                if len(self._lines) < 100:
                    self._lines.append(line.rstrip("\n"))
                self._output_changed.notify_all()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
