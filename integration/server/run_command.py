"""Run a command in the writer, else in this process.

A command that works alone also opens the control channel and runs other commands that are sent to it. A
starting `serve` stops the command at its next commit and finishes its work. The command then returns the
result of `serve`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration.core import clock, process_lock, process_memory
from integration.core.commands import Arguments, Progress, Result, Unfinished, find_handler
from integration.core.errors import SwitchroomError
from integration.server import unfinished_commands
from integration.server.control_channel import YIELD_COMMAND, ControlChannel, send_command
from integration.server.exits import exit_broken
from integration.server.tenant import is_same_customer
from integration.settings.data_dir_secrets import claim_data_dir

if TYPE_CHECKING:
    from integration.context import AppContext
    from integration.settings.model import Settings

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 60.0
"""Seconds to wait for a holder of the lock that does not respond.

Such a process is starting or ending.
"""

ENDING_SECONDS = 1.0
"""Seconds that a starting `serve` waits for another `serve` that may just have been killed.

Between the signal and its end such a process looks alive, for longer if the machine is busy.
"""

GRACE_SECONDS = 5.0
"""Seconds that an interrupted command waits for `serve` before it continues alone."""

_RETRY_SECONDS = 0.05
"""Seconds between two attempts to send the command or to acquire the lock."""
_CLOSE_SECONDS = 5.0
"""Maximum seconds that a command waits for commands sent to it."""


def run_command(
    settings: Settings,
    command: str,
    arguments: Arguments,
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run `command` in the writer and return its result.

    `on_progress` receives the progress. `on_notice` receives a line for the user when another process takes
    over. Raises the errors of the handler, and SwitchroomError if the writer does not respond.
    """
    data_dir = settings.storage.data_dir
    if not data_dir.exists():
        # Without this line a typing error in the setting looks like an empty installation.
        on_notice(f"storage.data_dir: {data_dir} did not exist and is created")
    create_data_dir(data_dir)
    return run_command_with(
        data_dir, command, arguments, lambda: _open_context(settings), on_progress, on_notice
    )


def create_data_dir(data_dir: Path) -> None:
    """Create `data_dir` if it is missing. Raises SwitchroomError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SwitchroomError(
            f"storage.data_dir: {data_dir.absolute()} cannot be created: {error.strerror}. "
            "Give this user access, or choose another folder."
        ) from error


@contextmanager
def _open_context(settings: Settings) -> Iterator[AppContext]:
    """Build the product in this process, without starting its jobs."""
    # Imported on first use, because a command that another process runs does not need the module.
    from integration.factory import Product

    claim_data_dir(settings, lambda: is_same_customer(settings))
    product = Product(settings, on_broken=exit_broken)
    process_memory.exempt_loaded_objects()
    try:
        yield product.context
    finally:
        product.stop()


def run_command_with(
    data_dir: Path,
    command: str,
    arguments: Arguments,
    open_context: Callable[[], AbstractContextManager[Any]],
    on_progress: Callable[[dict[str, Any]], None],
    on_notice: Callable[[str], None],
) -> Result:
    """Run `command` like `run_command`.

    `open_context()` opens the context of handlers if this process is the writer.
    """
    deadline, lock_allowed_at = clock.monotonic() + LOCK_WAIT_SECONDS, 0.0
    waiting = threading.Event()
    with ExitStack() as stored_work:
        while True:
            try:
                result = send_command(data_dir, command, arguments, on_progress)
                if result is not None:
                    return result
                if clock.monotonic() >= lock_allowed_at:
                    with process_lock.acquire(data_dir, command.partition(".")[0]), open_context() as context:
                        return _run_alone(data_dir, context, command, arguments, on_progress, stored_work)
            except process_lock.LockHeld as lock_error:
                if clock.monotonic() > deadline:
                    raise
                log.debug("%s", lock_error)
            except Unfinished as unfinished:
                arguments = unfinished.arguments
                # A `serve` is starting, or restarting, and must get the lock first. If it does not start,
                # this process finishes the work.
                lock_allowed_at = clock.monotonic() + GRACE_SECONDS
                deadline = lock_allowed_at + LOCK_WAIT_SECONDS
                on_notice("`switchroom serve` is starting or ending; the command continues in its successor")
            waiting.wait(_RETRY_SECONDS)


def _run_alone(
    data_dir: Path,
    context: Any,
    command: str,
    arguments: Arguments,
    on_progress: Callable[[dict[str, Any]], None],
    stored_work: ExitStack,
) -> Result:
    channel = ControlChannel(data_dir, context, can_yield=True)
    try:
        progress = Progress(on_progress, lambda: not channel.stopping.is_set())
        return find_handler(command)(context, arguments, progress)
    except Unfinished as unfinished:
        # Before the lock is released: this process may be killed before it sends the rest to `serve`.
        stored_work.enter_context(unfinished_commands.store(data_dir, command, unfinished.arguments))
        raise
    finally:
        channel.close(_CLOSE_SECONDS)


def acquire_for_serve(data_dir: Path, on_notice: Callable[[str], None]) -> process_lock.Lock:
    """Acquire the lock for a starting `serve`.

    A command that works alone ends at its next commit. Raises process_lock.LockHeld if another `serve` runs,
    or if a command does not end within LOCK_WAIT_SECONDS.
    """
    began = clock.monotonic()
    notified_holder: process_lock.Holder | None = None
    pause = threading.Event()
    while True:
        try:
            return process_lock.acquire(data_dir, "serve")
        except process_lock.LockHeld as lock_error:
            holder = lock_error.holder
            # The worker of a killed `serve` ends soon.
            is_serve = holder is not None and holder.purpose == "serve" and holder.is_alive
            if clock.monotonic() - began > (ENDING_SECONDS if is_serve else LOCK_WAIT_SECONDS):
                raise
            if not is_serve and holder not in (None, notified_holder) and _request_yield(data_dir):
                notified_holder = holder
                on_notice(f"waiting for {holder} to reach its next commit")
        pause.wait(_RETRY_SECONDS)


def _request_yield(data_dir: Path) -> bool:
    try:
        return send_command(data_dir, YIELD_COMMAND, {}) is not None
    except (SwitchroomError, Unfinished) as error:
        log.debug("cannot send the yield command: %s", error)
        return False
