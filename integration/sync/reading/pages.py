"""Read a collection in pages without losing records while it changes.

Numbered pages shift when records are created or deleted between two requests. Therefore pages are requested
by key: `id gt <last>` in ascending order, or `id lt <last>` in descending order. A page is accepted only if
it has the expected number of records and their keys are unique and in order. If the platform cannot filter or
sort a collection, it is read by page numbers until the number of distinct records equals the total.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from integration.catalogue.shapes import Resource
from integration.core.errors import PlatformBroken, PlatformRefused, UnreadableRecords
from integration.core.json_records import JsonRecord
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import list_usable_keys
from integration.platform_api.client import Platform
from integration.platform_api.paging import MAX_PAGE_RECORDS, Condition
from integration.sync.reading import split_pages

log = logging.getLogger(__name__)
T = TypeVar("T")

MIN_PAGE_LIMIT = 200
"""Minimum number of records requested per page after failures."""
MAX_PAGE_ATTEMPTS = 3
"""Maximum number of attempts to read an inconsistent page."""


@dataclass(frozen=True, slots=True)
class Window:
    """Page of records.

    `total` counts the matching records from the first record of the page on, or in the entire collection for
    a numbered page. `last_key` is the last key read so far, or None. `requested_at` is UTC text.
    `platform_time` is the platform's clock. `since` is the start of a closed window of time, otherwise None.
    `unreadable` has an error for each record whose response has an unusable body. `is_object`: the response
    has an object in place of a list.
    """

    records: Sequence[JsonRecord]
    total: int
    last_key: Key | None
    requested_at: str
    platform_time: datetime | None
    since: datetime | None = None
    unreadable: Sequence[str] = ()
    is_object: bool = False


class UnsupportedQuery(PlatformBroken):
    """The platform cannot execute the query as requested. Another query may succeed."""


class KeyOrderUnsupported(UnsupportedQuery):
    """The platform does not sort or filter this collection by key."""


def try_query(query: Callable[[], T]) -> T | None:
    """Return the result of `query`, or None if the platform does not filter (400) or sort as requested."""
    try:
        return query()
    except UnsupportedQuery as error:
        log.warning("%s; trying another query", error)
    except PlatformRefused as error:
        if error.status != 400:
            raise
        log.warning("%s; trying another query", error)
    return None


def page_limit(failures: int) -> int:
    """Return the records per page: fewer after failures.

    Large pages may cause failures.
    """
    return int(max(MIN_PAGE_LIMIT, MAX_PAGE_RECORDS // 4 ** min(failures, 4)))


def read_by_key(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition] = (),
    after: Key | None = None,
    *,
    descending: bool = False,
    limit: int = MAX_PAGE_RECORDS,
    tries: int | None = None,
) -> Iterator[Window]:
    """Yield matching records with keys above `after` in pages, ascending.

    With `descending`, yield keys below `after` in descending order. Yields at least one window, which is
    empty without a match. Raises KeyOrderUnsupported, PlatformError.
    """
    while True:
        window, limit = _read_verified_page(platform, resource, conditions, after, descending, limit, tries)
        yield window
        if len(window.records) + len(window.unreadable) >= window.total:
            return
        if window.last_key == after:
            # Every record of the page is unreadable, and no key leads past them.
            raise UnreadableRecords(window.unreadable[-1])
        after = window.last_key


def read_ahead(windows: Iterator[Window]) -> Iterator[Window]:
    """Yield `windows`, and request the next window ahead.

    The request runs while the caller processes the current window. Prefetches one window, so that at most two
    are in memory. A caller that stops early waits for the running request.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="reading ahead") as thread:
        next_window = thread.submit(next, windows, None)
        while (window := next_window.result()) is not None:
            next_window = thread.submit(next, windows, None)
            yield window


def read_by_pages(
    platform: Platform, resource: Resource, *, limit: int = MAX_PAGE_RECORDS, tries: int | None = None
) -> Iterator[Window]:
    """Yield all records by page numbers, until the total is reached."""
    records_read, page_number = 0, 1
    while True:
        page = split_pages.read_page(platform, resource, page=page_number, limit=limit, tries=tries)
        total = 1 if page.is_object and page.total is None else require_total(resource, page.total)
        records_read += page.count
        last_key = list_usable_keys(resource, page.records)[-1] if page.records and resource.key else None
        yield make_window(page, total, last_key)
        if not page.count or records_read >= total:
            return
        page_number += 1


def _read_verified_page(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition],
    after: Key | None,
    descending: bool,
    limit: int,
    tries: int | None,
) -> tuple[Window, int]:
    """Read one verified page.

    Returns it with the page limit that the platform supports.
    """
    key_field = str(resource.key)
    page_conditions = [
        *conditions,
        *([(key_field, "lt" if descending else "gt", after)] if after is not None else []),
    ]
    fault = ""
    for _ in range(MAX_PAGE_ATTEMPTS):
        page = split_pages.read_page(
            platform,
            resource,
            filter=page_conditions,
            sort=key_field,
            dir="DESC" if descending else "ASC",
            limit=limit,
            tries=tries,
        )
        total = require_total(resource, page.total)
        keys = list_usable_keys(resource, page.records)
        fault = _find_order_fault(keys, after, descending)
        if not fault and page.count == min(total, limit):
            last_key = keys[-1] if keys else after
            return make_window(page, total, last_key), limit
        if not fault:
            fault = f"{page.count} records instead of {min(total, limit)}"
            # The platform may limit pages to fewer records than requested: use that number as the limit.
            limit = len(keys) if 0 < len(keys) < min(total, limit) else limit
    raise KeyOrderUnsupported(f"/{resource.collection}: {fault}")


def _find_order_fault(keys: Sequence[Key | None], after: Key | None, descending: bool) -> str:
    """Return the fault in the order of `keys`, or ''."""
    previous = after
    for key in keys:
        if not isinstance(key, int) or (previous is not None and not isinstance(previous, int)):
            return f"key {key!r} is not a number"
        if previous is not None and (key >= previous if descending else key <= previous):
            return f"key {key} does not come after {previous}"
        previous = key
    return ""


def make_window(
    page: split_pages.SplitPage, total: int, last_key: Key | None, since: datetime | None = None
) -> Window:
    """Make a Window of a page."""
    platform_time = page.response.date if page.response is not None else None
    return Window(
        page.records, total, last_key, page.requested_at, platform_time, since, page.errors, page.is_object
    )


def require_total(resource: Resource, total: int | None) -> int:
    """Return `total` of a page.

    Raises PlatformBroken for a page without a total.
    """
    if total is None:
        raise PlatformBroken(f"/{resource.collection}: the response has no total")
    return total
