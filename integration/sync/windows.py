"""Closed windows of time: `[lo, hi)` by filter, believed only if it has as many records as the platform says.

They need no order of the platform's, and nothing that comes or goes outside a window moves what is in it. A
window that holds more than one page is halved.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from integration import clock
from integration.catalogue.shapes import Resource
from integration.errors import PlatformBroken
from integration.mirror.upsert import usable_key
from integration.platform_api.client import Platform
from integration.platform_api.paging import MOST, Condition
from integration.platform_api.transport import Answer
from integration.sync.reading import REPEATS, Window, total_of


def within(resource: Resource, lo: datetime, hi: datetime) -> list[Condition]:
    """The filter for records dated in `[lo, hi)`."""
    date = str(resource.date)
    return [(date, "gte", clock.stamp(lo)), (date, "lt", clock.stamp(hi))]


def count(platform: Platform, resource: Resource, conditions: list[Condition]) -> int:
    """How many records the platform says meet `conditions`. Raises PlatformError."""
    found = platform.page(resource.collection, filter=conditions, limit=1)
    return total_of(resource, found)


def closed(
    platform: Platform, resource: Resource, lo: datetime, hi: datetime, *, limit: int = MOST
) -> Iterator[Window]:
    """Everything dated in `[lo, hi)` (whole seconds, UTC), the newest window first.

    Raises PlatformBroken where a window can't be believed, other PlatformErrors.
    """
    waiting = [(lo, hi)]
    while waiting:
        lo, hi = waiting.pop()
        found = _one(platform, resource, lo, hi, limit)
        if found is not None:
            yield found
            continue
        half = lo + timedelta(seconds=int((hi - lo).total_seconds()) // 2)
        if half <= lo:
            raise PlatformBroken(f"/{resource.collection}: more than {limit:,} records at {clock.stamp(lo)}")
        waiting += [(lo, half), (half, hi)]


def _one(platform: Platform, resource: Resource, lo: datetime, hi: datetime, limit: int) -> Window | None:
    """One window; None where it holds more than a page."""
    why = ""
    for _ in range(REPEATS):
        asked_at, answers = clock.stamp(), list[Answer]()
        found = platform.page(
            resource.collection, filter=within(resource, lo, hi), limit=limit, seen=answers.append
        )
        total = total_of(resource, found)
        if total > len(found.documents) and total > 1 and (hi - lo).total_seconds() > 1:
            return None
        keys = [usable_key(resource, document) for document in found.documents]
        if len(keys) == total and len(set(keys)) == total:
            return Window(found.documents, total, keys[-1] if keys else None, asked_at, answers[0].date)
        why = f"{len(set(keys))} different records where {total} should be"
    raise PlatformBroken(f"/{resource.collection}, {clock.stamp(lo)} to {clock.stamp(hi)}: {why}")
