"""Poll pending deletions, accepted with 202, until they are finished."""

from __future__ import annotations

import logging
from functools import partial

from integration.catalogue import get_resource
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError
from integration.mirror.records.upsert import list_usable_keys
from integration.mirror.sync_state import pending_deletions
from integration.mirror.sync_state.pending_deletions import PendingDeletion
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Priority
from integration.sqlite.transaction import Transaction
from integration.sync.reading import deletions

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds between runs of the job."""


def poll_due(context: AppContext, collection: str | None = None) -> None:
    """Poll the pending deletions that are due; those of `collection` for a user, who checks their result.

    A failed request counts as a poll without a result.
    """
    with context.mirror_db.read() as connection:
        entries = pending_deletions.due(connection, clock.unix())
    for entry in entries:
        if collection not in (None, entry.collection):
            continue
        try:
            remaining_keys = _fetch_remaining(context, entry, INTERACTIVE if collection else BACKGROUND)
        except PlatformError as error:
            log.info("/%s: cannot check the pending deletion: %s", entry.collection, error)
            context.mirror_db.write(
                partial(pending_deletions.reschedule, deletion=entry, remaining_keys=entry.keys)
            )
            continue
        _record_result(context, entry, remaining_keys)


def _fetch_remaining(context: AppContext, entry: PendingDeletion, priority: Priority) -> list[int]:
    """Fetch the keys that the platform still lists.

    For an entire collection at most one key. Raises PlatformError, also if a listed record has no usable key:
    it may be one of the deleted records.
    """
    target = get_resource(entry.collection)
    key = target.key or "id"
    page = context.platform.page(
        target.collection,
        filter=[] if entry.keys is None else [(key, "in", entry.keys)],
        limit=1 if entry.keys is None else len(entry.keys),
        priority=priority,
        tries=1,
    )
    listed_keys = list_usable_keys(target, page.records)
    if None in listed_keys:
        raise PlatformBroken(f"/{target.collection}: a listed record has no usable {key}")
    if entry.keys is None:
        return [key for key in listed_keys if isinstance(key, int)]
    return [key for key in entry.keys if key in listed_keys]


def _record_result(context: AppContext, entry: PendingDeletion, remaining_keys: list[int]) -> None:
    target = get_resource(entry.collection)

    if entry.keys is not None:
        deleted_keys = [key for key in entry.keys if key not in remaining_keys]
        deletions.record_requested_deletions(context, target, deleted_keys)
    elif not remaining_keys:
        deletions.record_requested_deletions(context, target, None)

    def work(tx: Transaction) -> None:
        if remaining_keys:
            pending_deletions.reschedule(tx, entry, None if entry.keys is None else remaining_keys)
        else:
            pending_deletions.remove(tx, entry)

    context.mirror_db.write(work)
