"""Read closed windows of time: `[lo, hi)` by filter.

A window is accepted only with as many records as its total. Windows need no sort order of the platform, and
records created or deleted outside a window do not affect it. A window with more than one page is halved. If
the platform sorts by key, pages.py needs fewer requests; if it does not, an entire collection is read by
windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import PlatformBroken
from integration.mirror.records.upsert import list_usable_keys
from integration.platform_api.client import Platform
from integration.platform_api.paging import MAX_PAGE_RECORDS, Condition
from integration.sync.reading import split_pages
from integration.sync.reading.pages import (
    MAX_PAGE_ATTEMPTS,
    UnsupportedQuery,
    Window,
    make_window,
    require_total,
)

ONE_DAY = timedelta(days=1)
EARLIEST_DATE = datetime(1990, 1, 1, tzinfo=UTC)
"""Start of the oldest window.

The few records dated earlier come from wrong clocks.
"""


class TimeFilterUnsupported(UnsupportedQuery):
    """The collection cannot be divided into windows of time."""


def make_date_conditions(resource: Resource, lo: datetime, hi: datetime) -> list[Condition]:
    """Return the filter for records dated in `[lo, hi)`."""
    date_field = str(resource.date)
    return [(date_field, "gte", clock.utc_text(lo)), (date_field, "lt", clock.utc_text(hi))]


def count_records(
    platform: Platform, resource: Resource, conditions: Sequence[Condition], *, tries: int | None = None
) -> int:
    """Return the platform's count of records that match `conditions`. Raises PlatformError."""
    page = platform.page(resource.collection, filter=conditions, limit=1, tries=tries)
    return require_total(resource, page.total)


def read_matching(
    platform: Platform,
    resource: Resource,
    conditions: Sequence[Condition],
    *,
    limit: int = MAX_PAGE_RECORDS,
    tries: int | None = None,
    since: datetime | None = None,
) -> Window | None:
    """Read all records that match `conditions`, in any order.

    Returns None for more than one page. Raises PlatformBroken for inconsistent responses, other
    PlatformErrors.
    """
    fault = ""
    for _ in range(MAX_PAGE_ATTEMPTS):
        page = split_pages.read_page(platform, resource, filter=conditions, limit=limit, tries=tries)
        total = require_total(resource, page.total)
        keys = list_usable_keys(resource, page.records)
        if page.count == total and len(set(keys)) == len(keys):
            return make_window(page, total, keys[-1] if keys else None, since)
        if total > page.count and total > 1:
            return None
        fault = f"{len(set(keys))} distinct records instead of {total}"
    condition_text = ", ".join(f"{name} {operator} {value}" for name, operator, value in conditions)
    raise PlatformBroken(f"/{resource.collection}, {condition_text}: {fault}")


def read_closed(
    platform: Platform,
    resource: Resource,
    lo: datetime,
    hi: datetime,
    *,
    limit: int = MAX_PAGE_RECORDS,
    tries: int | None = None,
) -> Iterator[Window]:
    """Yield all records dated in `[lo, hi)`, newest window first.

    `lo` and `hi` are UTC, without fractions of seconds. Raises PlatformBroken
    for an inconsistent window, other PlatformErrors.
    """
    pending = [(lo, hi)]
    while pending:
        lo, hi = pending.pop()
        in_window = make_date_conditions(resource, lo, hi)
        # Long windows are counted before they are read: each halving would waste the transfer of a page.
        window = None
        if hi - lo <= ONE_DAY or count_records(platform, resource, in_window, tries=tries) <= limit:
            window = read_matching(platform, resource, in_window, limit=limit, tries=tries, since=lo)
        if window is not None:
            yield window
            continue
        middle = lo + timedelta(seconds=int((hi - lo).total_seconds()) // 2)
        if middle <= lo:
            raise TimeFilterUnsupported(
                f"/{resource.collection}: the records of the second {clock.utc_text(lo)} exceed one page"
            )
        pending += [(lo, middle), (middle, hi)]


def read_all(
    platform: Platform,
    resource: Resource,
    before: datetime | None = None,
    *,
    limit: int = MAX_PAGE_RECORDS,
    tries: int | None = None,
) -> Iterator[Window]:
    """Yield all records by windows of time, newest first.

    First the records dated after today, then those back to EARLIEST_DATE, then those dated earlier or not at
    all. With `before`, only records dated earlier than `before` and records without a date. The windows cover
    all times and do not overlap. Raises TimeFilterUnsupported, other PlatformErrors.
    """
    date_field = str(resource.date)
    hi = before or _tomorrow()
    if before is None:
        after_today = [(date_field, "gte", clock.utc_text(hi))]
        yield _read_single_page(platform, resource, after_today, limit, tries)
    if hi > EARLIEST_DATE:
        yield from read_closed(platform, resource, EARLIEST_DATE, hi, limit=limit, tries=tries)
    early = [(date_field, "lt", clock.utc_text(EARLIEST_DATE))]
    early_window = _read_single_page(platform, resource, early, limit, tries)
    yield early_window
    # Count in this order: a record created between the two counts must not count as undated.
    total = count_records(platform, resource, [], tries=tries)
    dated = [(date_field, "gte", clock.utc_text(EARLIEST_DATE))]
    dated_count = count_records(platform, resource, dated, tries=tries)
    undated_count = total - dated_count - early_window.total
    if undated_count > 0:
        undated = [(date_field, "eq", None)]
        undated_window = _read_single_page(platform, resource, undated, limit, tries)
        yield undated_window
        if undated_window.total < undated_count:
            missed_count = undated_count - undated_window.total
            raise TimeFilterUnsupported(
                f"/{resource.collection}: no window of time contains {missed_count:,} of the records"
            )


def _read_single_page(
    platform: Platform, resource: Resource, conditions: Sequence[Condition], limit: int, tries: int | None
) -> Window:
    """Read the records that match `conditions`.

    Raises TimeFilterUnsupported for more than one page.
    """
    window = read_matching(platform, resource, conditions, limit=limit, tries=tries)
    if window is None:
        name, operator, value = conditions[-1]
        raise TimeFilterUnsupported(
            f"/{resource.collection}: more than one page of records with {name} {operator} {value}"
        )
    return window


def _tomorrow() -> datetime:
    return clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + ONE_DAY
