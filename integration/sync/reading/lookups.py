"""Lookups: request the CDRs and recordings of legs that ended, by live_id."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from integration.catalogue import get_resource
from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.records.upsert import upsert
from integration.mirror.sync_state import lookup_queue
from integration.mirror.sync_state.lookup_queue import DueLookup
from integration.sqlite.transaction import Transaction
from integration.sync.reading.collection_reader import CollectionReader
from integration.sync.reading.page_store import is_unavailable
from integration.sync.reading.pages import Window

log = logging.getLogger(__name__)

BATCH_SIZE = 50
"""Ids in one `in` filter.

They make a URL of about 2,000 characters.
"""


def run_due_lookups(context: SyncContext) -> int:
    """Run due lookups in batches. Returns their number.

    Raises PlatformError; lookups without a response stay due, and no attempt is counted.
    """
    request_count, now = 0, clock.unix()
    with context.mirror_db.read() as connection:
        has_future_entries = lookup_queue.has_delayed_lookups(connection, now)
    if has_future_entries:
        context.mirror_db.write(lambda tx: lookup_queue.reset_delayed_lookups(tx, now))
    while True:
        with context.mirror_db.read() as connection:
            batch = lookup_queue.due(connection, clock.unix(), BATCH_SIZE)
        if not batch:
            return request_count
        _store_results(context, batch, _request_batch(context, batch))
        request_count += len(batch)


def _request_batch(context: SyncContext, batch: Sequence[DueLookup]) -> list[tuple[str, Window]]:
    leg_ids = [lookup.id for lookup in batch if lookup.kind == "leg"]
    monitor_ids = [lookup.id for lookup in batch if lookup.kind == "monitor"]
    windows: list[tuple[str, Window]] = []
    if leg_ids:
        windows += _read_by_ids(context, "cdrs", "live_id", leg_ids)
        windows += _read_by_ids(context, "monitors", "live_id", leg_ids)
    if monitor_ids:
        windows += _read_by_ids(context, "monitors", "id", monitor_ids)
    return windows


def _read_by_ids(
    context: SyncContext, collection: str, field_name: str, ids: list[int]
) -> list[tuple[str, Window]]:
    """Read the records with these ids; none of a refused collection."""
    reader = CollectionReader(context.platform, get_resource(collection), tries=1)
    try:
        return [(collection, reader.single_page((field_name, "in", ids)))]
    except PlatformRefused as error:
        if is_unavailable(error):
            # The account may have CDRs but no recordings. Syncs record the refusal.
            return []
        if error.status != 400 or len(ids) == 1:
            raise
        # `in` is specified, but only `eq` has been confirmed on the real platform
        # (docs/platform.md#3-collections).
        log.info("%s; requesting each id separately", error)
        return [(collection, reader.single_page((field_name, "eq", record_id))) for record_id in ids]


def _store_results(
    context: SyncContext, batch: Sequence[DueLookup], found: Sequence[tuple[str, Window]]
) -> None:
    def job(tx: Transaction) -> list[int]:
        for collection, window in found:
            upsert(
                tx, get_resource(collection), window.records, source="sync", requested_at=window.requested_at
            )
        return lookup_queue.finish_lookups(tx, batch, clock.unix())

    legs_without_cdr = context.mirror_db.write(job)
    if legs_without_cdr:
        log.warning("no CDR of legs %s, 24 hours after their end", legs_without_cdr)
