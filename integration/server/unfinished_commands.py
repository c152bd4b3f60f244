"""Stored remaining work of an interrupted command.

The work is stored on disk until a process has finished it. The command sends this work to the new `serve` and
waits for the result. If the command was killed, `serve` finishes the stored work without a request.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

from integration.core import atomic_files, clock
from integration.core.commands import Arguments, Progress, Result, Unfinished, find_handler
from integration.core.errors import StorageError
from integration.core.health import Health

log = logging.getLogger(__name__)

UNFINISHED_FILE = "unfinished.json"
"""File in `data_dir` with the command and arguments of the remaining work, as JSON."""
NAME = "work left by a command"
"""Name of the job and of its health check."""

GRACE_SECONDS = 10.0
"""Seconds in which the command can request its remaining work before `serve` starts it."""

CHECK_SECONDS = 5.0
"""Seconds between two checks for stored work."""


def save(data_dir: Path, command: str, arguments: Arguments) -> None:
    """Store the remaining work for the next writer.

    If the write fails, a warning is logged, and only the command itself can request the work.
    """
    try:
        atomic_files.write_text(
            data_dir / UNFINISHED_FILE, json.dumps({"command": command, "arguments": arguments})
        )
    except OSError as error:
        log.warning("cannot store the remaining work of %s: %s", command, error)


def remove(data_dir: Path) -> None:
    """Remove the stored work, which is finished or failed."""
    (data_dir / UNFINISHED_FILE).unlink(missing_ok=True)


class UnfinishedCommands:
    """Finish the stored work in the running process.

    The command may request this; without a request, `finish_due` does.
    """

    def __init__(self, data_dir: Path, context: Any, health: Health) -> None:
        self._data_dir = data_dir
        self._context = context
        self._health = health
        self._running_lock = threading.Lock()
        self._found_at: float | None = None
        self.stopping = threading.Event()

    def stop(self) -> None:
        """End at the next commit; keep the rest for the next process.

        Safe to call twice.
        """
        self.stopping.set()
        with self._running_lock:
            pass  # The work that held the lock has ended.

    def finish_due(self) -> None:
        """Finish stored work that its command did not request within GRACE_SECONDS.

        Raises the errors of the handler. The work stays stored after a StorageError.
        """
        if self._running_lock.locked() or not (self._data_dir / UNFINISHED_FILE).exists():
            self._found_at = None
            return
        if self._found_at is None:
            self._found_at = clock.monotonic()
        if clock.monotonic() - self._found_at < GRACE_SECONDS:
            return
        stored = json.loads((self._data_dir / UNFINISHED_FILE).read_text())
        progress = Progress(lambda _: self._health.beat(NAME), lambda: not self.stopping.is_set())
        try:
            result = self.finish(stored["command"], stored["arguments"], progress)
        except Unfinished:
            return
        log.info("finished the remaining work of an interrupted %s: %s", stored["command"], result)

    def finish(self, command: str, arguments: Arguments, progress: Progress) -> Result:
        """Run the remaining work and return its result.

        Raises Unfinished after storing the new rest, and the errors of the handler.
        """
        with self._running_lock:
            try:
                result = find_handler(command)(self._context, arguments, progress)
            except Unfinished as unfinished:
                save(self._data_dir, command, unfinished.arguments)
                raise
            except StorageError:
                # The disk is full or the database locked by another program: the next run may succeed.
                raise
            except Exception:
                remove(self._data_dir)
                raise
            remove(self._data_dir)
            return result
