"""Confirm the deletion of records that a sync missed (docs/sync.md).

Records are missing after a full sync, or after the reading of a day. Syncs of this kind have deleted rows by
mistake, so each deletion is confirmed. A record counts as deleted only if its own path returns 404 or,
without such a path, if a second reading does not find it either. The oldest records of a history may age out,
if samples of them return 404. More missing records than the deletion limit stop the deletions until a user
confirms them.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.mirror.calls import live_table
from integration.mirror.records import missing_records, single_record
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import delete_rows
from integration.mirror.sync_state import collection_state, completeness
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from integration.sync.plan import Policy
from integration.sync.reading.page_store import Tally

log = logging.getLogger(__name__)

DELETION_LIMIT, DELETION_LIMIT_SHARE = 20, 0.02
"""Deletion limit: number of records or share of the collection.

The larger of the two applies.
"""

HEALTH_CHECK = "held deletions"
"""Name of the health check that fails while deletions exceed the limit."""

AGE_OUT_SAMPLE_SIZE = 5
"""Maximum number of the oldest records that are requested to confirm their age-out."""

RECORDS_PER_TRANSACTION = 500
"""Records marked in one transaction."""


@dataclass(frozen=True, slots=True)
class DayReading:
    """Complete reading of the records dated in `[since, until)`.

    It began at `read_from`. Times are UTC text.
    """

    since: str
    until: str
    read_from: str


def confirm_missing(context: SyncContext, policy: Policy, tally: Tally) -> None:
    """Confirm or keep the records that the last full sync missed.

    Applies to collections with keys. Raises no PlatformError: a record that cannot be requested stays
    unchanged until the next full sync.
    """
    resource = policy.resource
    with context.mirror_db.read(full_scan=True) as connection:
        state = collection_state.get_state(connection, policy.collection)
        full_sync_start = state.walked_from
        if full_sync_start is None:
            return
        missing_summary = missing_records.count_unseen(connection, resource, full_sync_start)
    context.mirror_db.write(lambda tx: missing_records.clear_seen(tx, resource, full_sync_start))
    aged_out_keys = (
        _find_aged_out(context, policy, full_sync_start, missing_summary) if missing_summary.unseen else []
    )
    unexplained_count = missing_summary.unseen - len(aged_out_keys)
    _mark_missing(context, policy, aged_out_keys, full_sync_start, "aged", tally)
    # A user who accepted a hundred deletions did not accept an empty list that follows.
    if unexplained_count > state.accepted + get_deletion_limit(missing_summary.present):
        context.mirror_db.write(
            lambda tx: collection_state.hold_deletions(tx, policy.collection, unexplained_count)
        )
        return
    release_deletions(context, policy, state)
    if not unexplained_count:
        return
    with context.mirror_db.read() as connection:
        missing_keys = missing_records.list_unseen_keys(connection, resource, full_sync_start)
        suspected_keys = missing_records.list_suspected(connection, resource, full_sync_start)
    if state.accepted:
        _mark_missing(context, policy, missing_keys, full_sync_start, "accepted", tally)
    elif has_own_path(policy):
        _confirm_by_path(context, policy, missing_keys, full_sync_start, tally)
    else:
        _mark_missing(
            context,
            policy,
            [key for key in missing_keys if key in suspected_keys],
            full_sync_start,
            "walk",
            tally,
        )
        context.mirror_db.write(
            lambda tx: missing_records.mark_suspected(tx, resource, missing_keys, full_sync_start)
        )


def confirm_missing_of_days(
    context: SyncContext, policy: Policy, readings: Sequence[DayReading], tally: Tally
) -> None:
    """Confirm the records that complete readings of days missed.

    If more records than the deletion limit are missing, in these days or by the last comparison of the
    collection's total, all are left to the next full sync, which distinguishes aged-out records from others
    and holds the deletions. The same applies while a user must decide about deletions of the collection.
    Raises no PlatformError.
    """
    resource = policy.resource
    with context.mirror_db.read() as connection:
        state = collection_state.get_state(connection, policy.collection)
        present_count = collection_state.count_rows(connection, resource)
        keys_by_reading = [
            missing_records.list_unseen_keys(
                connection, resource, reading.read_from, dates=(reading.since, reading.until)
            )
            for reading in readings
        ]
        suspected_keys = [
            missing_records.list_suspected(connection, resource, reading.read_from) for reading in readings
        ]
        missing_in_total = completeness.count_missing(connection, policy.collection)
    count = max(missing_in_total, sum(map(len, keys_by_reading)))
    if state.held is not None or state.accepted or count > get_deletion_limit(present_count):
        log.warning(
            "/%s: %d records are missing, too many at once; the next full sync checks them",
            policy.collection,
            count,
        )
        return
    for reading, keys, suspects in zip(readings, keys_by_reading, suspected_keys, strict=True):
        if has_own_path(policy):
            _confirm_by_path(context, policy, keys, reading.read_from, tally)
            continue
        deleted_keys = [key for key in keys if key in suspects]
        _mark_missing(context, policy, deleted_keys, reading.read_from, "walk", tally)
        context.mirror_db.write(partial(_store_suspicions, policy=policy, keys=keys, reading=reading))


def _store_suspicions(tx: Transaction, policy: Policy, keys: Sequence[Key], reading: DayReading) -> None:
    missing_records.clear_seen(tx, policy.resource, reading.read_from, only_suspicions=True)
    missing_records.mark_suspected(tx, policy.resource, keys, reading.read_from)


def may_accept_empty(context: SyncContext, policy: Policy, state: collection_state.State) -> bool:
    """Return whether an empty list may replace the stored records.

    Applies to collections without keys. Their records cannot be requested singly or restored. More than
    DELETION_LIMIT records wait for the confirmation of a user.
    """
    with context.mirror_db.read() as connection:
        rows = collection_state.count_rows(connection, policy.resource)
    if rows <= state.accepted + DELETION_LIMIT:
        return True
    context.mirror_db.write(lambda tx: collection_state.hold_deletions(tx, policy.collection, rows))
    return False


def release_deletions(context: SyncContext, policy: Policy, state: collection_state.State) -> None:
    """Clear the held deletions of a collection within the deletion limit, and their acceptance."""
    if state.held is not None or state.accepted:
        context.mirror_db.write(lambda tx: collection_state.hold_deletions(tx, policy.collection, None))


def record_requested_deletions(context: SyncContext, resource: Resource, keys: Sequence[Key] | None) -> None:
    """Record deletions that a user requested and the platform has finished.

    `keys` None: all records of the collection. They need no confirmation and no limit.
    """
    if keys is None:
        with context.mirror_db.read() as connection:
            keys = collection_state.list_keys(connection, resource, without_item=False)
    for offset in range(0, len(keys), RECORDS_PER_TRANSACTION):
        batch = keys[offset : offset + RECORDS_PER_TRANSACTION]

        def job(tx: Transaction, batch: Sequence[Key] = batch) -> None:
            if resource.table == live_table.COLLECTION:
                delete_rows(tx, resource, batch)
            else:
                marked = single_record.mark_missing(tx, resource, batch, clock.utc_text())
                _finish_deletions(context, tx, resource, marked)

        context.mirror_db.write(job)


def restore_deleted(context: SyncContext, policy: Policy) -> int:
    """Restore the missing records of a collection and return their number.

    Later full syncs do not mark them as missing. The same applies to held records, which are not counted.
    """

    def job(tx: Transaction) -> int:
        state = collection_state.get_state(tx, policy.collection)
        restored_keys = missing_records.restore(tx, policy.resource)
        if state.held is not None and state.walked_from is not None and policy.resource.key:
            # Without this the next full sync would hold the same records.
            missing_records.keep_unseen(tx, policy.resource, state.walked_from)
        collection_state.hold_deletions(tx, policy.collection, None)
        return len(restored_keys)

    return context.mirror_db.write(job)


def accept_deletions(context: SyncContext, policy: Policy) -> None:
    """Accept the deletions above the deletion limit.

    The next full sync marks the records that it does not find either, up to the accepted number plus the
    deletion limit. If no deletions are waiting, it marks all records that it does not find.
    """
    context.mirror_db.write(lambda tx: collection_state.accept_deletions(tx, policy.collection))


def describe_held(mirror_db: Database) -> str | None:
    """Return the deletions that wait for a user for the health check HEALTH_CHECK, None without one."""
    with mirror_db.read() as connection:
        held = [
            f"{state.held:,} of {collection_state.count_rows(connection, get_resource(state.collection)):,}"
            f" {state.collection} are missing on the platform, more than the deletion limit."
            f" They are kept until you run `sync {state.collection} --accept-deletions`."
            for state in collection_state.list_states(connection)
            if state.held is not None
        ]
    return " ".join(held) or None


def has_own_path(policy: Policy) -> bool:
    """Return whether a record can be requested by its key."""
    return policy.resource.item and policy.item_key in (None, policy.resource.key)


def get_deletion_limit(present_count: int) -> float:
    """Return how many of `present_count` records may be missing at once."""
    return max(DELETION_LIMIT, DELETION_LIMIT_SHARE * present_count)


def _find_aged_out(
    context: SyncContext, policy: Policy, full_sync_start: str, missing_summary: missing_records.UnseenRecords
) -> list[Key]:
    """Find missing records that aged out.

    They are older than all found records, and the platform has deleted them. The platform ages out its oldest
    records.
    """
    if not policy.is_history or missing_summary.lowest_seen is None:
        return []
    with context.mirror_db.read() as connection:
        keys = missing_records.list_unseen_keys(
            connection, policy.resource, full_sync_start, below_key=missing_summary.lowest_seen
        )
        suspected_keys = missing_records.list_suspected(connection, policy.resource, full_sync_start)
    if not has_own_path(policy):
        # Two full syncs that both end above these records are as conclusive as the records' own paths.
        return keys if keys and suspected_keys.issuperset(keys) else []
    samples = {*keys[:1], *keys[-1:], *random.sample(keys, min(len(keys), AGE_OUT_SAMPLE_SIZE - 2))}
    try:
        return keys if all(_is_deleted(context, policy, key) for key in samples) else []
    except PlatformError as error:
        log.info("/%s: cannot check whether the oldest records aged out: %s", policy.collection, error)
        return []


def _confirm_by_path(
    context: SyncContext, policy: Policy, keys: Sequence[Key], full_sync_start: str, tally: Tally
) -> None:
    """Request each record by its own path.

    An existing record was omitted from the list and is kept.
    """
    deleted_keys: list[Key] = []
    existing_keys: list[Key] = []
    requested_at = clock.utc_text()
    for key in keys:
        tally.raise_if_cancelled()
        try:
            (deleted_keys if _is_deleted(context, policy, key) else existing_keys).append(key)
        except PlatformError as error:
            log.info("/%s/%s: cannot check whether the record was deleted: %s", policy.collection, key, error)
            if error.retryable:
                break
    if existing_keys:
        log.warning(
            "/%s no longer lists %s, but their own paths return them", policy.collection, existing_keys
        )
        context.mirror_db.write(
            lambda tx: missing_records.mark_seen(tx, policy.resource, existing_keys, requested_at)
        )
    _mark_missing(context, policy, deleted_keys, full_sync_start, "404", tally)


def _is_deleted(context: SyncContext, policy: Policy, key: Key) -> bool:
    """Return whether the platform has deleted the record.

    Raises PlatformError for an inconclusive response.
    """
    try:
        context.platform.item(f"/{policy.collection}/{key}")
    except PlatformRefused as error:
        if error.status == 404:
            return True
        # 403 is "access denied to an existing resource" (specification, Errors).
        if error.status != 403:
            raise
    return False


def _mark_missing(
    context: SyncContext,
    policy: Policy,
    keys: Sequence[Key],
    full_sync_start: str,
    confirmation: missing_records.ConfirmedBy,
    tally: Tally,
) -> None:
    for offset in range(0, len(keys), RECORDS_PER_TRANSACTION):
        batch = keys[offset : offset + RECORDS_PER_TRANSACTION]

        def job(tx: Transaction, batch: Sequence[Key] = batch) -> int:
            marked = missing_records.confirm(tx, policy.resource, batch, full_sync_start, confirmation)
            _finish_deletions(context, tx, policy.resource, marked)
            return len(marked)

        tally.missing += context.mirror_db.write(job)
    if keys:
        log.info(
            "/%s: %d records are no longer on the platform (%s)", policy.collection, len(keys), confirmation
        )


def _finish_deletions(context: SyncContext, tx: Transaction, resource: Resource, keys: Sequence[Key]) -> None:
    """Delete the rows of records that were just marked as missing, with `sync.on_platform_delete = "delete"`.

    Rows under legal hold are kept, as with `keep`.
    """
    if context.settings.sync.on_platform_delete == "delete":
        gate = tx.gates.get("deletions")
        delete_rows(tx, resource, keys if gate is None else gate((tx.connection, resource, keys)))
