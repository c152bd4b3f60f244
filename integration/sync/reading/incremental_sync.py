"""Incremental syncs and refreshes of collections that grow, independent of webhooks.

An incremental sync reads the records above the high-water mark. It also reads again the records dated within
`sync.overlap` before the last incremental sync, or since the start of calls that ended within the last hour:
the CDR of a long call is dated by its start. Records have no time of their last change, so changes of
transcripts, folders and notes are found by refreshes and by full syncs (full_sync.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from integration.context import SyncContext
from integration.core import clock
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import list_usable_keys
from integration.mirror.sync_state import collection_state, lookup_queue
from integration.sync.plan import Policy
from integration.sync.reading.collection_reader import (
    CollectionReader,
    UnsupportedQuery,
    get_max_tries,
    page_limit,
    try_query,
)
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Tally, store_window
from integration.sync.reading.pages import Window

FIRST_SYNC_SPAN = timedelta(days=1)
"""Span of the first incremental sync.

Today's calls are then stored before the full sync reads them.
"""

RECENT_PAGE_SIZE = 1000
"""Records of a page of an incremental sync or a refresh.

A page of 5,000 records takes five times the memory.
"""


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
    reader = CollectionReader(
        context.platform,
        policy.resource,
        min(RECENT_PAGE_SIZE, page_limit(state.failures)),
        get_max_tries(state.failures),
    )
    new = None
    if state.has_starting_point:
        new = try_query(lambda: _read_new(context, policy, tally, state.mark, reader))
    recent = try_query(lambda: _read_since(context, policy, tally, since, reader))
    if new is None and recent is None:
        return run_full_sync(context, policy, tally)
    # Records that the platform could not select are found by the counts of days (day_counts.py).
    high_water_mark, new_time = new or (None, None)
    _, recent_time = recent or (None, None)
    until = clock.utc_text(_get_earlier_time(started_at, new_time or recent_time))
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
    reader = CollectionReader(context.platform, policy.resource, RECENT_PAGE_SIZE)
    _read_since(context, policy, tally, since, reader)
    context.mirror_db.write(lambda tx: collection_state.record_refresh(tx, policy.collection))
    tally.raise_if_unreadable()
    return tally


ReadResult = tuple[Key | None, datetime | None]
"""New high-water mark, and the platform's time at the first request.

A mark of None leaves the stored mark unchanged.
"""


def _read_new(
    context: SyncContext, policy: Policy, tally: Tally, mark: Key | None, reader: CollectionReader
) -> ReadResult:
    """Read the records above the mark. They need an order only if they are more than one page."""
    try:
        return _store_windows(context, policy, tally, reader.by_key(after=mark))
    except UnsupportedQuery:
        window = reader.single_page((str(policy.resource.key), "gt", mark or 0))
        keys = list_usable_keys(policy.resource, window.records)
        window.last_key = max((key for key in keys if isinstance(key, int)), default=None)
        return _store_windows(context, policy, tally, [window])


def _read_since(
    context: SyncContext, policy: Policy, tally: Tally, since: datetime, reader: CollectionReader
) -> ReadResult:
    """Read the records dated since, in the order of the key, or in windows that need no order."""
    condition = (str(policy.resource.date), "gte", clock.utc_text(since))
    try:
        return _store_windows(context, policy, tally, reader.by_key([condition]))
    except UnsupportedQuery:
        # One day ahead, because clocks differ. Records dated later have new ids.
        until = (clock.now() + timedelta(days=1)).replace(microsecond=0)
        return _store_windows(context, policy, tally, reader.between(since, until))


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
