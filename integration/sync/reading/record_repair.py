"""Read a damaged record again from the platform (`verify --repair`)."""

from __future__ import annotations

from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.records import row_check
from integration.mirror.records.row_check import DamagedRow
from integration.mirror.records.upsert import get_usable_key
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading import items
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Tally
from integration.sync.reading.windows import read_matching

NOT_LISTED = "the platform no longer has this record"


def repair_record(context: SyncContext, policy: Policy, row: DamagedRow, tally: Tally) -> str | None:
    """Replace a damaged row by the platform's record.

    Returns the reason if the platform does not have it. Raises PlatformError. A collection whose records
    cannot be requested by a key is read completely.
    """
    if policy.kind not in ("grows", "settings") or row.key is None:
        _repair_by_full_sync(context, policy, row, tally)
        return None
    resource, requested_at = policy.resource, clock.utc_text()
    try:
        window = read_matching(context.platform, resource, [(resource.key or "", "eq", row.key)])
    except PlatformRefused as error:
        if error.status != 404:
            raise
        return NOT_LISTED
    records = [] if window is None else window.records
    record = next((record for record in records if get_usable_key(resource, record) == row.key), None)
    if record is None:
        return NOT_LISTED
    context.mirror_db.write(lambda tx: row_check.replace_damaged(tx, resource, row, record, requested_at))
    if policy.reads_items:
        items.read_items(context, policy, [row.key], tally)
    return None


def _repair_by_full_sync(context: SyncContext, policy: Policy, row: DamagedRow, tally: Tally) -> None:
    resource = policy.resource
    context.mirror_db.write(lambda tx: row_check.empty_unreadable(tx, resource, row))
    run_full_sync(context, policy, tally, restart=True)
    with context.mirror_db.read() as connection:
        is_damaged = row_check.find_fault(connection, resource, row.rowid) is not None
    if is_damaged:
        # The sync found an equal `_doc`, so only columns differ.
        context.mirror_db.write(lambda tx: row_check.rewrite_columns(tx, resource, row.rowid))
