"""Full syncs: read a collection completely and verify the result.

History is read from the newest record to the oldest, so that an initial sync is useful from its first minute.
The position is stored with each commit, and after a restart the sync resumes there. At its end the missing
records are known (deletions.py).
"""

from __future__ import annotations

import logging
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused, RecordTooLarge
from integration.core.json_records import JsonRecord
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key, list_usable_keys, replace_all, upsert
from integration.mirror.sync_state import collection_state
from integration.mirror.sync_state.collection_state import Form
from integration.sqlite.bulk_cache import bulk_cache
from integration.sqlite.transaction import Transaction
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading import deletions, items, windows
from integration.sync.reading.page_store import Tally, get_max_tries, store_window
from integration.sync.reading.pages import (
    KeyOrderUnsupported,
    is_unsupported_query,
    page_limit,
    read_ahead,
    read_by_key,
    read_by_pages,
)
from integration.sync.reading.turns import take_turn

log = logging.getLogger(__name__)

IMMEDIATE_CALL_RECORDS = 5000
"""Records of a full sync whose calls are computed at once.

The legs of older records go to the backlog.
"""


class ContradictoryEmptyList(PlatformBroken):
    """The platform returned an empty list, then a count above 0."""


MAX_PASSES = 3
"""Maximum number of attempts to read a collection by page numbers."""


def run_full_sync(
    context: SyncContext,
    policy: Policy,
    tally: Tally | None = None,
    *,
    restart: bool = False,
    by_pages_only: bool = False,
) -> Tally:
    """Read a collection completely; resume an interrupted full sync unless `restart`.

    Marks the collection complete at the end, then checks missing records. Waits for a running full sync of
    the collection; one of a history then serves this call too, unless `restart`. Raises PlatformError,
    Interrupted; committed records are kept.
    """
    tally = tally or Tally()
    complete_at = _read_state(context, policy).complete_at
    with take_turn(context, policy, tally):
        has_completed_since = _read_state(context, policy).complete_at not in (None, complete_at)
        if restart or policy.kind != "grows" or not has_completed_since:
            _run_full_sync(context, policy, tally, restart, by_pages_only)
    return tally


def _run_full_sync(
    context: SyncContext, policy: Policy, tally: Tally, restart: bool, by_pages_only: bool
) -> None:
    if policy.kind == "single":
        _read_single(context, policy, tally)
        return
    if policy.kind == "dictionary":
        _read_dictionary(context, policy, tally)
        return
    with bulk_cache(context.mirror_db):
        try:
            _read_collection(context, policy, tally, restart, by_pages_only)
        except ContradictoryEmptyList as error:
            log.warning("%s; reading the collection again", error)
            _read_collection(context, policy, tally, True, by_pages_only)
    if tally.changed_keys:
        items.read_items(context, policy, tally.changed_keys, tally)
        tally.changed_keys.clear()
    # A record without a readable key may be a stored record, so no record can be called missing.
    if policy.resource.key is not None and not tally.keyless and not tally.unreadable:
        deletions.confirm_missing(context, policy, tally)
    tally.raise_if_unreadable()


def _read_state(context: SyncContext, policy: Policy) -> collection_state.State:
    with context.mirror_db.read() as connection:
        return collection_state.get_state(connection, policy.collection)


def _read_collection(
    context: SyncContext, policy: Policy, tally: Tally, restart: bool, by_pages_only: bool
) -> None:
    if policy.reads_by_key and not by_pages_only:
        _read_ordered(context, policy, tally, restart)
    else:
        _read_by_pages(context, policy, tally)


def _read_ordered(context: SyncContext, policy: Policy, tally: Tally, restart: bool) -> None:
    """Read a collection by key.

    If the platform does not sort or filter by key, read history by time; if it cannot filter by time either,
    and for other collections, read by page numbers.
    """
    continues_by_time = isinstance(_read_state(context, policy).walk_key, str) and not restart
    try:
        if not continues_by_time:
            _read_by_key(context, policy, tally, restart)
            return
    except (KeyOrderUnsupported, PlatformRefused) as error:
        if not is_unsupported_query(error):
            raise
        log.warning("%s; reading by time instead", error)
    try:
        if policy.is_history:
            _read_by_time(context, policy, tally, restart=not continues_by_time)
            return
    except (windows.TimeFilterUnsupported, PlatformRefused) as error:
        if isinstance(error, PlatformRefused) and not is_unsupported_query(error):
            raise
        log.warning("%s; reading by page numbers instead", error)
    _read_by_pages(context, policy, tally)


