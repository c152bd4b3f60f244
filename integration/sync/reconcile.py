"""Look-backs and complete walks: what the API lists is here, once, whatever the webhooks told.

A look-back reads what lies beyond the highest id read so far, and again what is dated within
`sync.overlap` of the last look-back: a long call's CDR is dated by its start, and no record tells when it
was changed. A complete walk reads everything, remembers after each commit how far it is, and goes on there
after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from integration import clock
from integration.database import Transaction
from integration.documents import Document
from integration.errors import PlatformBroken, PlatformError, PlatformRefused, SwitchroomError
from integration.mirror import walks
from integration.mirror.upsert import Key, Upserted, put_item, replace_all, upsert, usable_key
from integration.sync.parts import Parts
from integration.sync.plan import Policy
from integration.sync.reading import NotByKey, Window, by_key, by_pages, page_limit

log = logging.getLogger(__name__)

SLICE = 500
"""Records in one transaction: a webhook waits no longer than that takes."""

FIRST_LOOK_BACK = timedelta(days=1)
"""How far the very first look-back reads: today's calls are there before the walk has come to them."""

PASSES = 3
"""Readings by page numbers until one is taken for complete."""

SMALL = 20_000
"""Records up to which a collection that can't be filtered is read whole at each look-back."""


class Interrupted(SwitchroomError):
    """The work is no longer wanted here; what was committed stays, and a later run goes on there."""


@dataclass(slots=True)
class Tally:
    """What a run did. `show(done, total)` is told after each commit; `wanted()` asked before each request."""

    show: Callable[[int, int | None], None] = lambda _done, _total: None
    wanted: Callable[[], bool] = lambda: True
    read: int = 0
    inserted: int = 0
    updated: int = 0

    def count(self, outcome: Upserted) -> None:
        self.inserted += len(outcome.inserted)
        self.updated += len(outcome.updated)

    def check(self) -> None:
        if not self.wanted():
            raise Interrupted("ended early")


def look_back(parts: Parts, policy: Policy, tally: Tally | None = None) -> Tally:
    """Read what is new in a collection that grows. Raises PlatformError; what was read stays."""
    tally = tally or Tally()
    resource, collection = policy.resource, policy.collection
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    begun = clock.now()
    if state.seen_until is None:
        since = begun - FIRST_LOOK_BACK
    else:
        since = clock.parse_stamp(state.seen_until) or begun - FIRST_LOOK_BACK
    since -= timedelta(seconds=parts.settings.sync.overlap)
    limit, tries = page_limit(state.failures), _tries(state.failures)
    mark, date = state.mark, None
    try:
        if mark is not None:
            for window in by_key(parts.platform, resource, after=mark, limit=limit, tries=tries):
                date = date or window.date
                _store(parts, policy, window, tally)
                mark = window.last
        conditions = [(str(resource.date), "gte", clock.stamp(since))]
        for window in by_key(parts.platform, resource, conditions, limit=limit, tries=tries):
            date = date or window.date
            _store(parts, policy, window, tally)
    except (NotByKey, PlatformRefused) as error:
        if isinstance(error, PlatformRefused) and error.status != 400:
            raise
        if (state.total or 0) > SMALL:
            raise
        log.warning("%s; it is read whole instead", error)
        return walk(parts, policy, tally, by_pages_only=True)
    until = clock.stamp(_no_later(begun, date))
    parts.mirror.write(lambda tx: walks.looked_back(tx, collection, mark, until))
    return tally


def walk(
    parts: Parts,
    policy: Policy,
    tally: Tally | None = None,
    *,
    afresh: bool = False,
    by_pages_only: bool = False,
) -> Tally:
    """Read all of a collection; a walk that was interrupted goes on where it was, unless `afresh`.

    Marks it complete only at its end. Raises PlatformError, Interrupted; what was read stays.
    """
    tally = tally or Tally()
    if policy.kind == "single":
        _read_single(parts, policy, tally)
    elif policy.by_key and not by_pages_only:
        try:
            _walk_by_key(parts, policy, tally, afresh)
        except (NotByKey, PlatformRefused) as error:
            if isinstance(error, PlatformRefused) and error.status != 400:
                raise
            log.warning("%s; it is read by page numbers instead", error)
            _walk_by_pages(parts, policy, tally)
    else:
        _walk_by_pages(parts, policy, tally)
    return tally


def read_due_items(parts: Parts, policy: Policy, tally: Tally) -> None:
    """Read by their own paths the records that never were, and all of them every `sync.full_interval`."""
    oldest = clock.stamp(clock.unix() - parts.settings.sync.full_interval)
    with parts.mirror.read() as connection:
        read_at = walks.state_of(connection, policy.collection).items_at
        every = read_at is None or read_at < oldest
        keys = walks.keys(connection, policy.resource, without_item=not every)
    read_items(parts, policy, keys, tally)
    if every:
        parts.mirror.write(lambda tx: walks.items_read(tx, policy.collection))


def read_items(parts: Parts, policy: Policy, keys: Sequence[Key], tally: Tally) -> None:
    """Read records by their own paths, which answer with more than the list does."""
    for key in keys:
        tally.check()
        asked_at = clock.stamp()
        try:
            document = parts.platform.item(f"/{policy.collection}/{key}")
        except PlatformRefused as error:
            if error.status != 404:
                raise
            continue  # Deleted since the list was read.
        parts.mirror.write(_putting(policy, document, asked_at))


