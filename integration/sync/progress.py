"""What is being read now, and when it will be done: for the System page and /readyz.

A short reading is over before anybody could look; one that lasts stands among the facts of the health report
as `reading <collection>`, and as null when it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from integration.core import clock
from integration.core.health import Health

ShowProgress = Callable[[int, int | None], None]

PUBLISH_AFTER_SECONDS = 2.0
RATE_STEPS = 30
"""Steps that the present rate is taken from."""

FACT_PREFIX = "reading "


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """`done` of `total` records (None: not known yet), so many `per_second` of late, `seconds_left` at that
    rate."""

    done: int
    total: int | None
    per_second: float
    seconds_left: float | None


@contextmanager
def track_progress(
    health: Health, fact_name: str, on_progress: ShowProgress | None = None
) -> Iterator[ShowProgress]:
    """Yield a function that takes the progress of long work; publish it as `fact_name` while the work lasts.

    `on_progress` is called with each progress.
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
            health.set_fact(fact_name, asdict(measure_progress(steps, total)))

    try:
        yield show
    finally:
        if is_published:
            health.set_fact(fact_name, None)


def measure_progress(steps: deque[tuple[float, int]], total: int | None) -> ReadProgress:
    """Where steps of (seconds, done) lead."""
    (first_at, done_before), (last_at, done) = steps[0], steps[-1]
    rate = (done - done_before) / (last_at - first_at) if last_at > first_at else 0.0
    seconds_left = (total - done) / rate if total is not None and rate > 0 else None
    return ReadProgress(done, total, round(rate, 1), None if seconds_left is None else round(seconds_left, 1))


def list_active_reads(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Collection → Reading, of the facts of a health report."""
    return {
        name.removeprefix(FACT_PREFIX): value
        for name, value in facts.items()
        if name.startswith(FACT_PREFIX) and value is not None
    }