def _read_by_time(context: SyncContext, policy: Policy, tally: Tally, *, restart: bool) -> None:
    """Read closed windows from the newest to the oldest.

    `walk_key` is the UTC text reached so far.
    """
    collection = policy.collection
    if restart:
        context.mirror_db.write(lambda tx: collection_state.begin_full_sync(tx, collection))
    state = _read_state(context, policy)
    total = windows.count_records(context.platform, policy.resource, [], tries=get_max_tries(state.failures))
    if total == 0:
        _reject_unexpected_empty(context, policy, state)
    records_read, newest_key, is_mark_stored = state.walk_rows, 0, state.walk_rows > 0
    for window in windows.read_all(
        context.platform,
        policy.resource,
        clock.parse_utc(state.walk_key),
        limit=page_limit(state.failures),
        tries=get_max_tries(state.failures),
    ):
        store_window(context, policy, window, tally, defer_calls=records_read >= IMMEDIATE_CALL_RECORDS)
        keys = list_usable_keys(policy.resource, window.records)
        newest_key = max(newest_key, *(key for key in keys if isinstance(key, int)), 0)
        if window.since is not None:
            if window.records and not is_mark_stored:
                # The high-water mark comes from the first window with records only. A later window may
                # contain records created after the first window was read, while other records created since
                # then are dated within the first window and were not read.
                context.mirror_db.write(
                    partial(collection_state.set_initial_mark, collection=collection, newest_key=newest_key)
                )
                is_mark_stored = True
            since, rows = clock.utc_text(window.since), len(window.records)
            context.mirror_db.write(
                partial(
                    collection_state.record_progress, collection=collection, key=since, rows=rows, total=total
                )
            )
        records_read += len(window.records)
        tally.show_progress(records_read, max(total, records_read))
        tally.raise_if_cancelled()
    high_water_mark = None if is_mark_stored else newest_key or None
    context.mirror_db.write(
        lambda tx: collection_state.finish_full_sync(
            tx, collection, high_water_mark, max(total, records_read)
        )
    )


def _read_by_key(context: SyncContext, policy: Policy, tally: Tally, restart: bool) -> None:
    collection, descending = policy.collection, policy.is_history
    state = _read_state(context, policy)
    if restart or state.begun_at is None:
        context.mirror_db.write(lambda tx: collection_state.begin_full_sync(tx, collection))
        after, records_read = None, 0
    else:
        after, records_read = state.walk_key, state.walk_rows
    last_key, total = after, records_read
    pages = read_by_key(
        context.platform,
        policy.resource,
        after=after,
        descending=descending,
        limit=page_limit(state.failures),
        tries=get_max_tries(state.failures),
    )
    for window in read_ahead(pages):
        if after is None and records_read == 0:
            if window.total == 0:
                _reject_unexpected_empty(context, policy, state)
            elif descending and window.records:
                _store_newest_key(context, policy, window.records[0])
        total = records_read + window.total
        store_window(
            context,
            policy,
            window,
            tally,
            full_sync_total=total,
            defer_calls=records_read >= IMMEDIATE_CALL_RECORDS,
        )
        records_read += len(window.records)
        last_key = window.last_key
        tally.show_progress(records_read, total)
        tally.raise_if_cancelled()
    high_water_mark = None if descending else last_key
    context.mirror_db.write(
        lambda tx: collection_state.finish_full_sync(tx, collection, high_water_mark, total)
    )


def _store_newest_key(context: SyncContext, policy: Policy, newest_record: JsonRecord) -> None:
    key = get_usable_key(policy.resource, newest_record)
    if key is not None:
        context.mirror_db.write(lambda tx: collection_state.set_initial_mark(tx, policy.collection, key))


def _read_by_pages(context: SyncContext, policy: Policy, tally: Tally) -> None:
    collection, resource = policy.collection, policy.resource
    state = _read_state(context, policy)
    for _ in range(MAX_PASSES):
        seen_keys: set[Key | None] = set()
        totals: set[int] = set()
        all_records: list[JsonRecord] = []
        form: Form = "list"
        requested_at, page_count = clock.utc_text(), 0
        tally.unreadable.clear()
        for window in read_by_pages(
            context.platform, resource, limit=page_limit(state.failures), tries=get_max_tries(state.failures)
        ):
            totals.add(window.total)
            page_count += 1
            form = "object" if window.is_object else "list"
            if resource.key is None:
                all_records += window.records
                tally.unreadable += window.unreadable
            else:
                seen_keys.update(list_usable_keys(resource, window.records))
                store_window(
                    context, policy, window, tally, defer_calls=len(seen_keys) > IMMEDIATE_CALL_RECORDS
                )
            tally.show_progress(max(len(seen_keys), len(all_records)), window.total)
            tally.raise_if_cancelled()
        # A single page cannot shift: equal entries in it are two records with the same content.
        distinct_count = len(all_records) if page_count == 1 else _count_distinct(all_records)
        record_count = distinct_count if resource.key is None else len(seen_keys)
        record_count += len(tally.unreadable)
        if totals == {record_count}:
            if record_count == 0:
                _reject_unexpected_empty(context, policy, state)
            high_water_mark = (
                max((key for key in seen_keys if isinstance(key, int)), default=None)
                if policy.reads_by_key
                else None
            )
            tally.read += len(all_records)
            _finish_full_sync(
                context, policy, state, all_records, form, requested_at, high_water_mark, record_count, tally
            )
            return
    raise PlatformBroken(f"/{collection} changed while it was read, {MAX_PASSES} times")


