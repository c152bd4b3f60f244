"""What every reading of a collection has in common: how it is stored, counted and ended early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from integration.core.errors import PlatformError, PlatformRefused, SwitchroomError
from integration.core.json_records import JsonRecord
from integration.mirror.records.rows import Key, UpsertResult
from integration.mirror.records.upsert import get_usable_key, upsert
from integration.mirror.records.upsert import store_item as store_item_row
from integration.mirror.sync_state import collection_state
from integration.sqlite.transaction import Transaction
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading.pages import Window

RECORDS_PER_TRANSACTION = 500
"""Records in one transaction: a webhook waits no longer than that takes."""

HISTORY_RECORDS_PER_TRANSACTION = 5000
"""The same where no calls are put together: each page of an index is written once for more records."""

UNAVAILABLE_STATUSES = (403, 404)
"""Statuses with which the platform refuses one collection: no right to it, or no such add-on."""


class Interrupted(SwitchroomError):
    """The work is no longer wanted here; what was committed stays, and a later run goes on there."""


@dataclass(slots=True)
class Tally:
    """What a run did. `show_progress(done, total)` is told after each commit; `should_continue()` asked
    before each request.

    `keyless` counts records without a usable key; `changed_keys` holds keys of records that are to be read by
    their own paths, too.
    """

    show_progress: Callable[[int, int | None], None] = lambda _done, _total: None
    should_continue: Callable[[], bool] = lambda: True
    read: int = 0
    inserted: int = 0
    updated: int = 0
    missing: int = 0
    keyless: int = 0
    changed_keys: list[Key] = field(default_factory=list)

    def add_outcome(self, outcome: UpsertResult) -> None:
        self.inserted += len(outcome.inserted)
        self.updated += len(outcome.updated)
        self.keyless += outcome.flagged

    def raise_if_cancelled(self) -> None:
        if not self.should_continue():
            raise Interrupted("ended early")


def store_window(
    context: SyncContext,
    policy: Policy,
    window: Window,
    tally: Tally,
    *,
    full_sync_total: int | None = None,
    defer_calls: bool = False,
) -> None:
    """Upsert a window, slice by slice; with `full_sync_total` each slice also moves the walk's own mark.
    `defer_calls`: calls are put together when there is time."""
    size = HISTORY_RECORDS_PER_TRANSACTION if defer_calls else RECORDS_PER_TRANSACTION
    for offset in range(0, len(window.records), size):
        records = window.records[offset : offset + size]
        outcome = context.mirror_db.write(
            _make_upsert_job(policy, records, window.requested_at, full_sync_total, defer_calls)
        )
        tally.add_outcome(outcome)
        tally.read += len(records)
        if policy.reads_items:
            tally.changed_keys += outcome.updated


def store_item(context: SyncContext, policy: Policy, record: JsonRecord, requested_at: str) -> None:
    """Keep what a record's own path answered."""
    context.mirror_db.write(
        lambda tx: store_item_row(tx, policy.resource, record, source="sync", requested_at=requested_at)
    )


def get_max_tries(failures: int) -> int | None:
    """A collection that failed last time is asked once: that is enough to see whether it is well again."""
    return 1 if failures else None


def is_unavailable(error: PlatformError) -> bool:
    """Whether the platform refuses this one collection, whatever is asked of it."""
    return isinstance(error, PlatformRefused) and error.status in UNAVAILABLE_STATUSES


def store_failure(context: SyncContext, policy: Policy, error: PlatformError) -> None:
    """Keep what went wrong where people can see it."""
    record_error = (
        collection_state.record_refusal if is_unavailable(error) else collection_state.record_failure
    )
    context.mirror_db.write(lambda tx: record_error(tx, policy.collection, str(error)))


def _make_upsert_job(
    policy: Policy,
    records: Sequence[JsonRecord],
    requested_at: str,
    full_sync_total: int | None,
    defer_calls: bool,
) -> Callable[[Transaction], UpsertResult]:
    def job(tx: Transaction) -> UpsertResult:
        outcome = upsert(
            tx, policy.resource, records, source="sync", requested_at=requested_at, defer_calls=defer_calls
        )
        key = get_usable_key(policy.resource, records[-1])
        if full_sync_total is not None and key is not None:
            collection_state.record_progress(tx, policy.collection, key, len(records), full_sync_total)
        return outcome

    return job
