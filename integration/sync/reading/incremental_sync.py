"""Look-backs: what the API lists is here, once, whatever the webhooks told.

A look-back reads what lies beyond the highest id read so far, and again what is dated within `sync.overlap`
of the last look-back, or since those calls began that ended within an hour: a long call's CDR is dated by its
start, and no record tells when it was changed. What changes without telling – transcripts, folders, notes –
is found by reading again what is recent, and by the complete walks (full_sync.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key
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
"""How far the very first look-back reads: today's calls are there before the walk has come to them."""

UNFILTERED_PAGE_SIZE = 500
"""Records of a page where only their order tells how new they are."""

MAX_UNFILTERED_RECORDS = 20_000
"""Records up to which a collection that can't be filtered is read whole at each look-back."""


def run_incremental_sync(context: SyncContext, policy: Policy, tally: Tally | None = None) -> Tally:
    """Read what is new in a collection that grows. Raises PlatformError; what was read stays."""
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
    for read_records in (_read_by_key, _read_by_time, _read_newest):
        try:
            high_water_mark, platform_time = read_records(context, policy, tally, state, since)
            break
        except (KeyOrderUnsupported, PlatformRefused) as error:
            if not is_unsupported_query(error):
                raise
            log.info("%s; another way is tried", error)
    else:
        if (state.total or 0) > MAX_UNFILTERED_RECORDS:
            raise PlatformBroken(
                f"/{collection}: it can be neither filtered nor sorted, and is too big to be read whole"
            )
        return run_full_sync(context, policy, tally, by_pages_only=True)
    until = clock.utc_text(_get_earlier_time(started_at, platform_time))
    context.mirror_db.write(
        lambda tx: collection_state.finish_incremental_sync(tx, collection, high_water_mark, until)
    )
    return tally


def refresh_recent(context: SyncContext, policy: Policy, days: int, tally: Tally | None = None) -> Tally:
    """Read again what is dated within `days`: nothing tells when such records change."""
    tally = tally or Tally()
    since = clock.now() - timedelta(days=days)
    try:
        conditions = [_make_date_condition(policy, since)]
        _store_windows(context, policy, tally, read_by_key(context.platform, policy.resource, conditions))
    except KeyOrderUnsupported:
        begin = since.replace(microsecond=0)
        pages = windows.read_closed(context.platform, policy.resource, begin, _get_window_end())
        _store_windows(context, policy, tally, pages)
    context.mirror_db.write(lambda tx: collection_state.record_refresh(tx, policy.collection))
    return tally


ReadResult = tuple[Key | None, datetime | None]
"""The highest id up to which all was read (None: as before), and the platform's time at the first request."""


def _read_by_key(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """Read the records above the mark, then those dated since, each in the order of the key."""
    read_pages = partial(
        read_by_key,
        context.platform,
        policy.resource,
        limit=page_limit(state.failures),
        tries=get_max_tries(state.failures),
    )
    high_water_mark, platform_time = state.mark, None
    if high_water_mark is not None:
        high_water_mark, platform_time = _store_windows(
            context, policy, tally, read_pages(after=high_water_mark)
        )
    _, recent_time = _store_windows(context, policy, tally, read_pages([_make_date_condition(policy, since)]))
    return high_water_mark, platform_time or recent_time


def _read_by_time(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """The same without any order: closed windows of time, and one of ids. Where more than a page lies beyond
    the mark, the mark stays, and the next complete walk brings what is dated earlier."""
    limit, max_tries, platform_time = page_limit(state.failures), get_max_tries(state.failures), None
    high_water_mark = state.mark
    if high_water_mark is not None:
        conditions: list[Condition] = [(str(policy.resource.key), "gt", high_water_mark)]
        matching_window = windows.read_matching(
            context.platform, policy.resource, conditions, limit=limit, tries=max_tries
        )
        if matching_window is not None:
            platform_time = matching_window.platform_time
            store_window(context, policy, matching_window, tally)
            keys = [get_usable_key(policy.resource, record) for record in matching_window.records]
            high_water_mark = max(
                [high_water_mark, *(key for key in keys if isinstance(key, type(high_water_mark)))]
            )
    begin = since.replace(microsecond=0)
    pages = windows.read_closed(
        context.platform, policy.resource, begin, _get_window_end(), limit=limit, tries=max_tries
    )
    _, recent_time = _store_windows(context, policy, tally, pages)
    return high_water_mark, platform_time or recent_time


def _read_newest(
    context: SyncContext, policy: Policy, tally: Tally, state: collection_state.State, since: datetime
) -> ReadResult:
    """Where time can't be filtered: down from the newest id until a page has nothing dated since. An id is
    given when a call ends, so whatever was dated since then has a higher one than what ended before."""
    platform_time, newest_key, since_text = None, None, clock.utc_text(since)
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
        dates = [record.values.get(str(policy.resource.date)) for record in window.records]
        has_reached_mark = state.mark is None or (
            isinstance(window.last_key, int) and window.last_key <= int(state.mark)
        )
        if has_reached_mark and not any(isinstance(date, str) and date >= since_text for date in dates):
            break
    return newest_key, platform_time


def _store_windows(context: SyncContext, policy: Policy, tally: Tally, pages: Iterable[Window]) -> ReadResult:
    """Store each window as it arrives. Returns the last key and the platform's time at the first request."""
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
    """A day ahead: clocks differ, and what is dated yet later has a new id."""
    return (clock.now() + timedelta(days=1)).replace(microsecond=0)


def _get_last_sync_end(state: collection_state.State, started_at: datetime) -> datetime:
    """What the last look-back has read up to; a first one begins with today."""
    return clock.parse_utc(state.seen_until) or started_at - FIRST_SYNC_SPAN


def _get_earlier_time(local_time: datetime, platform_time: datetime | None) -> datetime:
    """The earlier of our clock and the platform's. Whichever is fast, nothing is skipped; a slow one only
    makes the next look-back read more."""
    return (
        min(local_time, platform_time)
        if platform_time is not None and platform_time.year > 1970
        else local_time.astimezone(UTC)
    )