def _count_distinct(records: list[JsonRecord]) -> int:
    """Count the distinct records, because a shifted page repeats records.

    Without ids, count all.
    """
    ids = [record.values.get("id") for record in records]
    if any(record_id is None or isinstance(record_id, list | dict) for record_id in ids):
        return len(records)
    return len(set(ids))


def _finish_full_sync(
    context: SyncContext,
    policy: Policy,
    state: collection_state.State,
    all_records: list[JsonRecord],
    form: Form,
    requested_at: str,
    high_water_mark: int | None,
    total: int,
    tally: Tally,
) -> None:
    """Mark the collection complete and store `all_records`.

    `all_records` are the records of a collection without keys, which are stored only together. `form` is that
    of their response.
    """
    should_store = policy.resource.key is None and (
        total > 0 or deletions.may_accept_empty(context, policy, state)
    )

    def job(tx: Transaction) -> None:
        if should_store:
            tally.add_outcome(
                replace_all(tx, policy.resource, all_records, source="sync", requested_at=requested_at)
            )
            collection_state.record_form(tx, policy.collection, form)
        collection_state.finish_full_sync(tx, policy.collection, high_water_mark, total, requested_at)

    context.mirror_db.write(job)
    if should_store:
        deletions.release_deletions(context, policy, state)


def _read_single(context: SyncContext, policy: Policy, tally: Tally) -> None:
    requested_at = clock.utc_text()
    record = context.platform.item(f"/{policy.collection}")

    def job(tx: Transaction) -> None:
        tally.add_outcome(upsert(tx, policy.resource, [record], source="sync", requested_at=requested_at))
        collection_state.finish_full_sync(tx, policy.collection, None, 1)

    context.mirror_db.write(job)
    tally.read += 1
    tally.show_progress(1, 1)


def _read_dictionary(context: SyncContext, policy: Policy, tally: Tally) -> None:
    """Read a dictionary: a collection or a single object of codes.

    The specification calls it a collection but shows no record.
    """
    requested_at, path = clock.utc_text(), policy.collection
    state = _read_state(context, policy)
    form: Form
    try:
        page = context.platform.page(path, tries=get_max_tries(state.failures))
        if page.too_large:
            raise RecordTooLarge(f"/{path}: {page.too_large[0]}")
        records, form = list(page.records), "object" if page.is_object else "list"
        if page.total is not None and 1 < len(records) < page.total:
            raise PlatformBroken(f"/{path}: {len(records):,} records instead of {page.total:,}", status=200)
    except PlatformBroken as error:
        if error.status is not None:
            raise
        records, form = [context.platform.item(f"/{path}", tries=get_max_tries(state.failures))], "bare"
    if not records:
        _reject_unexpected_empty(context, policy, state)
    _finish_full_sync(context, policy, state, records, form, requested_at, None, len(records), tally)
    tally.read += len(records)
    tally.show_progress(len(records), len(records))


def _reject_unexpected_empty(context: SyncContext, policy: Policy, state: collection_state.State) -> None:
    """Raise PlatformBroken for an empty list where records are expected.

    Such a list is usually a mistake. A list that would replace records, or that ends an initial sync, is
    requested twice: ContradictoryEmptyList if the platform then counts records. An empty list in place of
    stored records is accepted after two consecutive failures of the collection, or if a user accepted the
    deletion of that many records.
    """
    with context.mirror_db.read() as connection:
        rows = collection_state.count_rows(connection, policy.resource)
    if policy.kind != "dictionary" and (rows or not state.is_complete):
        count = windows.count_records(context.platform, policy.resource, [])
        if count:
            raise ContradictoryEmptyList(
                f"/{state.collection}: the platform returned an empty list, then counted {count:,} records"
            )
    is_accepted = rows <= state.accepted < collection_state.ALL_RECORDS
    if rows and not is_accepted and state.failures < 2:
        raise PlatformBroken(
            f"/{state.collection}: the platform returns an empty list, but {rows:,} records are stored"
        )
