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

from integration.core import atomic_files as durable
from integration.core import clock
from integration.core.consumer import Loop
from integration.core.errors import StorageError
from integration.core.health import Health
from integration.server.control_channel import Arguments, Handler, Progress, Result, Unfinished, handler_of

log = logging.getLogger(__name__)

FILE = "unfinished.json"
NAME = "work left by a command"

COURTESY_SECONDS = 10.0
"""How long the command has to come for its work itself."""

LOOK_SECONDS = 5.0


def keep(data_dir: Path, command: str, arguments: Arguments) -> None:
    """Write down what is left, for whoever writes next; on a full disk only the command itself knows."""
    try:
        durable.write_text(data_dir / FILE, json.dumps({"command": command, "arguments": arguments}))
    except OSError as error:
        log.warning("what is left of %s could not be written down: %s", command, error)


def drop(data_dir: Path) -> None:
    """It is done, or nobody wants it any more."""
    (data_dir / FILE).unlink(missing_ok=True)


class Leftover:
    """The running process's side: finishes what a command left, asked by the command or not."""

    def __init__(self, data_dir: Path, handlers: Mapping[str, Handler], health: Health) -> None:
        self._data_dir = data_dir
        self._handlers = dict(handlers)
        self._health = health
        self._doing = threading.Lock()
        self._since: float | None = None
        self.stopping = threading.Event()
        self._loop = Loop(NAME, self.look, LOOK_SECONDS, health)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """End at the next commit; what is left then is for the next process. Safe to call twice."""
        self.stopping.set()
        self._loop.stop()

    def look(self) -> None:
        """Finish what lies there for longer than its command would need to ask for it. Raises what the work
        raises; a StorageError leaves it there."""
        if self._doing.locked() or not (self._data_dir / FILE).exists():
            self._since = None
            return
        if self._since is None:
            self._since = clock.monotonic()
        if clock.monotonic() - self._since < COURTESY_SECONDS:
            return
        kept = json.loads((self._data_dir / FILE).read_text())
        progress = Progress(lambda _: self._health.beat(NAME), lambda: not self.stopping.is_set())
        try:
            result = self.finish(kept["command"], kept["arguments"], progress)
        except Unfinished:
            return
        log.info("%s, which a command had left, is finished: %s", kept["command"], result)

    def finish(self, command: str, arguments: Arguments, progress: Progress) -> Result:
        """Do what is left. Raises Unfinished, with the rest written down, and what the handler raises."""
        with self._doing:
            try:
                result = handler_of(self._handlers, command)(arguments, progress)
            except Unfinished as left:
                keep(self._data_dir, command, left.arguments)
                raise
            except StorageError:
                # A disk that is full or held by another program: worth another try.
                raise
            except Exception:
                drop(self._data_dir)
                raise
            drop(self._data_dir)
            return result
