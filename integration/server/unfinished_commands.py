"""Work that an interrupted command left: stored on disk until a process has finished it.

The command sends it to the new `serve` and waits for the result. If the command was killed, `serve` finds the
work itself.
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
NAME = "work left by a command"

GRACE_SECONDS = 10.0
"""Seconds in which the command itself may request its work."""

CHECK_SECONDS = 5.0


def save(data_dir: Path, command: str, arguments: Arguments) -> None:
    """Store the work that is left for the next writer. On a full disk only the command itself has it."""
    try:
        atomic_files.write_text(
            data_dir / UNFINISHED_FILE, json.dumps({"command": command, "arguments": arguments})
        )
    except OSError as error:
        log.warning("what is left of %s could not be written down: %s", command, error)


def remove(data_dir: Path) -> None:
    """Remove the stored work: it is done or failed."""
    (data_dir / UNFINISHED_FILE).unlink(missing_ok=True)


class UnfinishedCommands:
    """Finishes the stored work in the running process, on the command's request or without it."""

    def __init__(self, data_dir: Path, context: Any, health: Health) -> None:
        self._data_dir = data_dir
        self._context = context
        self._health = health
        self._running_lock = threading.Lock()
        self._found_at: float | None = None
        self.stopping = threading.Event()

    def stop(self) -> None:
        """End at the next commit and keep the rest for the next process. Safe to call twice."""
        self.stopping.set()
        with self._running_lock:
            pass  # The work that held it has ended.

    def finish_due(self) -> None:
        """Finish work that its command did not request in GRACE_SECONDS. Raises what the handler raises.

        The work stays stored after a StorageError.
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
        log.info("%s, which a command had left, is finished: %s", stored["command"], result)

    def finish(self, command: str, arguments: Arguments, progress: Progress) -> Result:
        """Do the work that is left. Raises Unfinished after storing the rest, and what the handler raises."""
        with self._running_lock:
            try:
                result = find_handler(command)(self._context, arguments, progress)
            except Unfinished as unfinished:
                save(self._data_dir, command, unfinished.arguments)
                raise
            except StorageError:
                # The disk is full or locked by another program: the next run may succeed.
                raise
            except Exception:
                remove(self._data_dir)
                raise
            remove(self._data_dir)
            return result
