"""What a complete walk did not see: confirmed, aged out, or too much to be believed (docs/sync.md).

Every engine of this kind has wiped rows by mistake once. So a record is gone only if its own path says 404,
or, where it has none, if a second complete walk misses it too; the old end of a history may age out, if
samples of it are 404; and more than DELETION_LIMIT at once stop everything until a person has looked.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.records import missing_records
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import delete_rows
from integration.mirror.sync_state import collection_state
from integration.sqlite.transaction import Transaction
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading.page_store import Tally

log = logging.getLogger(__name__)

DELETION_LIMIT, DELETION_LIMIT_SHARE = 20, 0.02
"""More than both – records, share of the collection – at once are not believed."""

AGE_OUT_SAMPLE_SIZE = 5
"""Records at the old end that are asked for before it is taken to have aged out."""

RECORDS_PER_TRANSACTION = 500
"""Records marked in one transaction."""


def confirm_missing(context: SyncContext, policy: Policy, tally: Tally) -> None:
    """Settle what the last complete walk of a collection with keys did not see.

    Raises nothing of the platform's: what could not be asked for stays as it is until the next walk.
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
    # Who accepted a hundred did not mean the empty list that came after.
    if unexplained_count > state.accepted + max(
        DELETION_LIMIT, DELETION_LIMIT_SHARE * missing_summary.present
    ):
        _hold_deletions(context, policy, unexplained_count, missing_summary.present)
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


def may_accept_empty(context: SyncContext, policy: Policy, state: collection_state.State) -> bool:
    """Whether an empty list of records without keys may take the place of the last: none of them can be asked
    for, or brought back. More than DELETION_LIMIT wait for a person."""
    with context.mirror_db.read() as connection:
        rows = collection_state.count_rows(connection, policy.resource)
    if rows <= state.accepted + DELETION_LIMIT:
        return True
    _hold_deletions(context, policy, rows, rows)
    return False


def release_deletions(context: SyncContext, policy: Policy, state: collection_state.State) -> None:
    """Nothing is held: what a walk missed is believed."""
    if state.held is not None or state.accepted:
        context.mirror_db.write(lambda tx: collection_state.hold_deletions(tx, policy.collection, None))
    context.health.unwatch(health_check_name(policy.collection))


def restore_deleted(context: SyncContext, policy: Policy) -> int:
    """Bring back what was taken to be deleted; returns how many records. They stay, whatever walks miss."""

    def job(tx: Transaction) -> int:
        restored_keys = missing_records.restore(tx, policy.resource)
        _update_contact_names(context, tx, policy, restored_keys)
        collection_state.hold_deletions(tx, policy.collection, None)
        return len(restored_keys)

    context.health.unwatch(health_check_name(policy.collection))
    return context.mirror_db.write(job)


def accept_deletions(context: SyncContext, policy: Policy) -> None:
    """A person says that what the brake holds is gone: the next complete walk marks what it, too, misses, but
    not many more; where nothing is held, whatever it misses."""
    context.mirror_db.write(lambda tx: collection_state.accept_deletions(tx, policy.collection))


def health_check_name(collection: str) -> str:
    """The name under which Health tells that the brake holds a collection's deletions."""
    return f"deletions in {collection}"


def restore_health_failures(context: SyncContext) -> None:
    """At the start: what the brake holds since an earlier run is still held."""
    with context.mirror_db.read() as connection:
        for state in collection_state.list_states(connection):
            if state.held is not None:
                context.health.fail(
                    health_check_name(state.collection),
                    _format_limit_message(
                        state.collection,
                        state.held,
                        collection_state.count_rows(connection, get_resource(state.collection)),
                    ),
                )


def has_own_path(policy: Policy) -> bool:
    """Whether a record can be asked for by its key."""
    return policy.resource.item and policy.item_key in (None, policy.resource.key)


