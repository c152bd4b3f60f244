"""Compute calls and other derived rows that are due, with the progress of the calls.

A full sync leaves most calls to this module (mirror/calls/backlog.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from integration.context import SyncContext
from integration.core import clock, process_memory
from integration.mirror.calls import backlog
from integration.mirror.derived.calls import LEGS
from integration.mirror.derived.calls_process import open_process, take_back
from integration.mirror.derived.rebuild import STEPS_PER_RUN, rebuild_due
from integration.sqlite.database import bulk_cache
from integration.sync import progress

JOB_NAME = "calls put together"
"""Name of the progress, on a terminal and as a fact of /readyz."""
COUNT_SECONDS = 3.0
"""Interval between two counts of the legs that are left. To count a million takes 40 ms."""


def rebuild_all(context: SyncContext, should_continue: Callable[[], bool]) -> None:
    """Compute all that is due, new calls first. Raises StorageError; committed work is kept."""
    while should_continue():
        assemble_pending(context, should_continue)
        if rebuild_due(
            context.mirror_db,
            context.call_store.rules,
            should_continue=lambda: should_continue() and _is_empty(context),
        ):
            return


def assemble_pending(
    context: SyncContext,
    should_continue: Callable[[], bool] = lambda: True,
    on_progress: progress.ShowProgress | None = None,
) -> int:
    """Compute the calls of the backlog, newest legs first.

    Ends when the backlog is empty or the work is cancelled. `on_progress` receives the number of legs done
    and in total. Returns the number of legs left. Concurrent calls are safe: each takes the newest legs.
    Raises StorageError; committed work is kept.
    """
    if _is_empty(context):
        return 0
    take_back(context.mirror_db)
    total = _count_pending(context)
    with ExitStack() as stack:
        requested_calls = None
        if total > LEGS.step * STEPS_PER_RUN:
            process_memory.release()  # What the reading of records has used.
            stack.enter_context(bulk_cache(context.mirror_db))
            requested_calls = stack.enter_context(open_process(context.mirror_db, context.call_store.rules))
        show = stack.enter_context(progress.track_progress(context.health, JOB_NAME, on_progress))
        done, remaining = 0, total
        counted_at = clock.monotonic()
        show(done, total)

        def report() -> None:
            nonlocal done, remaining, counted_at
            # A sync may add legs at the same time.
            previous, remaining = remaining, _count_pending(context)
            counted_at = clock.monotonic()
            done += max(0, previous - remaining)
            show(done, done + remaining)

        def report_if_due() -> None:
            if clock.monotonic() - counted_at >= COUNT_SECONDS:
                report()

        while rebuild_due(
            context.mirror_db,
            context.call_store.rules,
            (LEGS,),
            should_continue=should_continue,
            on_batch=report_if_due,
            write_ready=lambda tx: requested_calls is not None and requested_calls.write_next(tx),
        ):
            if requested_calls is None or not requested_calls.is_waiting:
                break
            has_response = requested_calls.wait(should_continue)
            context.mirror_db.write(requested_calls.write_next if has_response else requested_calls.end)
        report()
    return remaining


def _is_empty(context: SyncContext) -> bool:
    with context.mirror_db.read() as connection:
        return backlog.is_empty(connection)


def _count_pending(context: SyncContext) -> int:
    with context.mirror_db.read() as connection:
        state = backlog.get_state(connection)
    return 0 if state is None else state.remaining
