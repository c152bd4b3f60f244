"""What every reading of a collection has in common: how it is stored, counted and ended early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from integration.core.errors import PlatformError, PlatformRefused, SwitchroomError
from integration.core.json_records import Document
from integration.mirror.records.rows import Key, Upserted
from integration.mirror.records.upsert import put_item, upsert, usable_key
from integration.mirror.sync_state import collection_state as walks
from integration.sqlite.transaction import Transaction
from integration.sync.context import Parts
from integration.sync.plan import Policy
from integration.sync.reading.pages import Window

SLICE = 500
"""Records in one transaction: a webhook waits no longer than that takes."""

HISTORY_SLICE = 5000
"""The same where no calls are put together: each page of an index is written once for more records."""

OFF = (403, 404)
"""Statuses with which the platform refuses one collection: no right to it, or no such add-on."""


class Interrupted(SwitchroomError):
    """The work is no longer wanted here; what was committed stays, and a later run goes on there."""


@dataclass(slots=True)
class Tally:
    """What a run did. `show(done, total)` is told after each commit; `wanted()` asked before each request.

    `flagged` counts records without a usable key; `changed` holds keys of records that are to be read by
    their own paths, too.
    """

    show: Callable[[int, int | None], None] = lambda _done, _total: None
    wanted: Callable[[], bool] = lambda: True
    read: int = 0
    inserted: int = 0
    updated: int = 0
    missing: int = 0
    flagged: int = 0
    changed: list[Key] = field(default_factory=list)

    def count(self, outcome: Upserted) -> None:
        self.inserted += len(outcome.inserted)
        self.updated += len(outcome.updated)
        self.flagged += outcome.flagged

    def check(self) -> None:
        if not self.wanted():
            raise Interrupted("ended early")


def store(
    parts: Parts,
    policy: Policy,
    window: Window,
    tally: Tally,
    *,
    walk_total: int | None = None,
    later: bool = False,
) -> None:
    """Upsert a window, slice by slice; with `walk_total` each slice also moves the walk's own mark. `later`:
    calls are put together when there is time."""
    size = HISTORY_SLICE if later else SLICE
    for begin in range(0, len(window.documents), size):
        documents = window.documents[begin : begin + size]
        outcome = parts.mirror.write(_storing(policy, documents, window.asked_at, walk_total, later))
        tally.count(outcome)
        tally.read += len(documents)
        if policy.items:
            tally.changed += outcome.updated


def keep_item(parts: Parts, policy: Policy, document: Document, asked_at: str) -> None:
    """Keep what a record's own path answered."""
    parts.mirror.write(lambda tx: put_item(tx, policy.resource, document, source="sync", asked_at=asked_at))


def tries(failures: int) -> int | None:
    """A collection that failed last time is asked once: that is enough to see whether it is well again."""
    return 1 if failures else None


def is_off(error: PlatformError) -> bool:
    """Whether the platform refuses this one collection, whatever is asked of it."""
    return isinstance(error, PlatformRefused) and error.status in OFF


def note_failure(parts: Parts, policy: Policy, error: PlatformError) -> None:
    """Keep what went wrong where people can see it."""
    note = walks.refuse if is_off(error) else walks.fail
    parts.mirror.write(lambda tx: note(tx, policy.collection, str(error)))


def _storing(
    policy: Policy, documents: Sequence[Document], asked_at: str, walk_total: int | None, later: bool
) -> Callable[[Transaction], Upserted]:
    def job(tx: Transaction) -> Upserted:
        outcome = upsert(tx, policy.resource, documents, source="sync", asked_at=asked_at, later=later)
        key = usable_key(policy.resource, documents[-1])
        if walk_total is not None and key is not None:
            walks.step(tx, policy.collection, key, len(documents), walk_total)
        return outcome

    return job
