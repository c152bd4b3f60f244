"""Look-backs: what the API lists is here, once, whatever the webhooks told.

A look-back reads what lies beyond the highest id read so far, and again what is dated within `sync.overlap`
of the last look-back, or since those calls began that ended within an hour: a long call's CDR is dated by its
start, and no record tells when it was changed. What changes without telling – transcripts, folders, notes –
is found by reading again what is recent, and by the complete walks (walking.py).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import usable_key
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import lookup_queue as lookups
from integration.platform_api.paging import Condition
from integration.sync.context import Parts
from integration.sync.plan import Policy
from integration.sync.reading import windows
from integration.sync.reading.full_sync import walk
from integration.sync.reading.page_store import Tally, store, tries
from integration.sync.reading.pages import NotByKey, by_key, is_unfit, page_limit

log = logging.getLogger(__name__)

FIRST_LOOK_BACK = timedelta(days=1)
"""How far the very first look-back reads: today's calls are there before the walk has come to them."""

NEWEST = 500
"""Records of a page where only their order tells how new they are."""

SMALL = 20_000
"""Records up to which a collection that can't be filtered is read whole at each look-back."""


def look_back(parts: Parts, policy: Policy, tally: Tally | None = None) -> Tally:
    """Read what is new in a collection that grows. Raises PlatformError; what was read stays."""
    tally = tally or Tally()
    collection = policy.collection
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
        ended = lookups.fresh_since(connection, clock.unix()) if collection in lookups.COLLECTIONS else None
    begun = clock.now()
    since = _seen_until(state, begun) - timedelta(seconds=parts.settings.sync.overlap)
    if ended is not None:
        since = min(since, datetime.fromtimestamp(ended, UTC))
    for way in (_by_key, _by_time, _newest):
        try:
            mark, date = way(parts, policy, tally, state, since)
            break
        except (NotByKey, PlatformRefused) as error:
            if not is_unfit(error):
                raise
            log.info("%s; another way is tried", error)
    else:
        if (state.total or 0) > SMALL:
            raise PlatformBroken(
                f"/{collection}: it can be neither filtered nor sorted, and is too big to be read whole"
            )
        return walk(parts, policy, tally, by_pages_only=True)
    until = clock.stamp(_no_later(begun, date))
    parts.mirror.write(lambda tx: walks.looked_back(tx, collection, mark, until))
    return tally


def reread(parts: Parts, policy: Policy, days: int, tally: Tally | None = None) -> Tally:
    """Read again what is dated within `days`: nothing tells when such records change."""
    tally = tally or Tally()
    since = clock.now() - timedelta(days=days)
    try:
        found = by_key(
            parts.platform, policy.resource, [(str(policy.resource.date), "gte", clock.stamp(since))]
        )
        for window in found:
            store(parts, policy, window, tally)
            tally.check()
    except NotByKey:
        for window in windows.closed(parts.platform, policy.resource, since.replace(microsecond=0), _end()):
            store(parts, policy, window, tally)
            tally.check()
    parts.mirror.write(lambda tx: walks.reread(tx, policy.collection))
    return tally


Read = tuple[Key | None, datetime | None]
"""The highest id up to which all was read (None: as before), and the platform's time at the first request."""


def _by_key(parts: Parts, policy: Policy, tally: Tally, state: walks.WalkState, since: datetime) -> Read:
    """What lies beyond the mark, and what is dated since, each in the order of the key."""
    limit, mark, date = page_limit(state.failures), state.mark, None
    if mark is not None:
        for window in by_key(
            parts.platform, policy.resource, after=mark, limit=limit, tries=tries(state.failures)
        ):
            date = date or window.date
            store(parts, policy, window, tally)
            mark = window.last
    conditions: list[Condition] = [(str(policy.resource.date), "gte", clock.stamp(since))]
    for window in by_key(
        parts.platform, policy.resource, conditions, limit=limit, tries=tries(state.failures)
    ):
        date = date or window.date
        store(parts, policy, window, tally)
    return mark, date


def _by_time(parts: Parts, policy: Policy, tally: Tally, state: walks.WalkState, since: datetime) -> Read:
    """The same without any order: closed windows of time, and one of ids. Where more than a page lies beyond
    the mark, the mark stays, and the next complete walk brings what is dated earlier."""
    limit, again, date = page_limit(state.failures), tries(state.failures), None
    mark = state.mark
    if mark is not None:
        conditions: list[Condition] = [(str(policy.resource.key), "gt", mark)]
        found = windows.matching(parts.platform, policy.resource, conditions, limit=limit, tries=again)
        if found is not None:
            date = found.date
            store(parts, policy, found, tally)
            keys = [usable_key(policy.resource, document) for document in found.documents]
            mark = max([mark, *(key for key in keys if isinstance(key, type(mark)))])
    begin = since.replace(microsecond=0)
    for window in windows.closed(parts.platform, policy.resource, begin, _end(), limit=limit, tries=again):
        date = date or window.date
        store(parts, policy, window, tally)
    return mark, date


def _newest(parts: Parts, policy: Policy, tally: Tally, state: walks.WalkState, since: datetime) -> Read:
    """Where time can't be filtered: down from the newest id until a page has nothing dated since. An id is
    given when a call ends, so whatever was dated since then has a higher one than what ended before."""
    date, top, oldest = None, None, clock.stamp(since)
    for window in by_key(
        parts.platform, policy.resource, down=True, limit=NEWEST, tries=tries(state.failures)
    ):
        date = date or window.date
        store(parts, policy, window, tally)
        tally.check()
        if top is None and window.documents:
            top = usable_key(policy.resource, window.documents[0])
        dates = [document.values.get(str(policy.resource.date)) for document in window.documents]
        known = state.mark is None or (isinstance(window.last, int) and window.last <= int(state.mark))
        if known and not any(isinstance(one, str) and one >= oldest for one in dates):
            break
    return top, date


def _end() -> datetime:
    """A day ahead: clocks differ, and what is dated yet later has a new id."""
    return (clock.now() + timedelta(days=1)).replace(microsecond=0)


def _seen_until(state: walks.WalkState, begun: datetime) -> datetime:
    """What the last look-back has read up to; a first one begins with today."""
    return clock.parse_stamp(state.seen_until) or begun - FIRST_LOOK_BACK


def _no_later(begun: datetime, date: datetime | None) -> datetime:
    """The earlier of our clock and the platform's. Whichever is fast, nothing is skipped; a slow one only
    makes the next look-back read more."""
    return min(begun, date) if date is not None and date.year > 1970 else begun.astimezone(UTC)
