"""Read a collection without losing records while it changes.

Numbered pages shift when records are created or deleted between two requests. Therefore pages are requested
by key: `id gt <last>` in ascending order, or `id lt <last>` in descending order. A page is accepted only if
it has the expected number of records and their keys are unique and in order.

If the platform does not sort by key, closed windows of time `[lo, hi)` are read. A window is accepted only
with as many records as its total, so it needs no order, and records created or deleted outside do not affect
it. If the platform cannot filter either, the collection is read by page numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused, UnreadableRecords
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import list_usable_keys
from integration.platform_api.client import Platform
from integration.platform_api.paging import MAX_PAGE_RECORDS, Condition
from integration.sync.reading.pages import Window, read_page

log = logging.getLogger(__name__)
T = TypeVar("T")

MIN_PAGE_LIMIT = 200
"""Minimum number of records requested per page after failures."""
MAX_PAGE_ATTEMPTS = 3
"""Maximum number of attempts to read an inconsistent page."""
ONE_DAY = timedelta(days=1)
EARLIEST_DATE = datetime(1990, 1, 1, tzinfo=UTC)
"""Start of the oldest window.

The few records dated earlier come from wrong clocks.
"""


class UnsupportedQuery(PlatformBroken):
    """The platform cannot execute the query as requested. Another query may succeed."""


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


def get_max_tries(failures: int) -> int | None:
    """Return the attempts per request after `failures`; None for the default.

    One attempt is enough to find out whether a failing collection has recovered.
    """
    return 1 if failures else None


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


@dataclass(frozen=True, slots=True)
class CollectionReader:
    """Reader of one collection. Its methods raise PlatformErrors.

    `limit`: records per page. `tries`: attempts per request, None for the default.
    """

    platform: Platform
    resource: Resource
    limit: int = MAX_PAGE_RECORDS
    tries: int | None = None

    def count(self, conditions: Sequence[Condition] = ()) -> int:
        """Return the platform's count of records that match `conditions`."""
        return read_page(
            self.platform, self.resource.collection, limit=1, tries=self.tries, filter=conditions
        ).total

    def date_conditions(self, lo: datetime, hi: datetime) -> list[Condition]:
        """Return the filter for records dated in `[lo, hi)`."""
        date_field = str(self.resource.date)
        return [(date_field, "gte", clock.utc_text(lo)), (date_field, "lt", clock.utc_text(hi))]

    def by_key(
        self, conditions: Sequence[Condition] = (), after: Key | None = None, *, descending: bool = False
    ) -> Iterator[Window]:
        """Yield matching records with keys above `after` in pages, ascending.

        With `descending`, yield keys below `after` in descending order. Yields at least one window, which is
        empty without a match. Raises UnsupportedQuery.
        """
        limit = self.limit
        while True:
            window, limit = self._read_verified_page(conditions, after, descending, limit)
            yield window
            if window.count >= window.total:
                return
            if window.last_key == after:
                # Every record of the page is unreadable, and no key leads past them.
                raise UnreadableRecords(window.unreadable[-1])
            after = window.last_key

    def by_pages(self) -> Iterator[Window]:
        """Yield all records by page numbers, until the total is reached."""
        records_read, page_number = 0, 1
        while True:
            window = self._read_page(page=page_number)
            records_read += window.count
            yield window
            if not window.count or records_read >= window.total:
                return
            page_number += 1

    def matching(self, conditions: Sequence[Condition], since: datetime | None = None) -> Window | None:
        """Read all records that match `conditions`, in any order.

        Returns None for more than one page. Raises PlatformBroken for inconsistent responses.
        """
        fault = ""
        for _ in range(MAX_PAGE_ATTEMPTS):
            window = self._read_page(filter=conditions)
            keys = list_usable_keys(self.resource, window.records)
            if window.count == window.total and len(set(keys)) == len(keys):
                window.last_key, window.since = keys[-1] if keys else None, since
                return window
            if window.total > max(window.count, 1):
                return None
            fault = f"{len(set(keys))} distinct records instead of {window.total}"
        condition_text = ", ".join(f"{name} {operator} {value}" for name, operator, value in conditions)
        raise PlatformBroken(f"/{self.resource.collection}, {condition_text}: {fault}")

    def single_page(self, *conditions: Condition) -> Window:
        """Read the records that match `conditions`. Raises UnsupportedQuery for more than one page."""
        window = self.matching(conditions)
        if window is None:
            name, operator, value = conditions[-1]
            raise UnsupportedQuery(
                f"/{self.resource.collection}: more than one page of records with {name} {operator} {value}"
            )
        return window

    def between(self, lo: datetime, hi: datetime) -> Iterator[Window]:
        """Yield all records dated in `[lo, hi)`, newest window first. A window of several pages is halved.

        `lo` and `hi` are UTC, without fractions of seconds. Raises PlatformBroken for an inconsistent window.
        """
        pending = [(lo, hi)]
        while pending:
            lo, hi = pending.pop()
            conditions = self.date_conditions(lo, hi)
            # Long windows are counted before they are read: each halving would waste the transfer of a page.
            window = None
            if hi - lo <= ONE_DAY or self.count(conditions) <= self.limit:
                window = self.matching(conditions, lo)
            if window is not None:
                yield window
                continue
            middle = lo + timedelta(seconds=int((hi - lo).total_seconds()) // 2)
            if middle <= lo:
                raise UnsupportedQuery(
                    f"/{self.resource.collection}: the records of the second {clock.utc_text(lo)} exceed one"
                    " page"
                )
            pending += [(lo, middle), (middle, hi)]

    def by_time(self, before: datetime | None = None) -> Iterator[Window]:
        """Yield all records by windows of time, newest first.

        First the records dated after today, then those back to EARLIEST_DATE, then those dated earlier or not
        at all. With `before`, only records dated earlier than `before` and records without a date. The
        windows cover all times and do not overlap. Raises UnsupportedQuery.
        """
        date_field, earliest = str(self.resource.date), clock.utc_text(EARLIEST_DATE)
        hi = before or clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + ONE_DAY
        if before is None:
            yield self.single_page((date_field, "gte", clock.utc_text(hi)))
        if hi > EARLIEST_DATE:
            yield from self.between(EARLIEST_DATE, hi)
        early_window = self.single_page((date_field, "lt", earliest))
        yield early_window
        # Count in this order: a record created between the two counts must not count as undated.
        total = self.count()
        undated_count = total - self.count([(date_field, "gte", earliest)]) - early_window.total
        if undated_count > 0:
            undated_window = self.single_page((date_field, "eq", None))
            yield undated_window
            if undated_window.total < undated_count:
                missed_count = undated_count - undated_window.total
                raise UnsupportedQuery(
                    f"/{self.resource.collection}: no window of time contains {missed_count:,} of the records"
                )

    def _read_page(self, *, page: int = 1, filter: Sequence[Condition] = ()) -> Window:
        return read_page(
            self.platform,
            self.resource.collection,
            limit=self.limit,
            tries=self.tries,
            page=page,
            filter=filter,
        )

    def _read_verified_page(
        self, conditions: Sequence[Condition], after: Key | None, descending: bool, limit: int
    ) -> tuple[Window, int]:
        """Read one verified page.

        Returns it with the page limit that the platform supports.
        """
        key_field = str(self.resource.key)
        after_last = [(key_field, "lt" if descending else "gt", after)] if after is not None else []
        fault = ""
        for _ in range(MAX_PAGE_ATTEMPTS):
            window = read_page(
                self.platform,
                self.resource.collection,
                limit=limit,
                tries=self.tries,
                filter=[*conditions, *after_last],
                sort=key_field,
                dir="DESC" if descending else "ASC",
            )
            keys = list_usable_keys(self.resource, window.records)
            expected = min(window.total, limit)
            fault = _find_order_fault(keys, after, descending)
            if not fault and window.count == expected:
                window.last_key = keys[-1] if keys else after
                return window, limit
            if not fault:
                fault = f"{window.count} records instead of {expected}"
                # The platform may limit pages to fewer records than requested: use that number as the limit.
                limit = len(keys) if 0 < len(keys) < expected else limit
        raise UnsupportedQuery(f"/{self.resource.collection}: {fault}")


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
