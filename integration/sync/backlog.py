"""Putting together the calls of history whose records a walk has only stored (mirror/calls/backlog.py)."""

from __future__ import annotations

from collections.abc import Callable

from integration.mirror.calls import backlog
from integration.sync import progress
from integration.sync.parts import Parts

NAME = "calls put together"
"""The job, its progress on a terminal, and the fact of the health report that is a progress.Reading of it."""

COLLECTIONS = frozenset({"cdrs", "monitors", "voicemessages"})
"""Whose records tell about calls."""

SLICE = 500
"""Legs in one transaction: a webhook waits no longer than that takes."""


def work_off(
    parts: Parts, wanted: Callable[[], bool] = lambda: True, also: progress.Show | None = None
) -> int:
    """Put together what waits, the newest first, until nothing does or it is no longer `wanted`; `also` is
    told legs done and in all. Returns how many legs are left. Any number may work at a time: each takes what
    is newest then. Raises StorageError; what was committed stays."""
    with parts.mirror.read() as connection:
        left = backlog.left(connection)
    if not left:
        return 0
    done = 0
    with progress.following(parts.health, NAME, also) as show:
        show(0, left)
        while left and wanted():
            before, left = left, parts.mirror.write(lambda tx: parts.calls.catch_up(tx, SLICE))
            done += max(0, min(SLICE, before))
            show(done, done + left)
    return left