def _find_aged_out(
    context: SyncContext, policy: Policy, full_sync_start: str, missing_summary: missing_records.UnseenRecords
) -> list[Key]:
    """The unseen records below everything that was seen, if they are really gone: the platform's own
    ageing-out takes the oldest."""
    if not policy.is_history or missing_summary.lowest_seen is None:
        return []
    with context.mirror_db.read() as connection:
        keys = missing_records.list_unseen_keys(
            connection, policy.resource, full_sync_start, below_key=missing_summary.lowest_seen
        )
        suspected_keys = missing_records.list_suspected(connection, policy.resource, full_sync_start)
    if not has_own_path(policy):
        # Two complete walks that both end above them tell as much as a record's own path.
        return keys if keys and suspected_keys.issuperset(keys) else []
    samples = {*keys[:1], *keys[-1:], *random.sample(keys, min(len(keys), AGE_OUT_SAMPLE_SIZE - 2))}
    try:
        return keys if all(_is_deleted(context, policy, key) for key in samples) else []
    except PlatformError as error:
        log.info("/%s: whether its oldest records aged out is not known: %s", policy.collection, error)
        return []


def _confirm_by_path(
    context: SyncContext, policy: Policy, keys: Sequence[Key], full_sync_start: str, tally: Tally
) -> None:
    """Each by its own path. One that answers was left out of the list by mistake, and stays."""
    deleted_keys: list[Key] = []
    existing_keys: list[Key] = []
    requested_at = clock.utc_text()
    for key in keys:
        tally.raise_if_cancelled()
        try:
            (deleted_keys if _is_deleted(context, policy, key) else existing_keys).append(key)
        except PlatformError as error:
            log.info("/%s/%s: whether it was deleted is not known: %s", policy.collection, key, error)
            if error.retryable:
                break
    if existing_keys:
        log.warning("/%s lists %s no longer, but their own paths answer", policy.collection, existing_keys)
        context.mirror_db.write(
            lambda tx: missing_records.mark_seen(tx, policy.resource, existing_keys, requested_at)
        )
    _mark_missing(context, policy, deleted_keys, full_sync_start, "404", tally)


def _is_deleted(context: SyncContext, policy: Policy, key: Key) -> bool:
    """Raises PlatformError where the platform's answer settles nothing."""
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
    should_delete = context.settings.sync.on_platform_delete == "delete"
    for offset in range(0, len(keys), RECORDS_PER_TRANSACTION):
        batch = keys[offset : offset + RECORDS_PER_TRANSACTION]

        def job(tx: Transaction, batch: Sequence[Key] = batch) -> int:
            marked = missing_records.confirm(tx, policy.resource, batch, full_sync_start, confirmation)
            if should_delete:
                _delete_rows(context, tx, policy, marked)
            else:
                _update_contact_names(context, tx, policy, marked)
            return len(marked)

        tally.missing += context.mirror_db.write(job)
    if keys:
        log.info(
            "/%s: %d records are no longer on the platform (%s)", policy.collection, len(keys), confirmation
        )


def _update_contact_names(context: SyncContext, tx: Transaction, policy: Policy, keys: Sequence[Key]) -> None:
    """Settings are hidden, and names on calls come from contacts."""
    if policy.collection == "contacts" and keys:
        context.call_store.refresh_contacts(tx, [key for key in keys if isinstance(key, int)])


def _delete_rows(context: SyncContext, tx: Transaction, policy: Policy, keys: Sequence[Key]) -> None:
    """sync.on_platform_delete = delete: the rows go, and what was derived from them is derived anew. What is
    under legal hold stays, as by `keep`."""
    gate = tx.gates.get("deletions")
    keys = keys if gate is None else gate((tx.connection, policy.resource, keys))
    legs = missing_records.find_leg_ids(tx, policy.resource, LEG_FIELDS.get(policy.resource.table, ()), keys)
    delete_rows(tx, policy.resource, keys)
    _update_contact_names(context, tx, policy, keys)
    if legs:
        context.call_store.refresh(tx, legs)


def _hold_deletions(context: SyncContext, policy: Policy, missing_count: int, present_count: int) -> None:
    context.mirror_db.write(lambda tx: collection_state.hold_deletions(tx, policy.collection, missing_count))
    context.health.fail(
        health_check_name(policy.collection),
        _format_limit_message(policy.collection, missing_count, present_count),
    )


def _format_limit_message(collection: str, held_count: int, present_count: int) -> str:
    return (
        f"the platform lists {held_count:,} of {present_count:,} {collection} no longer, "
        "too many to be believed; "
        f"they stay until `sync {collection} --accept-deletions`"
    )
