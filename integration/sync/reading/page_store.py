"""Shared parts of syncs: storage, counts, errors and cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from integration.context import SyncContext
from integration.core.errors import (
    PlatformError,
    PlatformRefused,
    RecordTooLarge,
    SwitchroomError,
    UnreadableRecords,
)
from integration.core.json_records import JsonRecord
from integration.mirror.calls import backlog
from integration.mirror.records.rows import Key, UpsertResult
from integration.mirror.records.upsert import get_usable_key, upsert
from integration.mirror.sync_state import collection_state
from integration.sqlite.step_size import StepSize
from integration.sqlite.transaction import Transaction
from integration.sync.plan import Policy
from integration.sync.reading.pages import Window

RECORDS_PER_STEP = 500
"""Most records of one step that computes no calls. Slow steps have fewer (sqlite/step_size.py)."""

RECORDS_PER_STEP_WITH_CALLS = 100
"""Most records of one step that computes their calls, which takes several times as long."""

UNAVAILABLE_STATUSES = (403, 404)
"""Statuses with which the platform refuses a collection.

The account has no right to the collection, or no such add-on.
"""


class Interrupted(SwitchroomError):
    """The work was cancelled.

    Committed records are kept; the next run resumes after them.
    """


@dataclass(slots=True)
class Tally:
    """Counts of a run. `show_progress(done, total)` is called as records are stored.

    `should_continue()` is called between requests; the run is cancelled if it returns False. `keyless` counts
    records without a valid key. `unreadable` has an error for each record of an unusable response.
    `changed_keys` holds the keys of changed records, which must also be read by
    their own paths.
    """

    show_progress: Callable[[int, int | None], None] = lambda _done, _total: None
    should_continue: Callable[[], bool] = lambda: True
    read: int = 0
    inserted: int = 0
    updated: int = 0
    missing: int = 0
    keyless: int = 0
    unreadable: list[str] = field(default_factory=list)
    changed_keys: list[Key] = field(default_factory=list)
    _step_sizes: dict[bool, StepSize] = field(default_factory=dict)

    def get_step_size(self, defer_calls: bool) -> StepSize:
        """Return the size of steps, without or with calls."""
        if defer_calls not in self._step_sizes:
            largest = RECORDS_PER_STEP if defer_calls else RECORDS_PER_STEP_WITH_CALLS
            self._step_sizes[defer_calls] = StepSize(largest)
        return self._step_sizes[defer_calls]

    def add_outcome(self, outcome: UpsertResult) -> None:
        self.inserted += len(outcome.inserted)
        self.updated += len(outcome.updated)
        self.keyless += outcome.flagged

    def raise_if_unreadable(self) -> None:
        """Raise UnreadableRecords that names the unreadable records, if there are any."""
        if self.unreadable:
            count = len(self.unreadable)
            others = f" (and {count - 1} more records)" if count > 1 else ""
            raise UnreadableRecords(f"{self.unreadable[0]}{others}; all other records are stored")

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
    """Upsert the records of a window, as a bulk job.

    With `full_sync_total` each step also stores the position of the full sync. With `defer_calls` the calls
    are computed later.
    """
    # A too large record at the end of a page is also at the start of the next page.
    tally.unreadable += [error for error in window.unreadable if error not in tally.unreadable]
    records = window.records
    if not records:
        return
    step_size = tally.get_step_size(defer_calls)

    def make_steps() -> Iterator[Callable[[Transaction], UpsertResult]]:
        position = 0
        while position < len(records):
            chunk = records[position : position + step_size.value]
            position += len(chunk)
            yield _make_upsert_step(
                policy, chunk, window.requested_at, full_sync_total, defer_calls, step_size
            )

    for outcome in context.mirror_db.write_bulk(make_steps()):
        tally.add_outcome(outcome)
        if policy.reads_items:
            tally.changed_keys += outcome.updated
    tally.read += len(records)


def is_unavailable(error: PlatformError) -> bool:
    """Return whether the platform refuses all requests for this collection."""
    return isinstance(error, PlatformRefused) and error.status in UNAVAILABLE_STATUSES


def store_failure(context: SyncContext, policy: Policy, error: PlatformError) -> None:
    """Store the error of a collection for display."""
    record_error = collection_state.record_failure
    if is_unavailable(error):
        record_error = collection_state.record_refusal
    elif isinstance(error, RecordTooLarge | UnreadableRecords):
        record_error = collection_state.record_unreadable
    context.mirror_db.write(lambda tx: record_error(tx, policy.collection, str(error)))


def _make_upsert_step(
    policy: Policy,
    records: Sequence[JsonRecord],
    requested_at: str,
    full_sync_total: int | None,
    defer_calls: bool,
    step_size: StepSize,
) -> Callable[[Transaction], UpsertResult]:
    def step(tx: Transaction) -> UpsertResult:
        is_deferred = backlog.deferred(tx, policy.resource.table, records) if defer_calls else nullcontext()
        with step_size.measure(len(records)), is_deferred:
            outcome = upsert(
                tx,
                policy.resource,
                records,
                source="sync",
                requested_at=requested_at,
            )
        key = get_usable_key(policy.resource, records[-1])
        if full_sync_total is not None and key is not None:
            collection_state.record_progress(tx, policy.collection, key, len(records), full_sync_total)
        return outcome

    return step
