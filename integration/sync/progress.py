"""What is being read now, and when it will be done: for the System page and /readyz.

A short reading is over before anybody could look; one that lasts stands among the facts of the health report
as `reading <collection>`, and as null when it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from integration.core import clock
from integration.core.health import Health

Show = Callable[[int, int | None], None]

SHORT_SECONDS = 2.0
REMEMBERED = 30
"""Steps that the present rate is taken from."""

PREFIX = "reading "


@dataclass(frozen=True, slots=True)
class Reading:
    """`done` of `total` records (None: not known yet), so many `per_second` of late, `seconds_left` at that
    rate."""

    done: int
    total: int | None
    per_second: float
    seconds_left: float | None


def reading(health: Health, collection: str, also: Show | None = None) -> AbstractContextManager[Show]:
    """A function to be told how far the reading of a collection is; `also` is told the same."""
    return following(health, f"{PREFIX}{collection}", also)


@contextmanager
def following(health: Health, fact: str, also: Show | None = None) -> Iterator[Show]:
    """The same for other long work: it stands under `fact`."""
    begun, told = clock.monotonic(), False
    steps: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)

    def show(done: int, total: int | None) -> None:
        nonlocal told
        steps.append((clock.monotonic(), done))
        if also is not None:
            also(done, total)
        if clock.monotonic() - begun >= SHORT_SECONDS:
            told = True
            health.fact(fact, asdict(measured(steps, total)))

    try:
        yield show
    finally:
        if told:
            health.fact(fact, None)


def measured(steps: deque[tuple[float, int]], total: int | None) -> Reading:
    """Where steps of (seconds, done) lead."""
    (first, before), (last, done) = steps[0], steps[-1]
    rate = (done - before) / (last - first) if last > first else 0.0
    left = (total - done) / rate if total is not None and rate > 0 else None
    return Reading(done, total, round(rate, 1), None if left is None else round(left, 1))


def under_way(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Collection → Reading, of the facts of a health report."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in facts.items()
        if name.startswith(PREFIX) and value is not None
    }
