"""Compute the calls of the backlog of legs.

A full sync stored their records (mirror/calls/backlog.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from integration.core import clock
from integration.mirror.calls import backlog
from integration.sqlite.bulk_cache import bulk_cache
from integration.sqlite.step_size import StepSize
from integration.sqlite.transaction import Transaction
from integration.sync import progress
from integration.sync.context import SyncContext

JOB_NAME = "calls put together"
"""Name of the job and of its progress.

The progress is shown on a terminal and as a fact of /readyz.
"""

LEGS_PER_STEP, STEPS_PER_RUN = 400, 10
"""Most legs of one step, and steps that may share a transaction. Slow steps have fewer legs."""

RECOUNT_SECONDS = 2.0
"""Seconds between counts of the backlog.

Other threads may extend or reduce it.
"""


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
    remaining, counted_at = _count_pending(context), clock.monotonic()
    if not remaining:
        return 0
    assembled, step_size = 0, StepSize(LEGS_PER_STEP)

    def step(tx: Transaction) -> int:
        with step_size.measure(limit := step_size.value):
            return context.call_store.assemble_backlog(tx, limit=limit)

    with ExitStack() as stack:
        if remaining > LEGS_PER_STEP * STEPS_PER_RUN:
            stack.enter_context(bulk_cache(context.mirror_db))
        show = stack.enter_context(progress.track_progress(context.health, JOB_NAME, on_progress))
        show(0, remaining)
        while remaining and should_continue():
            batch_size = sum(context.mirror_db.write_bulk([step] * STEPS_PER_RUN))
            assembled, remaining = assembled + batch_size, remaining - batch_size
            if not batch_size or remaining <= 0 or clock.monotonic() - counted_at >= RECOUNT_SECONDS:
                remaining, counted_at = _count_pending(context), clock.monotonic()
            show(assembled, assembled + remaining)
    return _count_pending(context) if remaining else 0


def _count_pending(context: SyncContext) -> int:
    with context.mirror_db.read() as connection:
        return backlog.count(connection)
