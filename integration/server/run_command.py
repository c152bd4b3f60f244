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

from integration.core import clock
from integration.core import process_lock as lock
from integration.core.errors import SwitchroomError
from integration.server import unfinished_commands as leftover
from integration.server.control_channel import (
    YIELD,
    Arguments,
    Channel,
    Handler,
    Moved,
    Progress,
    Result,
    Unfinished,
    hand_over,
    handler_of,
)
from integration.server.tenant import same_customer
from integration.settings.data_dir_secrets import claim_data_dir
from integration.settings.model import Settings

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
"""How long to wait for a process that holds the lock but does not answer: it is starting or ending."""

COURTESY_SECONDS = 10.0
"""How long a command that made way for a `serve` waits for it before it works alone again."""

_RETRY_SECONDS = 0.05
_CLOSE_SECONDS = 5.0


def carry_out(
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
    return carry_out_with(data_dir, command, arguments, lambda: _handlers(settings), on_progress, on_notice)


@contextmanager
def _handlers(settings: Settings) -> Iterator[Mapping[str, Handler]]:
    """The product's commands in this process, without its clockwork."""
    # Imported when first needed: the command that hands over needs none of it.
    from integration.factory import build

    claim_data_dir(settings, lambda: same_customer(settings))
    product = build(settings)
    try:
        yield product.commands
    finally:
        product.stop()


def carry_out_with(
    data_dir: Path,
    command: str,
    arguments: Arguments,
    handlers: Callable[[], Any],
    on_progress: Callable[[dict[str, Any]], None],
    on_notice: Callable[[str], None],
) -> Result:
    """As `carry_out`, with `handlers()` a context manager that gives the handlers for working alone."""
    deadline = clock.monotonic() + PATIENCE_SECONDS
    alone_from, taken_over = 0.0, False
    waiting = threading.Event()
    while True:
        try:
            result = hand_over(data_dir, command, arguments, on_progress, finish=taken_over)
            if result is not None:
                return result
            if clock.monotonic() < alone_from:
                waiting.wait(_RETRY_SECONDS)
                continue
            held = lock.take(data_dir, command.partition(".")[0])
        except Moved as moved:
            arguments = moved.arguments
            deadline = clock.monotonic() + PATIENCE_SECONDS
            on_notice("the process that worked on this is ending; going on with its successor")
            continue
        except lock.Held as busy:
            if clock.monotonic() > deadline:
                raise
            log.debug("%s", busy)
            waiting.wait(_RETRY_SECONDS)
            continue
        try:
            result = _alone(data_dir, held, command, arguments, handlers, on_progress)
            if taken_over:
                leftover.drop(data_dir)
            return result
        except Unfinished as unfinished:
            arguments, taken_over = unfinished.arguments, True
            # Whoever asked for the lock must get it first; if it never opens, the work is ours again.
            alone_from = clock.monotonic() + COURTESY_SECONDS
            deadline = alone_from + PATIENCE_SECONDS
            on_notice("`switchroom serve` is starting and takes this over")


def _alone(
    data_dir: Path,
    held: lock.Lock,
    command: str,
    arguments: Arguments,
    handlers: Callable[[], Any],
    on_progress: Callable[[dict[str, Any]], None],
) -> Result:
    with held, handlers() as known:
        channel = Channel(data_dir, known, yields=True)
        try:
            handler = handler_of(known, command)
            return handler(arguments, Progress(on_progress, lambda: not channel.stopping.is_set()))
        except Unfinished as unfinished:
            # While the lock is still ours: we may be killed before the new `serve` hears of it from us.
            leftover.keep(data_dir, command, unfinished.arguments)
            raise
        finally:
            channel.close(_CLOSE_SECONDS)


def take_over(data_dir: Path, on_notice: Callable[[str], None]) -> lock.Lock:
    """The lock for a starting `serve`: a command that works alone is asked to end at its next commit.

    Raises lock.Held for another `serve`, and for a command that does not end in PATIENCE_SECONDS.
    """
    deadline = clock.monotonic() + PATIENCE_SECONDS
    asked: lock.Holder | None = None
    pause = threading.Event()
    while True:
        try:
            return lock.take(data_dir, "serve")
        except lock.Held as busy:
            holder = busy.holder
            # A supervisor that was killed: its worker ends as soon as it sees that.
            left_over = holder is not None and holder.purpose == "serve" and not holder.alive
            if holder is not None and holder.purpose == "serve" and not left_over:
                raise
            if clock.monotonic() > deadline:
                raise
            if holder is not None and not left_over and holder != asked and _ask_to_yield(data_dir):
                asked = holder
                on_notice(f"waiting for {holder} to reach its next commit")
        pause.wait(_RETRY_SECONDS)


def _ask_to_yield(data_dir: Path) -> bool:
    try:
        return hand_over(data_dir, YIELD, {}) is not None
    except (SwitchroomError, Moved) as error:
        log.debug("not asked: %s", error)
        return False
