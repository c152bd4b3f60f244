"""Progress of long syncs, for the System page and /readyz.

Only a sync of at least PUBLISH_AFTER_SECONDS is published, as fact `reading <collection>` of the health
report. The fact is null after its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from integration.core import clock
from integration.core.health import Health

ShowProgress = Callable[[int, int | None], None]

PUBLISH_AFTER_SECONDS = 2.0
"""Seconds after which the progress of a sync is published."""
RATE_STEPS = 30
"""Last steps from which the current rate is computed."""

FACT_PREFIX = "reading "
"""Prefix of the names of progress facts, before the collection."""


@contextmanager
def track_progress(
    health: Health, fact_name: str, on_progress: ShowProgress | None = None
) -> Iterator[ShowProgress]:
    """Yield a function that publishes progress as `fact_name` during long work.

    The function accepts the records done and the total, and also passes them to `on_progress`.
    """
    started_at, is_published = clock.monotonic(), False
    steps: deque[tuple[float, int]] = deque(maxlen=RATE_STEPS)

    def show(done: int, total: int | None) -> None:
        nonlocal is_published
        steps.append((clock.monotonic(), done))
        if on_progress is not None:
            on_progress(done, total)
        if clock.monotonic() - started_at >= PUBLISH_AFTER_SECONDS:
            is_published = True
            health.set_fact(fact_name, measure_progress(steps, total))

    try:
        yield show
    finally:
        if is_published:
            health.set_fact(fact_name, None)


def measure_progress(steps: deque[tuple[float, int]], total: int | None) -> dict[str, Any]:
    """Compute the progress from `steps` of (monotonic seconds, records done).

    `total` is None until the platform has returned it. `per_second` is the rate of the steps, `seconds_left`
    the estimate at that rate, or None.
    """
    (first_at, done_before), (last_at, done) = steps[0], steps[-1]
    rate = (done - done_before) / (last_at - first_at) if last_at > first_at else 0.0
    seconds_left = round((total - done) / rate, 1) if total is not None and rate > 0 else None
    return {"done": done, "total": total, "per_second": round(rate, 1), "seconds_left": seconds_left}


def list_active_reads(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Map each collection to its progress.

    `facts` are those of a health report.
    """
    return {
        name.removeprefix(FACT_PREFIX): value
        for name, value in facts.items()
        if name.startswith(FACT_PREFIX) and value is not None
    }
