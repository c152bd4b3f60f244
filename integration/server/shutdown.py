"""Stop of a worker, requested through a pipe from its supervisor.

A byte requests a clean stop; end of file means that the supervisor was killed. SIGTERM or SIGINT to the
worker also request a clean stop, because a service manager sends them to all processes.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

log = logging.getLogger(__name__)

NAME = "stop watcher"
"""Name of the thread and of its health check."""
TICK_MILLISECONDS = 1000
STALLED_SECONDS = 15.0
"""Seconds without a heartbeat after which the health check is stalled."""

EXIT_BROKEN = 70
"""Exit status of a worker whose disk failed or with a damaged database.

Only a new process can use the database again.
"""

EXIT_ORPHANED = 71
"""Exit status of a worker whose supervisor was killed."""


def watch_stop_pipe(
    stop_pipe: int,
    on_stop: Callable[[], None],
    on_orphaned: Callable[[], None],
    on_tick: Callable[[], None],
) -> threading.Thread:
    """Watch the stop pipe in a thread, which is returned.

    The thread calls `on_stop` once, at the first byte, SIGTERM or SIGINT; `on_orphaned` at end of file; and
    `on_tick` at least every TICK_MILLISECONDS. Must be called on the main thread, because signals are
    received through their wake-up descriptor.
    """
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    os.set_blocking(wakeup_read, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_run, args=(stop_pipe, wakeup_read, on_stop, on_orphaned, on_tick), name=NAME, daemon=True
    )
    thread.start()
    return thread


def _run(
    stop_pipe: int,
    wakeup_read: int,
    on_stop: Callable[[], None],
    on_orphaned: Callable[[], None],
    on_tick: Callable[[], None],
) -> None:
    is_stopping = False
    poll = select.poll()
    poll.register(stop_pipe, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll(TICK_MILLISECONDS)}
        on_tick()
        is_requested = False
        if stop_pipe in ready:
            if not os.read(stop_pipe, 64):
                on_orphaned()
                return
            is_requested = True
        if wakeup_read in ready:
            is_requested = is_requested or bool(
                {signal.SIGTERM, signal.SIGINT} & set(os.read(wakeup_read, 64))
            )
        if is_requested and not is_stopping:
            is_stopping = True
            # In another thread, because the supervisor may be killed while this worker stops.
            threading.Thread(target=on_stop, name="stopping", daemon=True).start()


def exit_broken(error: BaseException) -> NoReturn:
    """End the process at once after a disk failure.

    The supervisor starts a new worker. This function is passed to each `Database` as `on_broken` (promise
    P18: a failed handle is not used again).
    """
    log.critical("ending this worker: %s", error)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(EXIT_BROKEN)
