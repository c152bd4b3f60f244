"""Rotation: repeated read of the records of recent weeks.

The platform does not report when a record changes. Refreshes read the records of the last days again every
few minutes. A rotation reads those between them and OLD_RECORD_DAYS, a few pages at a time, from the newest
to the oldest. It begins again after ROTATION_SECONDS, or at once if it took longer. Older records are read by
full syncs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from integration.core import clock
from integration.mirror.records.rows import Key
from integration.mirror.sync_state import collection_state
from integration.sync.context import SyncContext
from integration.sync.plan import OLD_RECORD_DAYS, ROTATION_SECONDS, Policy
from integration.sync.reading.collection_reader import CollectionReader, try_query
from integration.sync.reading.incremental_sync import RECENT_PAGE_SIZE
from integration.sync.reading.page_store import Tally, store_window

ROTATION_STEP = timedelta(days=5)
"""Length of the windows of time."""

PAGES_PER_RUN = 2
"""Pages that a run reads of one collection.

With one run a minute this is 90,000 records in ROTATION_SECONDS.
"""


class Rotation:
    """Rotation of one collection.

    It begins again after a restart.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._began_at: float | None = None
        self._spans: list[tuple[datetime, datetime]] = []
        """Windows of time that are left, the next one last."""
        self._after: Key | None = None
        """Last key that was read of the next window."""

    def run(self, context: SyncContext, tally: Tally) -> int:
        """Read the next pages. Returns the number of pages.

        Does nothing before the initial sync is complete. Raises PlatformError; the next run continues after
        the last stored page.
        """
        with context.mirror_db.read() as connection:
            state = collection_state.get_state(connection, self.policy.collection)
        if not state.is_complete or state.off_since is not None or not self._begin_if_due():
            return 0
        pages = 0
        while self._spans and pages < PAGES_PER_RUN:
            read = try_query(partial(self._read_pages, context, tally, PAGES_PER_RUN - pages))
            if read is None:
                self._spans.clear()  # Full syncs read these records.
            pages += read or 0
        tally.raise_if_unreadable()
        return pages

    def _begin_if_due(self) -> bool:
        """Begin the next rotation if it is due.

        Returns whether pages are left.
        """
        now = clock.monotonic()
        if not self._spans and (self._began_at is None or now - self._began_at >= ROTATION_SECONDS):
            self._began_at, self._after = now, None
            self._spans = list(_list_spans(self.policy))[::-1]
        return bool(self._spans)

    def _read_pages(self, context: SyncContext, tally: Tally, limit: int) -> int:
        """Read up to `limit` pages of the next window; return their number."""
        since, until = self._spans[-1]
        pages = 0
        reader = CollectionReader(context.platform, self.policy.resource, RECENT_PAGE_SIZE)
        for window in islice(reader.by_key(reader.date_conditions(since, until), self._after), limit):
            pages += 1
            is_last = window.count >= window.total
            store_window(context, self.policy, window, tally)
            tally.raise_if_cancelled()
            self._after = window.last_key
            if is_last:
                self._spans.pop()
                self._after = None
        return pages


def _list_spans(policy: Policy) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows of a rotation, newest first."""
    if policy.refresh is None:
        return
    now = clock.now().replace(microsecond=0)
    until, oldest = now - timedelta(days=policy.refresh[1]), now - timedelta(days=OLD_RECORD_DAYS)
    while until > oldest:
        since = max(oldest, until - ROTATION_STEP)
        yield since, until
        until = since
