"""Closed windows of time: `[lo, hi)` by filter, believed only if it has as many records as the platform says.

They need no order of the platform's, and nothing that comes or goes outside a window moves what is in it. A
window that holds more than one page is halved. Where the platform sorts by key, reading.py needs fewer
requests; where it does not, a whole collection is read by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import PlatformBroken
from integration.mirror.records.upsert import usable_keys
from integration.outbound.exchange import Answer
from integration.platform_api.client import Platform
from integration.platform_api.paging import MOST, Condition
from integration.sync.reading.pages import REPEATS, Window, total_of

DAY = timedelta(days=1)
FIRST = datetime(1990, 1, 1, tzinfo=UTC)
"""What is dated earlier is a mistake of somebody's clock, and little."""


class NotByTime(PlatformBroken):
    """The collection can't be divided into windows of time."""


def within(resource: Resource, lo: datetime, hi: datetime) -> list[Condition]:
    """The filter for records dated in `[lo, hi)`."""
    date = str(resource.date)
    return [(date, "gte", clock.stamp(lo)), (date, "lt", clock.stamp(hi))]


def count(
    platform: Platform, resource: Resource, conditions: Sequence[Condition], *, tries: int | None = None
) -> int:
    """How many records the platform says meet `conditions`. Raises PlatformError."""
    found = platform.page(resource.collection, filter=conditions, limit=1, tries=tries)
    return total_of(resource, found)


def matching(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition],
    *,
    limit: int = MOST,
    tries: int | None = None,
    since: datetime | None = None,
) -> Window | None:
    """All records that meet `conditions`, in whatever order; None where they are more than a page holds.

    Raises PlatformBroken where the answer can't be believed, other PlatformErrors.
    """
    why = ""
    for _ in range(REPEATS):
        asked_at, answers = clock.stamp(), list[Answer]()
        found = platform.page(
            resource.collection, filter=conditions, limit=limit, tries=tries, seen=answers.append
        )
        total = total_of(resource, found)
        keys = usable_keys(resource, found.documents)
        if len(keys) == total and len(set(keys)) == total:
            last = keys[-1] if keys else None
            return Window(found.documents, total, last, asked_at, answers[0].date, since)
        if total > len(keys) and total > 1:
            return None
        why = f"{len(set(keys))} different records where {total} should be"
    asked = ", ".join(f"{name} {operator} {value}" for name, operator, value in conditions)
    raise PlatformBroken(f"/{resource.collection}, {asked}: {why}")


def closed(
    platform: Platform,
    resource: Resource,
    lo: datetime,
    hi: datetime,
    *,
    limit: int = MOST,
    tries: int | None = None,
) -> Iterator[Window]:
    """Everything dated in `[lo, hi)` (whole seconds, UTC), the newest window first.

    Raises PlatformBroken where a window can't be believed, other PlatformErrors.
    """
    waiting = [(lo, hi)]
    while waiting:
        lo, hi = waiting.pop()
        asked = within(resource, lo, hi)
        # Years are counted before they are read: each halving would cost a page.
        found = None
        if hi - lo <= DAY or count(platform, resource, asked, tries=tries) <= limit:
            found = matching(platform, resource, asked, limit=limit, tries=tries, since=lo)
        if found is not None:
            yield found
            continue
        half = lo + timedelta(seconds=int((hi - lo).total_seconds()) // 2)
        if half <= lo:
            raise NotByTime(f"/{resource.collection}: a page does not hold all of {clock.stamp(lo)}")
        waiting += [(lo, half), (half, hi)]


def everything(
    platform: Platform,
    resource: Resource,
    before: datetime | None = None,
    *,
    limit: int = MOST,
    tries: int | None = None,
) -> Iterator[Window]:
    """A whole collection, newest first, by time alone: what is dated in days to come, then back to FIRST,
    then what is dated earlier or not at all. `before`: only what is dated before it, and what has no date.

    Together the windows leave no moment out and overlap nowhere. Raises NotByTime, other PlatformErrors.
    """
    date = str(resource.date)
    hi = before or _tomorrow()
    if before is None:
        yield _page(platform, resource, (date, "gte", clock.stamp(hi)), limit, tries)
    if hi > FIRST:
        yield from closed(platform, resource, FIRST, hi, limit=limit, tries=tries)
    early = _page(platform, resource, (date, "lt", clock.stamp(FIRST)), limit, tries)
    yield early
    # In this order: what comes between the two is no record without a date.
    whole = count(platform, resource, [], tries=tries)
    later = count(platform, resource, [(date, "gte", clock.stamp(FIRST))], tries=tries)
    undated = whole - later - early.total
    if undated > 0:
        without = _page(platform, resource, (date, "eq", None), limit, tries)
        yield without
        if without.total < undated:
            missed = undated - without.total
            raise NotByTime(f"/{resource.collection}: {missed:,} records are in no window")


def _page(
    platform: Platform, resource: Resource, condition: Condition, limit: int, tries: int | None
) -> Window:
    """What is a page at most. Raises NotByTime where it is not."""
    found = matching(platform, resource, [condition], limit=limit, tries=tries)
    if found is None:
        name, operator, value = condition
        raise NotByTime(f"/{resource.collection}: more than a page where {name} {operator} {value}")
    return found


def _tomorrow() -> datetime:
    return clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + DAY
