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
from integration.core.json_records import JsonRecord, RecordPage
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key, list_usable_keys
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.client import Platform
from integration.platform_api.paging import MAX_PAGE_RECORDS, Condition

MIN_PAGE_LIMIT = 200
MAX_PAGE_ATTEMPTS = 3
"""How often a page that can't be believed is asked for before it is given up."""


@dataclass(frozen=True, slots=True)
class Window:
    """A page that can be believed. `total` counts what matches from its first record on; `last_key` is its
    last key (None: no records), `requested_at` UTC text, `platform_time` the platform's own time; `since`
    where a window of time begins (None: it has no beginning, or is none)."""

    records: Sequence[JsonRecord]
    total: int
    last_key: Key | None
    requested_at: str
    platform_time: datetime | None
    since: datetime | None = None


class KeyOrderUnsupported(PlatformBroken):
    """The platform does not sort or filter this collection by its key as asked."""


def is_unsupported_query(error: PlatformError) -> bool:
    """Whether it was the question that failed: the platform does not filter (400, `Filtration error`) or sort
    as asked. Asked otherwise it may answer."""
    return isinstance(error, KeyOrderUnsupported) or (
        isinstance(error, PlatformRefused) and error.status == 400
    )


def page_limit(failures: int) -> int:
    """Records to ask for at once: fewer after failures, since a big page may be what failed."""
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
    """All records that meet `conditions` with keys beyond `after`, ascending (`descending`: descending), page
    by page.

    At least one window comes, empty where nothing matches. Raises KeyOrderUnsupported, PlatformError.
    """
    while True:
        window, limit = _read_verified_page(platform, resource, conditions, after, descending, limit, tries)
        yield window
        if len(window.records) >= window.total:
            return
        after = window.last_key


def read_ahead(windows: Iterator[Window]) -> Iterator[Window]:
    """The same windows, the next one asked for while its reader works on the last: one, so that no more than
    two are in memory. A reader that ends early waits for the request under way."""
    with ThreadPoolExecutor(1, thread_name_prefix="reading ahead") as thread:
        next_window = thread.submit(next, windows, None)
        while (window := next_window.result()) is not None:
            next_window = thread.submit(next, windows, None)
            yield window


def read_by_pages(
    platform: Platform, resource: Resource, *, limit: int = MAX_PAGE_RECORDS, tries: int | None = None
) -> Iterator[Window]:
    """All records by page numbers; one page after the other until as many have come as there are."""
    records_read, page_number = 0, 1
    while True:
        requested_at, responses = clock.utc_text(), list[PlatformResponse]()
        page_records = platform.page(
            resource.collection, page=page_number, limit=limit, tries=tries, on_response=responses.append
        )
        total = require_total(resource, page_records)
        records_read += len(page_records.records)
        last_key = (
            get_usable_key(resource, page_records.records[-1])
            if page_records.records and resource.key
            else None
        )
        yield Window(page_records.records, total, last_key, requested_at, responses[0].date)
        if not page_records.records or records_read >= total:
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
    """One page that is what was asked for, and the limit that the platform really takes."""
    key_field = str(resource.key)
    page_conditions = [
        *conditions,
        *([(key_field, "lt" if descending else "gt", after)] if after is not None else []),
    ]
    fault = ""
    for _ in range(MAX_PAGE_ATTEMPTS):
        requested_at, responses = clock.utc_text(), list[PlatformResponse]()
        page = platform.page(
            resource.collection,
            filter=page_conditions,
            sort=key_field,
            dir="DESC" if descending else "ASC",
            limit=limit,
            tries=tries,
            on_response=responses.append,
        )
        total = require_total(resource, page)
        keys = list_usable_keys(resource, page.records)
        fault = _find_order_fault(keys, after, descending)
        if not fault and len(keys) == min(total, limit):
            last_key = keys[-1] if keys else after
            return Window(page.records, total, last_key, requested_at, responses[0].date), limit
        if not fault:
            fault = f"{len(keys)} records where {min(total, limit)} should be"
            # The platform may give fewer at once than it was asked for: then this many it will give.
            limit = len(keys) if 0 < len(keys) < min(total, limit) else limit
    raise KeyOrderUnsupported(f"/{resource.collection}: {fault}")


def _find_order_fault(keys: list[Key | None], after: Key | None, descending: bool) -> str:
    """What is wrong with the order of `keys`; empty where nothing is."""
    previous = after
    for key in keys:
        if not isinstance(key, int) or (previous is not None and not isinstance(previous, int)):
            return f"key {key!r} is no number"
        if previous is not None and (key >= previous if descending else key <= previous):
            return f"key {key} does not come after {previous}"
        previous = key
    return ""


def require_total(resource: Resource, page: RecordPage) -> int:
    """How many records the platform says there are. Raises PlatformBroken where it does not."""
    if page.total is None:
        raise PlatformBroken(f"/{resource.collection}: the answer has no total")
    return page.total
