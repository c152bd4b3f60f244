"""Full syncs: read a collection completely and verify the result.

History is read from the newest record to the oldest, so that an initial sync is useful from its first minute.
The position is stored with each commit, and after a restart the sync resumes there. At its end the missing
records are known (deletions.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformBroken, RecordTooLarge
from integration.core.json_records import JsonRecord
from integration.mirror.records import indexes
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key, list_usable_keys, replace_all, upsert
from integration.mirror.sync_state import collection_state
from integration.mirror.sync_state.collection_state import Form
from integration.sqlite.database import bulk_cache
from integration.sqlite.transaction import Transaction
from integration.sync.plan import Policy
from integration.sync.reading import deletions, items
from integration.sync.reading.collection_reader import (
    CollectionReader,
    get_max_tries,
    page_limit,
    read_ahead,
    try_query,
)
from integration.sync.reading.page_store import Tally, store_window
from integration.sync.reading.pages import Window

log = logging.getLogger(__name__)

IMMEDIATE_CALL_RECORDS = 5000
"""Records of a full sync whose calls are computed at once.

The legs of older records go to the backlog.
"""


class ContradictoryEmptyList(PlatformBroken):
    """The platform returned an empty list, then a count above 0."""


MAX_PASSES = 3
"""Maximum number of attempts to read a collection by page numbers."""

CANCELLATION_CHECK_SECONDS = 0.2
"""Seconds between two checks whether a waiting full sync is cancelled."""

_running: set[tuple[Path, str]] = set()
"""Running full syncs: mirror.db and collection."""
_turn_ended = threading.Condition()


def run_full_sync(
    context: SyncContext, policy: Policy, tally: Tally | None = None, *, restart: bool = False
) -> Tally:
    """Read a collection completely; resume an interrupted full sync unless `restart`.

    Marks the collection complete at the end, then checks missing records. Waits for a running full sync of
    the collection; one of a history then serves this call too, unless `restart`. Raises PlatformError,
    Interrupted; committed records are kept.
    """
    tally = tally or Tally()
    complete_at = _read_state(context, policy).complete_at
    with _take_turn(context, policy, tally):
        sync = _FullSync(context, policy, tally)
        has_completed_since = sync.state.complete_at not in (None, complete_at)
        if restart or policy.kind != "grows" or not has_completed_since:
            sync.run(restart=restart)
    return tally


@contextmanager
def _take_turn(context: SyncContext, policy: Policy, tally: Tally) -> Iterator[None]:
    """Wait until no other full sync of the collection runs. Raises Interrupted.

    A job and a command would share the stored start and position, so that records that one of them has read
    would count as missing.
    """
    name = (context.mirror_db.path, policy.collection)
    with _turn_ended:
        while name in _running:
            _turn_ended.wait(CANCELLATION_CHECK_SECONDS)
            tally.raise_if_cancelled()
        _running.add(name)
    try:
        yield
    finally:
        with _turn_ended:
            _running.remove(name)
            _turn_ended.notify_all()


def _read_state(context: SyncContext, policy: Policy) -> collection_state.State:
    with context.mirror_db.read() as connection:
        return collection_state.get_state(connection, policy.collection)


class _FullSync:
    """Run of a full sync.

    `state`: state of the collection when the run, or its first page, began.
    """

    def __init__(self, context: SyncContext, policy: Policy, tally: Tally) -> None:
        self._context, self._policy, self._tally = context, policy, tally
        self._resource, self._collection = policy.resource, policy.collection
        self.state = _read_state(context, policy)
        self._reader = CollectionReader(
            context.platform,
            policy.resource,
            page_limit(self.state.failures),
            get_max_tries(self.state.failures),
        )
        self._records_read = 0
        """Records that this run, and the interrupted one that it resumes, have read."""

    def run(self, *, restart: bool) -> None:
        """Read the collection, its records' own paths if they changed, and confirm missing records."""
        if self._policy.kind == "single":
            self._read_single()
            return
        if self._policy.kind == "dictionary":
            self._read_dictionary()
            return
        tally, mirror_db, table = self._tally, self._context.mirror_db, self._resource.table
        with bulk_cache(mirror_db):
            mirror_db.write(lambda tx: indexes.drop_of_empty_table(tx, table))
            try:
                self._read_collection(restart)
            except ContradictoryEmptyList as error:
                log.warning("%s; reading the collection again", error)
                self._read_collection(True)
            finally:
                # A sync that is cancelled because the process ends must not delay the end.
                if tally.should_continue():
                    indexes.build(mirror_db, table)
        if tally.changed_keys:
            items.read_items(self._context, self._policy, tally.changed_keys, tally)
            tally.changed_keys.clear()
        # A record without a readable key may be a stored record, so no record can be called missing.
        if self._resource.key is not None and not tally.keyless and not tally.unreadable:
            deletions.confirm_missing(self._context, self._policy, tally)
        tally.raise_if_unreadable()

    # --- ways to read a collection -----------------------------------------------------------------

    def _read_collection(self, restart: bool) -> None:
        """Read the collection by key.

        If the platform does not sort or filter by key, read history by time; if it cannot filter by time
        either, and for other collections, read by page numbers.
        """
        if self._policy.reads_by_key:
            continues_by_time = isinstance(self.state.walk_key, str) and not restart
            if not continues_by_time and try_query(lambda: self._read_by_key(restart)):
                return
            if self._policy.is_history and try_query(
                lambda: self._read_by_time(restart=not continues_by_time)
            ):
                return
        self._read_by_pages()

    def _read_by_key(self, restart: bool) -> bool:
        descending = self._policy.is_history
        if restart or self.state.begun_at is None:
            self._begin()
        self._records_read = self.state.walk_rows
        after = last_key = self.state.walk_key
        total = self._records_read
        for window in read_ahead(self._reader.by_key(after=after, descending=descending)):
            if after is None and self._records_read == 0:
                if window.total == 0:
                    self._reject_unexpected_empty()
                elif descending and window.records:
                    newest_key = get_usable_key(self._resource, window.records[0])
                    if newest_key is not None:
                        self._record(collection_state.set_initial_mark, newest_key=newest_key)
            total = self._records_read + window.total
            self._store(window, full_sync_total=total)
            last_key = window.last_key
            self._report_progress(total)
        self._record(collection_state.finish_full_sync, mark=None if descending else last_key, total=total)
        return True

    def _read_by_time(self, *, restart: bool) -> bool:
        """Read closed windows from the newest to the oldest.

        `walk_key` is the UTC text reached so far.
        """
        if restart:
            self._begin()
        state = self.state
        total = self._reader.count()
        if total == 0:
            self._reject_unexpected_empty()
        self._records_read = state.walk_rows
        newest_key, is_mark_stored = 0, state.walk_rows > 0
        for window in self._reader.by_time(clock.parse_utc(state.walk_key)):
            self._store(window)
            keys = list_usable_keys(self._resource, window.records)
            newest_key = max(newest_key, *(key for key in keys if isinstance(key, int)), 0)
            if window.since is not None:
                if window.records and not is_mark_stored:
                    # The high-water mark comes from the first window with records only. A later window may
                    # contain records created after the first window was read, while other records created
                    # since then are dated within the first window and were not read.
                    self._record(collection_state.set_initial_mark, newest_key=newest_key)
                    is_mark_stored = True
                self._record(
                    collection_state.record_progress,
                    key=clock.utc_text(window.since),
                    rows=len(window.records),
                    total=total,
                )
            self._report_progress(max(total, self._records_read))
        mark = None if is_mark_stored else newest_key or None
        self._record(collection_state.finish_full_sync, mark=mark, total=max(total, self._records_read))
        return True

    def _read_by_pages(self) -> None:
        resource, tally = self._resource, self._tally
        for _ in range(MAX_PASSES):
            seen_keys: set[Key | None] = set()
            totals: set[int] = set()
            all_records: list[JsonRecord] = []
            form: Form = "list"
            requested_at, page_count = clock.utc_text(), 0
            tally.unreadable.clear()
            for window in self._reader.by_pages():
                totals.add(window.total)
                page_count += 1
                form = "object" if window.is_object else "list"
                if resource.key is None:
                    all_records += window.records
                    tally.unreadable += window.unreadable
                else:
                    self._records_read = len(seen_keys)
                    self._store(window)
                    seen_keys.update(list_usable_keys(resource, window.records))
                tally.show_progress(max(len(seen_keys), len(all_records)), window.total)
                tally.raise_if_cancelled()
            # A single page cannot shift: equal entries in it are two records with the same content.
            distinct_count = len(all_records) if page_count == 1 else _count_distinct(all_records)
            record_count = distinct_count if resource.key is None else len(seen_keys)
            record_count += len(tally.unreadable)
            if totals == {record_count}:
                if record_count == 0:
                    self._reject_unexpected_empty()
                mark = (
                    max((key for key in seen_keys if isinstance(key, int)), default=None)
                    if self._policy.reads_by_key
                    else None
                )
                tally.read += len(all_records)
                self._finish(all_records, form, requested_at, mark, record_count)
                return
        raise PlatformBroken(f"/{self._collection} changed while it was read, {MAX_PASSES} times")

    def _read_single(self) -> None:
        requested_at = clock.utc_text()
        record = self._context.platform.item(f"/{self._collection}")

        def job(tx: Transaction) -> None:
            self._tally.add_outcome(
                upsert(tx, self._resource, [record], source="sync", requested_at=requested_at)
            )
            collection_state.finish_full_sync(tx, self._collection, None, 1)

        self._context.mirror_db.write(job)
        self._tally.read += 1
        self._tally.show_progress(1, 1)

    def _read_dictionary(self) -> None:
        """Read a dictionary: a collection or a single object of codes.

        The specification calls it a collection but shows no record.
        """
        requested_at, path, tries = clock.utc_text(), self._collection, self._reader.tries
        form: Form
        try:
            page = self._context.platform.page(path, tries=tries)
            if page.too_large:
                raise RecordTooLarge(f"/{path}: {page.too_large[0]}")
            records, form = list(page.records), "object" if page.is_object else "list"
            if page.total is not None and 1 < len(records) < page.total:
                raise PlatformBroken(
                    f"/{path}: {len(records):,} records instead of {page.total:,}", status=200
                )
        except PlatformBroken as error:
            if error.status is not None:
                raise
            records, form = [self._context.platform.item(f"/{path}", tries=tries)], "bare"
        if not records:
            self._reject_unexpected_empty()
        self._finish(records, form, requested_at, None, len(records))
        self._tally.read += len(records)
        self._tally.show_progress(len(records), len(records))

    # --- progress ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin with the first record."""
        self._record(collection_state.begin_full_sync)
        self.state = _read_state(self._context, self._policy)

    def _store(self, window: Window, full_sync_total: int | None = None) -> None:
        """Store a window. The calls of records beyond IMMEDIATE_CALL_RECORDS are computed later."""
        store_window(
            self._context,
            self._policy,
            window,
            self._tally,
            full_sync_total=full_sync_total,
            defer_calls=self._records_read >= IMMEDIATE_CALL_RECORDS,
        )
        self._records_read += len(window.records)

    def _report_progress(self, total: int) -> None:
        """Show the progress. Raises Interrupted."""
        self._tally.show_progress(self._records_read, total)
        self._tally.raise_if_cancelled()

    def _record(self, record: Callable[..., None], **values: object) -> None:
        """Change the stored state of the collection by a function of `collection_state`."""
        self._context.mirror_db.write(lambda tx: record(tx, self._collection, **values))

    def _finish(
        self,
        all_records: list[JsonRecord],
        form: Form,
        requested_at: str,
        mark: int | None,
        total: int,
    ) -> None:
        """Mark the collection complete and store `all_records`.

        `all_records` are the records of a collection without keys, which are stored only together. `form` is
        that of their response.
        """
        should_store = self._resource.key is None and (
            total > 0 or deletions.may_accept_empty(self._context, self._policy, self.state)
        )

        def job(tx: Transaction) -> None:
            if should_store:
                self._tally.add_outcome(
                    replace_all(tx, self._resource, all_records, source="sync", requested_at=requested_at)
                )
                collection_state.record_form(tx, self._collection, form)
            collection_state.finish_full_sync(tx, self._collection, mark, total, requested_at)

        self._context.mirror_db.write(job)
        if should_store:
            deletions.release_deletions(self._context, self._policy, self.state)

    def _reject_unexpected_empty(self) -> None:
        """Raise PlatformBroken for an empty list where records are expected.

        Such a list is usually a mistake. A list that would replace records, or that ends an initial sync, is
        requested twice: ContradictoryEmptyList if the platform then counts records. An empty list in place of
        stored records is accepted after two consecutive failures of the collection, or if a user accepted the
        deletion of that many records.
        """
        state = self.state
        with self._context.mirror_db.read() as connection:
            rows = collection_state.count_rows(connection, self._resource)
        if self._policy.kind != "dictionary" and (rows or not state.is_complete):
            count = self._reader.count()
            if count:
                raise ContradictoryEmptyList(
                    f"/{self._collection}: the platform returned an empty list,"
                    f" then counted {count:,} records"
                )
        is_accepted = rows <= state.accepted < collection_state.ALL_RECORDS
        if rows and not is_accepted and state.failures < 2:
            raise PlatformBroken(
                f"/{self._collection}: the platform returns an empty list, but {rows:,} records are stored"
            )


def _count_distinct(records: list[JsonRecord]) -> int:
    """Count the distinct records, because a shifted page repeats records.

    Without ids, count all.
    """
    ids = [record.values.get("id") for record in records]
    if any(record_id is None or isinstance(record_id, list | dict) for record_id in ids):
        return len(records)
    return len(set(ids))
