"""Putting together the calls of history whose records a walk has only stored (mirror/calls/backlog.py)."""

from __future__ import annotations

from collections.abc import Callable

from integration.core import clock
from integration.mirror.calls import backlog
from integration.sync import progress
from integration.sync.context import SyncContext

JOB_NAME = "calls put together"
"""The job, its progress on a terminal, and the fact of the health report that is a progress.Reading of it."""

LEGS_PER_TRANSACTION = 500
"""Legs in one transaction: a webhook waits no longer than that takes."""

RECOUNT_SECONDS = 2.0
"""What waits is counted that often: a walk may add to it, and others may take of it."""


def assemble_pending(
    context: SyncContext,
    should_continue: Callable[[], bool] = lambda: True,
    on_progress: progress.ShowProgress | None = None,
) -> int:
    """Put together what waits, the newest first, until nothing does or it is no longer `should_continue`;
    `on_progress` is told legs done and in all. Returns how many legs are left. Any number may work at a time:
    each takes what is newest then. Raises StorageError; what was committed stays."""
    remaining, counted_at = _count_pending(context), clock.monotonic()
    if not remaining:
        return 0
    assembled = 0
    with progress.track_progress(context.health, JOB_NAME, on_progress) as show:
        show(0, remaining)
        while remaining and should_continue():
            batch_size = context.mirror_db.write(
                lambda tx: context.call_store.assemble_backlog(tx, LEGS_PER_TRANSACTION)
            )
            assembled, remaining = assembled + batch_size, remaining - batch_size
            if not batch_size or remaining <= 0 or clock.monotonic() - counted_at >= RECOUNT_SECONDS:
                remaining, counted_at = _count_pending(context), clock.monotonic()
            show(assembled, assembled + remaining)
    return _count_pending(context) if remaining else 0


def _count_pending(context: SyncContext) -> int:
    with context.mirror_db.read() as connection:
        return backlog.count(connection)
