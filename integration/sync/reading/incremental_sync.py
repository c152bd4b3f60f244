"""Incremental syncs and refreshes of collections that grow, independent of webhooks.

An incremental sync reads the records above the high-water mark. It also reads again the records dated within
`sync.overlap` before the last incremental sync, or since the start of calls that ended within the last hour:
the CDR of a long call is dated by its start. Records have no time of their last change, so changes of
transcripts, folders and notes are found by refreshes and by full syncs (full_sync.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key, list_usable_keys
from integration.mirror.sync_state import collection_state, lookup_queue
from integration.platform_api.paging import Condition
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading import windows
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Tally, get_max_tries, store_window
from integration.sync.reading.pages import (
    KeyOrderUnsupported,
    Window,
    is_unsupported_query,
    page_limit,
    read_by_key,
)

log = logging.getLogger(__name__)

FIRST_SYNC_SPAN = timedelta(days=1)
"""Span of the first incremental sync.

Today's calls are then stored before the full sync reads them.
"""

RECENT_PAGE_SIZE = 1000
"""Records of a page of an incremental sync or a refresh.

A page of 5,000 records takes five times the memory.
"""

UNFILTERED_PAGE_SIZE = 500
"""Records of a page if the platform cannot filter by time.

Only the order of the records then shows their age.
"""

MAX_UNFILTERED_RECORDS = 20_000
"""Largest collection without filter and order that each incremental sync reads completely."""


def run_incremental_sync(context: SyncContext, policy: Policy, tally: Tally | None = None) -> Tally:
    """Read the new records of a history collection.

    Raises PlatformError; stored records are kept.
    """
    tally = tally or Tally()
    collection = policy.collection
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, collection)
        earliest_lookup_start = (
            lookup_queue.find_recent_leg_start(connection, clock.unix())
            if collection in lookup_queue.LEG_COLLECTIONS
            else None
        )
    started_at = clock.now()
    since = _get_last_sync_end(state, started_at) - timedelta(seconds=context.settings.sync.overlap)
    if earliest_lookup_start is not None:
        since = min(since, datetime.fromtimestamp(earliest_lookup_start, UTC))
    since = since.replace(microsecond=0)
    for read_records in (_read_by_key, _read_by_time, _read_newest):
        try:
            high_water_mark, platform_time = read_records(context, policy, tally, state, since)
            break
        except (KeyOrderUnsupported, PlatformRefused) as error:
            if not is_unsupported_query(error):
                raise
            log.info("%s; trying another query", error)
    else:
        if (state.total or 0) > MAX_UNFILTERED_RECORDS:
            raise PlatformBroken(
                f"/{collection} can be neither filtered nor sorted, and has more than "
                f"{MAX_UNFILTERED_RECORDS:,} records, too many to read completely"
            )
        return run_full_sync(context, policy, tally, by_pages_only=True)
    until = clock.utc_text(_get_earlier_time(started_at, platform_time))
    context.mirror_db.write(
        lambda tx: collection_state.finish_incremental_sync(tx, collection, high_water_mark, until)
    )
    tally.raise_if_unreadable()
    return tally


def refresh_recent(context: SyncContext, policy: Policy, days: int, tally: Tally | None = None) -> Tally:
    """Read the records of the last `days` again.

    The platform does not report their changes.
    """
    tally = tally or Tally()
    since = (clock.now() - timedelta(days=days)).replace(microsecond=0)
    try:
        conditions = [_make_date_condition(policy, since)]
        pages = read_by_key(context.platform, policy.resource, conditions, limit=RECENT_PAGE_SIZE)
        _store_windows(context, policy, tally, pages)
    except KeyOrderUnsupported:
        pages = windows.read_closed(context.platform, policy.resource, since, _get_window_end())
        _store_windows(context, policy, tally, pages)
    context.mirror_db.write(lambda tx: collection_state.record_refresh(tx, policy.collection))
    tally.raise_if_unreadable()
    return tally


ReadResult = tuple[Key | None, datetime | None]
"""New high-water mark, and the platform's time at the first request.

