"""Reading a collection so that nothing is lost while it changes.

Pages by number shift when records come or go between two requests. So pages are asked for by key: `id gt
<last>` in ascending order, or `id lt <last>` in descending order, and each is believed only if it has as
many records as it must and their keys are unique and in order. Where the platform can't filter or sort a
collection, it is read by page numbers until what was read is as many different records as the platform says
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.core.json_records import Document, PageDocuments
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import usable_key, usable_keys
from integration.outbound.exchange import Answer
from integration.platform_api.client import Platform
from integration.platform_api.paging import MOST, Condition

LEAST_LIMIT = 200
REPEATS = 3
"""How often a page that can't be believed is asked for before it is given up."""


@dataclass(frozen=True, slots=True)
class Window:
    """A page that can be believed. `total` counts what matches from its first record on; `last` is its
    last key (None: no records), `asked_at` UTC text, `date` the platform's own time; `since` where a window
    of time begins (None: it has no beginning, or is none)."""

    documents: Sequence[Document]
    total: int
    last: Key | None
    asked_at: str
    date: datetime | None
    since: datetime | None = None


class NotByKey(PlatformBroken):
    """The platform does not sort or filter this collection by its key as asked."""


def is_unfit(error: PlatformError) -> bool:
    """Whether it was the question that failed: the platform does not filter (400, `Filtration error`) or sort
    as asked. Asked otherwise it may answer."""
    return isinstance(error, NotByKey) or (isinstance(error, PlatformRefused) and error.status == 400)


def page_limit(failures: int) -> int:
    """Records to ask for at once: fewer after failures, since a big page may be what failed."""
    return int(max(LEAST_LIMIT, MOST // 4 ** min(failures, 4)))


def by_key(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition] = (),
    after: Key | None = None,
    *,
    down: bool = False,
    limit: int = MOST,
    tries: int | None = None,
) -> Iterator[Window]:
    """All records that meet `conditions` with keys beyond `after`, ascending (`down`: descending), page by
    page.

    At least one window comes, empty where nothing matches. Raises NotByKey, PlatformError.
    """
    while True:
        window, limit = _believable(platform, resource, conditions, after, down, limit, tries)
        yield window
        if len(window.documents) >= window.total:
            return
        after = window.last


def ahead(windows: Iterator[Window]) -> Iterator[Window]:
    """The same windows, the next one asked for while its reader works on the last: one, so that no more than
    two are in memory. A reader that ends early waits for the request under way."""
    with ThreadPoolExecutor(1, thread_name_prefix="reading ahead") as thread:
        coming = thread.submit(next, windows, None)
        while (window := coming.result()) is not None:
            coming = thread.submit(next, windows, None)
            yield window


def by_pages(
    platform: Platform, resource: Resource, *, limit: int = MOST, tries: int | None = None
) -> Iterator[Window]:
    """All records by page numbers; one page after the other until as many have come as there are."""
    collected, page = 0, 1
    while True:
        asked_at, answers = clock.stamp(), list[Answer]()
        found = platform.page(resource.collection, page=page, limit=limit, tries=tries, seen=answers.append)
        total = total_of(resource, found)
        collected += len(found.documents)
        last = usable_key(resource, found.documents[-1]) if found.documents and resource.key else None
        yield Window(found.documents, total, last, asked_at, answers[0].date)
        if not found.documents or collected >= total:
            return
        page += 1


def _believable(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition],
    after: Key | None,
    down: bool,
    limit: int,
    tries: int | None,
) -> tuple[Window, int]:
    """One page that is what was asked for, and the limit that the platform really takes."""
    key = str(resource.key)
    asked = [*conditions, *([(key, "lt" if down else "gt", after)] if after is not None else [])]
    why = ""
    for _ in range(REPEATS):
        asked_at, answers = clock.stamp(), list[Answer]()
        found = platform.page(
            resource.collection,
            filter=asked,
            sort=key,
            dir="DESC" if down else "ASC",
            limit=limit,
            tries=tries,
            seen=answers.append,
        )
        total = total_of(resource, found)
        keys = usable_keys(resource, found.documents)
        why = _unordered(keys, after, down)
        if not why and len(keys) == min(total, limit):
            last = keys[-1] if keys else after
            return Window(found.documents, total, last, asked_at, answers[0].date), limit
        if not why:
            why = f"{len(keys)} records where {min(total, limit)} should be"
            # The platform may give fewer at once than it was asked for: then this many it will give.
            limit = len(keys) if 0 < len(keys) < min(total, limit) else limit
    raise NotByKey(f"/{resource.collection}: {why}")


def _unordered(keys: list[Key | None], after: Key | None, down: bool) -> str:
    """What is wrong with the order of `keys`; empty where nothing is."""
    previous = after
    for key in keys:
        if not isinstance(key, int) or (previous is not None and not isinstance(previous, int)):
            return f"key {key!r} is no number"
        if previous is not None and (key >= previous if down else key <= previous):
            return f"key {key} does not come after {previous}"
        previous = key
    return ""


def total_of(resource: Resource, found: PageDocuments) -> int:
    """How many records the platform says there are. Raises PlatformBroken where it does not."""
    if found.total is None:
        raise PlatformBroken(f"/{resource.collection}: the answer has no total")
    return found.total
