"""Look-backs: what the API lists is here, once, whatever the webhooks told.

A look-back reads what lies beyond the highest id read so far, and again what is dated within
`sync.overlap` of the last look-back: a long call's CDR is dated by its start, and no record tells when it
was changed. What changes without telling – transcripts, folders, notes – is found by reading again what is
recent, and by the complete walks (walking.py).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from integration import clock
from integration.errors import PlatformRefused
from integration.mirror import walks
from integration.platform_api.paging import Condition
from integration.sync.parts import Parts
from integration.sync.plan import Policy
from integration.sync.reading import NotByKey, by_key, page_limit
from integration.sync.storing import Tally, store, tries
from integration.sync.walking import walk

log = logging.getLogger(__name__)

FIRST_LOOK_BACK = timedelta(days=1)
"""How far the very first look-back reads: today's calls are there before the walk has come to them."""

SMALL = 20_000
"""Records up to which a collection that can't be filtered is read whole at each look-back."""


def look_back(parts: Parts, policy: Policy, tally: Tally | None = None) -> Tally:
    """Read what is new in a collection that grows. Raises PlatformError; what was read stays."""
    tally = tally or Tally()
    resource, collection = policy.resource, policy.collection
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    begun = clock.now()
    since = _seen_until(state, begun) - timedelta(seconds=parts.settings.sync.overlap)
    limit = page_limit(state.failures)
    mark, date = state.mark, None
    try:
        if mark is not None:
            for window in by_key(
                parts.platform, resource, after=mark, limit=limit, tries=tries(state.failures)
            ):
                date = date or window.date
                store(parts, policy, window, tally)
                mark = window.last
        conditions: list[Condition] = [(str(resource.date), "gte", clock.stamp(since))]
        for window in by_key(parts.platform, resource, conditions, limit=limit, tries=tries(state.failures)):
            date = date or window.date
            store(parts, policy, window, tally)
    except (NotByKey, PlatformRefused) as error:
        if isinstance(error, PlatformRefused) and error.status != 400:
            raise
        if (state.total or 0) > SMALL:
            raise
        log.warning("%s; it is read whole instead", error)
        return walk(parts, policy, tally, by_pages_only=True)
    until = clock.stamp(_no_later(begun, date))
    parts.mirror.write(lambda tx: walks.looked_back(tx, collection, mark, until))
    return tally


def reread(parts: Parts, policy: Policy, days: int, tally: Tally | None = None) -> Tally:
    """Read again what is dated within `days`: nothing tells when such records change."""
    tally = tally or Tally()
    since = clock.stamp(clock.unix() - days * 86400)
    for window in by_key(parts.platform, policy.resource, [(str(policy.resource.date), "gte", since)]):
        store(parts, policy, window, tally)
        tally.check()
    parts.mirror.write(lambda tx: walks.reread(tx, policy.collection))
    return tally


def _seen_until(state: walks.WalkState, begun: datetime) -> datetime:
    """What the last look-back has read up to; a first one begins with today."""
    return clock.parse_stamp(state.seen_until) or begun - FIRST_LOOK_BACK


def _no_later(begun: datetime, date: datetime | None) -> datetime:
    """The earlier of our clock and the platform's. Whichever is fast, nothing is skipped; a slow one only
    makes the next look-back read more."""
    return min(begun, date) if date is not None and date.year > 1970 else begun.astimezone(UTC)