A mark of None leaves the stored mark unchanged.
"""


def _read_by_key(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """Read the records above the mark, then the records dated since.

    Both are read in the order of the key.
    """
    read_pages = partial(
        read_by_key,
        context.platform,
        policy.resource,
        limit=min(RECENT_PAGE_SIZE, page_limit(state.failures)),
        tries=get_max_tries(state.failures),
    )
    high_water_mark, platform_time = None, None
    if state.has_starting_point:
        high_water_mark, platform_time = _store_windows(context, policy, tally, read_pages(after=state.mark))
    _, recent_time = _store_windows(context, policy, tally, read_pages([_make_date_condition(policy, since)]))
    return high_water_mark, platform_time or recent_time


def _read_by_time(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """Read the records above the mark and closed windows of time.

    Used if the platform does not sort.
    """
    high_water_mark, platform_time = None, None
    if state.has_starting_point:
        try:
            high_water_mark, platform_time = _read_above_mark(context, policy, tally, state)
        except windows.TimeFilterUnsupported as error:
            # The next full sync reads these records by page numbers and raises the mark.
            log.info("%s; the records above the mark are left to the full sync", error)
    pages = windows.read_closed(
        context.platform,
        policy.resource,
        since,
        _get_window_end(),
        limit=page_limit(state.failures),
        tries=get_max_tries(state.failures),
    )
    _, recent_time = _store_windows(context, policy, tally, pages)
    return high_water_mark, platform_time or recent_time


def _read_above_mark(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State
) -> ReadResult:
    """Read all records above the mark, in any order.

    They are one page, or windows of all times. The new mark is the highest key of the first window with
    records. Records created later have higher keys; a key of a later window could be higher than that of a
    record created after its own window was read.
    """
    conditions: list[Condition] = [(str(policy.resource.key), "gt", state.mark)] if state.mark else []
    limit, max_tries = page_limit(state.failures), get_max_tries(state.failures)
    only_page = windows.read_matching(
        context.platform, policy.resource, conditions, limit=limit, tries=max_tries
    )
    pages = (
        [only_page]
        if only_page is not None
        else windows.read_all(
            context.platform, policy.resource, conditions=conditions, limit=limit, tries=max_tries
        )
    )
    high_water_mark, platform_time = None, None
    for window in pages:
        platform_time = platform_time or window.platform_time
        store_window(context, policy, window, tally)
        tally.raise_if_cancelled()
        keys = list_usable_keys(policy.resource, window.records)
        high_water_mark = high_water_mark or max((key for key in keys if isinstance(key, int)), default=None)
    return high_water_mark, platform_time


def _read_newest(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """Read from the newest id down, if time cannot be filtered.

    Stops at the first page that reaches the mark and has no record dated since. An id is assigned when a call
    ends, so a record dated after `since` has a higher id than the records of calls that ended before.
    """
    platform_time, newest_key = None, None
    for window in read_by_key(
        context.platform,
        policy.resource,
        descending=True,
        limit=UNFILTERED_PAGE_SIZE,
        tries=get_max_tries(state.failures),
    ):
        platform_time = platform_time or window.platform_time
        store_window(context, policy, window, tally)
        tally.raise_if_cancelled()
        if newest_key is None and window.records:
            newest_key = get_usable_key(policy.resource, window.records[0])
        dates = [clock.parse_utc(record.values.get(str(policy.resource.date))) for record in window.records]
        has_reached_mark = not state.has_starting_point or (
            state.mark is not None and isinstance(window.last_key, int) and window.last_key <= int(state.mark)
        )
        if has_reached_mark and not any(date is not None and date >= since for date in dates):
            break
    return newest_key, platform_time


def _store_windows(context: SyncContext, policy: Policy, tally: Tally, pages: Iterable[Window]) -> ReadResult:
    """Store each window as it arrives.

    Returns the last key and the platform's time at the first request.
    """
    last_key, platform_time = None, None
    for window in pages:
        platform_time = platform_time or window.platform_time
        store_window(context, policy, window, tally)
        tally.raise_if_cancelled()
        last_key = window.last_key
    return last_key, platform_time


def _make_date_condition(policy: Policy, since: datetime) -> Condition:
    return (str(policy.resource.date), "gte", clock.utc_text(since))


def _get_window_end() -> datetime:
    """Return a time one day ahead, because clocks differ.

    Records dated later have new ids.
    """
    return (clock.now() + timedelta(days=1)).replace(microsecond=0)


def _get_last_sync_end(state: collection_state.State, started_at: datetime) -> datetime:
    """Return the end of the last incremental sync.

    For the first sync that is FIRST_SYNC_SPAN ago.
    """
    return clock.parse_utc(state.seen_until) or started_at - FIRST_SYNC_SPAN


def _get_earlier_time(local_time: datetime, platform_time: datetime | None) -> datetime:
    """Return the earlier of the local time and the platform's time.

    With the earlier time a fast clock skips no records; a slow clock only makes the next sync read more.
    """
    return (
        min(local_time, platform_time)
        if platform_time is not None and platform_time.year > 1970
        else local_time.astimezone(UTC)
    )