def _putting(policy: Policy, document: Document, asked_at: str) -> Callable[[Transaction], None]:
    return lambda tx: put_item(tx, policy.resource, document, source="sync", asked_at=asked_at)


def _walk_by_key(parts: Parts, policy: Policy, tally: Tally, afresh: bool) -> None:
    collection = policy.collection
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    if afresh or state.begun_at is None:
        parts.mirror.write(lambda tx: walks.begin(tx, collection))
        after, done = None, 0
    else:
        after, done = state.walk_key, state.walk_rows
    last, total = after, done
    for window in by_key(
        parts.platform,
        policy.resource,
        after=after,
        limit=page_limit(state.failures),
        tries=_tries(state.failures),
    ):
        if after is None and done == 0 and window.total == 0:
            _doubt_empty(state)
        total = done + window.total
        _store(parts, policy, window, tally, walk_total=total)
        done += len(window.documents)
        last = window.last
        tally.show(done, total)
        tally.check()
    parts.mirror.write(lambda tx: walks.finish(tx, collection, last, total))


def _walk_by_pages(parts: Parts, policy: Policy, tally: Tally) -> None:
    collection, resource = policy.collection, policy.resource
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    for _ in range(PASSES):
        seen: set[Key | None] = set()
        totals: set[int] = set()
        everything: list[Document] = []
        asked_at = clock.stamp()
        for window in by_pages(
            parts.platform, resource, limit=page_limit(state.failures), tries=_tries(state.failures)
        ):
            totals.add(window.total)
            if resource.key is None:
                everything += window.documents
            else:
                seen.update(usable_key(resource, document) for document in window.documents)
                _store(parts, policy, window, tally)
            tally.show(max(len(seen), len(everything)), window.total)
            tally.check()
        count = len(everything) if resource.key is None else len(seen)
        if totals == {count}:
            if count == 0:
                _doubt_empty(state)
            mark = max((key for key in seen if isinstance(key, int)), default=None) if policy.by_key else None
            parts.mirror.write(_finishing(policy, everything, asked_at, mark, count))
            return
    raise PlatformBroken(f"/{collection}: it changed while it was read, {PASSES} times")


def _finishing(
    policy: Policy, everything: list[Document], asked_at: str, mark: int | None, total: int
) -> Callable[[Transaction], None]:
    def job(tx: Transaction) -> None:
        if policy.resource.key is None:
            replace_all(tx, policy.resource, everything, source="sync", asked_at=asked_at)
        walks.finish(tx, policy.collection, mark, total)

    return job


def _read_single(parts: Parts, policy: Policy, tally: Tally) -> None:
    asked_at = clock.stamp()
    document = parts.platform.item(f"/{policy.collection}")

    def job(tx: Transaction) -> None:
        tally.count(upsert(tx, policy.resource, [document], source="sync", asked_at=asked_at))
        walks.finish(tx, policy.collection, None, 1)

    parts.mirror.write(job)
    tally.read += 1
    tally.show(1, 1)


def _store(
    parts: Parts, policy: Policy, window: Window, tally: Tally, *, walk_total: int | None = None
) -> None:
    """Upsert a window, slice by slice; with `walk_total` each slice also moves the walk's own mark."""
    for begin in range(0, len(window.documents), SLICE):
        documents = window.documents[begin : begin + SLICE]
        outcome = parts.mirror.write(_storing(policy, documents, window.asked_at, walk_total))
        tally.count(outcome)
        tally.read += len(documents)
        if policy.items and outcome.updated:
            read_items(parts, policy, outcome.updated, tally)


def _storing(
    policy: Policy, documents: Sequence[Document], asked_at: str, walk_total: int | None
) -> Callable[[Transaction], Upserted]:
    def job(tx: Transaction) -> Upserted:
        outcome = upsert(tx, policy.resource, documents, source="sync", asked_at=asked_at)
        key = usable_key(policy.resource, documents[-1])
        if walk_total is not None and key is not None:
            walks.step(tx, policy.collection, key, len(documents), walk_total)
        return outcome

    return job


def _doubt_empty(state: walks.WalkState) -> None:
    """An empty answer where records are known is more often a mistake than the truth: believed the third
    time only."""
    if state.rows and state.failures < 2:
        raise PlatformBroken(
            f"/{state.collection}: the platform lists nothing where {state.rows:,} records are known"
        )


def _no_later(begun: datetime, date: datetime | None) -> datetime:
    """The earlier of our clock and the platform's. Whichever is fast, nothing is skipped; a slow one only
    makes the next look-back read more."""
    return min(begun, date) if date is not None and date.year > 1970 else begun.astimezone(UTC)


def _tries(failures: int) -> int | None:
    """A collection that failed last time is asked once: that is enough to see whether it is well again."""
    return 1 if failures else None


def note_failure(parts: Parts, policy: Policy, error: PlatformError) -> None:
    """Keep what went wrong where people can see it."""
    parts.mirror.write(lambda tx: walks.fail(tx, policy.collection, str(error)))
