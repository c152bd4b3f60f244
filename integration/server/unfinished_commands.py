"""What a command left undone when it made way for `serve`: on disk until somebody has finished it.

The command asks the new `serve` for it and waits for the result. One that was killed meanwhile can't; so
`serve` looks for itself.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from integration.core import atomic_files, clock
from integration.core.commands import Arguments, Handler, Progress, Result, Unfinished, find_handler
from integration.core.errors import StorageError
from integration.core.health import Health

log = logging.getLogger(__name__)

UNFINISHED_FILE = "unfinished.json"
NAME = "work left by a command"

GRACE_SECONDS = 10.0
"""How long the command has to come for its work itself."""

CHECK_SECONDS = 5.0


def save(data_dir: Path, command: str, arguments: Arguments) -> None:
    """Write down what is left, for whoever writes next; on a full disk only the command itself knows."""
    try:
        atomic_files.write_text(
            data_dir / UNFINISHED_FILE, json.dumps({"command": command, "arguments": arguments})
        )
    except OSError as error:
        log.warning("what is left of %s could not be written down: %s", command, error)


def remove(data_dir: Path) -> None:
    """It is done, or nobody wants it any more."""
    (data_dir / UNFINISHED_FILE).unlink(missing_ok=True)


class UnfinishedCommands:
    """The running process's side: finishes what a command left, asked by the command or not."""

    def __init__(self, data_dir: Path, handlers: Mapping[str, Handler], health: Health) -> None:
        self._data_dir = data_dir
        self._handlers = dict(handlers)
        self._health = health
        self._running_lock = threading.Lock()
        self._found_at: float | None = None
        self.stopping = threading.Event()

    def stop(self) -> None:
        """End at the next commit; what is left then is for the next process. Safe to call twice."""
        self.stopping.set()
        with self._running_lock:
            pass  # The work that held it has ended.

    def finish_due(self) -> None:
        """Finish what lies there for longer than its command would need to ask for it. Raises what the work
        raises; a StorageError leaves it there."""
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
        """Do what is left. Raises Unfinished, with the rest written down, and what the handler raises."""
        with self._running_lock:
            try:
                result = find_handler(self._handlers, command)(arguments, progress)
            except Unfinished as unfinished:
                save(self._data_dir, command, unfinished.arguments)
                raise
            except StorageError:
                # A disk that is full or held by another program: worth another try.
                raise
            except Exception:
                remove(self._data_dir)
                raise
            remove(self._data_dir)
            return result
