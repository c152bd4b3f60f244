"""Stored remaining work of an interrupted command.

The command requests this work from the process that interrupted it. If the command is killed before it has a
result, `serve` finishes the work. The command holds an flock on the file meanwhile, which ends with it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.core import atomic_files
from integration.core.commands import Arguments, Progress, Unfinished, find_handler
from integration.core.errors import StorageError
from integration.core.health import Health

log = logging.getLogger(__name__)

UNFINISHED_FILE = "unfinished.json"
"""File in `data_dir` with the command and arguments of the remaining work, as JSON."""
NAME = "work left by a command"
"""Name of the job and of its health check."""

CHECK_SECONDS = 5.0
"""Seconds between two checks for stored work."""


@contextmanager
def store(data_dir: Path, command: str, arguments: Arguments) -> Iterator[None]:
    """Store the remaining work until the end of the context, or of a process that is killed in it.

    If the write fails, a warning is logged, and only the command itself can request the work.
    """
    path = data_dir / UNFINISHED_FILE
    try:
        atomic_files.write_text(path, json.dumps({"command": command, "arguments": arguments}))
        file = path.open()
    except OSError as error:
        log.warning("cannot store the remaining work of %s: %s", command, error)
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def finish(data_dir: Path, context: Any, health: Health, stopping: threading.Event) -> None:
    """Finish stored work whose command was killed.

    Raises the errors of the handler. The work stays stored after a StorageError, and if `stopping` is set.
    """
    path = data_dir / UNFINISHED_FILE
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stored = json.loads(path.read_text())
    except (FileNotFoundError, BlockingIOError):
        return  # There is none, or its command requests it.
    progress = Progress(lambda _: health.beat(NAME), lambda: not stopping.is_set())
    try:
        result = find_handler(stored["command"])(context, stored["arguments"], progress)
    except Unfinished:
        return
    except StorageError:
        # The disk is full or the database locked by another program: the next run may succeed.
        raise
    except Exception:
        path.unlink()
        raise
    path.unlink()
    log.info("finished the remaining work of an interrupted %s: %s", stored["command"], result)
