"""Putting together the calls of history whose records a walk has only stored (mirror/calls/backlog.py)."""

from __future__ import annotations

from collections.abc import Callable

from integration.core import clock
from integration.mirror.calls import backlog
from integration.sync import progress
from integration.sync.context import Parts

NAME = "calls put together"
"""The job, its progress on a terminal, and the fact of the health report that is a progress.Reading of it."""

COLLECTIONS = frozenset({"cdrs", "monitors", "voicemessages"})
"""Whose records tell about calls."""

SLICE = 500
"""Legs in one transaction: a webhook waits no longer than that takes."""

COUNT_SECONDS = 2.0
"""What waits is counted that often: a walk may add to it, and others may take of it."""


def work_off(
    parts: Parts, wanted: Callable[[], bool] = lambda: True, also: progress.Show | None = None
) -> int:
    """Put together what waits, the newest first, until nothing does or it is no longer `wanted`; `also` is
    told legs done and in all. Returns how many legs are left. Any number may work at a time: each takes what
    is newest then. Raises StorageError; what was committed stays."""
    left, counted = _left(parts), clock.monotonic()
    if not left:
        return 0
    done = 0
    with progress.following(parts.health, NAME, also) as show:
        show(0, left)
        while left and wanted():
            some = parts.mirror.write(lambda tx: parts.calls.catch_up(tx, SLICE))
            done, left = done + some, left - some
            if not some or left <= 0 or clock.monotonic() - counted >= COUNT_SECONDS:
                left, counted = _left(parts), clock.monotonic()
            show(done, done + left)
    return _left(parts) if left else 0


def _left(parts: Parts) -> int:
    with parts.mirror.read() as connection:
        return backlog.left(connection)
