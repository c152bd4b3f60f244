"""Commands that write: done by the process that writes already, or else here, as the one writer.

Whoever works alone opens the same channel, so that a second command is done by it, and ends at its next
commit when `serve` starts: what is left is then asked of `serve`, and its result is the result here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.core import clock, process_lock
from integration.core.commands import Arguments, Handler, Progress, Result, Unfinished, find_handler
from integration.core.errors import SwitchroomError
from integration.server import unfinished_commands
from integration.server.control_channel import YIELD_COMMAND, CommandMoved, ControlChannel, send_command
from integration.server.shutdown import exit_broken
from integration.server.tenant import is_same_customer
from integration.settings.data_dir_secrets import claim_data_dir
from integration.settings.model import Settings

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 60.0
"""How long to wait for a process that holds the lock but does not answer: it is starting or ending."""

GRACE_SECONDS = 10.0
"""How long a command that made way for a `serve` waits for it before it works alone again."""

_RETRY_SECONDS = 0.05
_CLOSE_SECONDS = 5.0


def run_command(
    settings: Settings,
    command: str,
    arguments: Arguments,
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Result:
    """Do `command` wherever the writer is, and return its result.

    `on_notice` gets a line for people when the work changes hands. Raises what the handler raises,
    SwitchroomError if the writer does not answer.
    """
    data_dir = settings.storage.data_dir
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SwitchroomError(f"storage.data_dir: {data_dir}: can't be made: {error.strerror}") from error
    return run_command_with(
        data_dir, command, arguments, lambda: _open_handlers(settings), on_progress, on_notice
    )


@contextmanager
def _open_handlers(settings: Settings) -> Iterator[Mapping[str, Handler]]:
    """The product's commands in this process, without its scheduler."""
    # Imported when first needed: the command that hands over needs none of it.
    from integration.factory import build

    claim_data_dir(settings, lambda: is_same_customer(settings))
    product = build(settings, on_broken=exit_broken)
    try:
        yield product.commands
    finally:
        product.stop()


def run_command_with(
    data_dir: Path,
    command: str,
    arguments: Arguments,
    handlers: Callable[[], Any],
    on_progress: Callable[[dict[str, Any]], None],
    on_notice: Callable[[str], None],
) -> Result:
    """As `run_command`, with `handlers()` a context manager that gives the handlers for working alone."""
    deadline = clock.monotonic() + LOCK_WAIT_SECONDS
    lock_allowed_at, is_continuation = 0.0, False
    waiting = threading.Event()
    while True:
        try:
            result = send_command(data_dir, command, arguments, on_progress, finish=is_continuation)
            if result is not None:
                return result
            if clock.monotonic() < lock_allowed_at:
                waiting.wait(_RETRY_SECONDS)
                continue
            writer_lock = process_lock.acquire(data_dir, command.partition(".")[0])
        except CommandMoved as moved:
            arguments = moved.arguments
            deadline = clock.monotonic() + LOCK_WAIT_SECONDS
            on_notice("the process that worked on this is ending; going on with its successor")
            continue
        except process_lock.LockHeld as lock_error:
            if clock.monotonic() > deadline:
                raise
            log.debug("%s", lock_error)
            waiting.wait(_RETRY_SECONDS)
            continue
        try:
            result = _run_alone(data_dir, writer_lock, command, arguments, handlers, on_progress)
            if is_continuation:
                unfinished_commands.remove(data_dir)
            return result
        except Unfinished as unfinished:
            arguments, is_continuation = unfinished.arguments, True
            # Whoever asked for the lock must get it first; if it never opens, the work is ours again.
            lock_allowed_at = clock.monotonic() + GRACE_SECONDS
            deadline = lock_allowed_at + LOCK_WAIT_SECONDS
            on_notice("`switchroom serve` is starting and takes this over")


def _run_alone(
    data_dir: Path,
    writer_lock: process_lock.Lock,
    command: str,
    arguments: Arguments,
    handlers: Callable[[], Any],
    on_progress: Callable[[dict[str, Any]], None],
) -> Result:
    with writer_lock, handlers() as command_handlers:
        channel = ControlChannel(data_dir, command_handlers, can_yield=True)
        try:
            handler = find_handler(command_handlers, command)
            return handler(arguments, Progress(on_progress, lambda: not channel.stopping.is_set()))
        except Unfinished as unfinished:
            # While the lock is still ours: we may be killed before the new `serve` hears of it from us.
            unfinished_commands.save(data_dir, command, unfinished.arguments)
            raise
        finally:
            channel.close(_CLOSE_SECONDS)


def acquire_for_serve(data_dir: Path, on_notice: Callable[[str], None]) -> process_lock.Lock:
    """The lock for a starting `serve`: a command that works alone is asked to end at its next commit.

    Raises process_lock.LockHeld for another `serve`, and for a command that does not end in
    LOCK_WAIT_SECONDS.
    """
    deadline = clock.monotonic() + LOCK_WAIT_SECONDS
    notified_holder: process_lock.Holder | None = None
    pause = threading.Event()
    while True:
        try:
            return process_lock.acquire(data_dir, "serve")
        except process_lock.LockHeld as lock_error:
            holder = lock_error.holder
            # A supervisor that was killed: its worker ends as soon as it sees that.
            is_orphaned = holder is not None and holder.purpose == "serve" and not holder.is_alive
            if holder is not None and holder.purpose == "serve" and not is_orphaned:
                raise
            if clock.monotonic() > deadline:
                raise
            if (
                holder is not None
                and not is_orphaned
                and holder != notified_holder
                and _request_yield(data_dir)
            ):
                notified_holder = holder
                on_notice(f"waiting for {holder} to reach its next commit")
        pause.wait(_RETRY_SECONDS)


def _request_yield(data_dir: Path) -> bool:
    try:
        return send_command(data_dir, YIELD_COMMAND, {}) is not None
    except (SwitchroomError, CommandMoved) as error:
        log.debug("not asked: %s", error)
        return False
