"""Complete walks: everything that a collection lists, proved to be all of it.

History is read from the newest record down, so that a first load is useful from its first minute; where the
walk is remains noted after each commit, and it goes on there after a restart. At its end the walk knows what
the platform lists no longer (deletions.py).
"""

from __future__ import annotations

import logging
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.core.json_records import Document
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import replace_all, upsert, usable_key
from integration.mirror.sync_state import collection_state as walks
from integration.sqlite.transaction import Transaction
from integration.sync.context import Parts
from integration.sync.plan import Policy
from integration.sync.reading import deletions, items, windows
from integration.sync.reading.page_store import Tally, store, tries
from integration.sync.reading.pages import NotByKey, ahead, by_key, by_pages, is_unfit, page_limit

log = logging.getLogger(__name__)

FRESH = 5000
"""Records of a walk whose calls are put together as they come; those of older ones wait (backlog.py)."""

PASSES = 3
"""Readings by page numbers until one is taken for complete."""


def walk(
    parts: Parts,
    policy: Policy,
    tally: Tally | None = None,
    *,
    afresh: bool = False,
    by_pages_only: bool = False,
) -> Tally:
    """Read all of a collection; a walk that was interrupted goes on where it was, unless `afresh`.

    Marks it complete only at its end, and then settles what is missing. Raises PlatformError, Interrupted;
    what was read stays.
    """
    tally = tally or Tally()
    if policy.kind == "single":
        _read_single(parts, policy, tally)
        return tally
    if policy.kind == "dictionary":
        _read_dictionary(parts, policy, tally)
        return tally
    if policy.by_key and not by_pages_only:
        _walk_orderly(parts, policy, tally, afresh)
    else:
        _walk_by_pages(parts, policy, tally)
    if tally.changed:
        items.read_items(parts, policy, tally.changed, tally)
        tally.changed.clear()
    # A record whose key can't be read is one of ours, and not gone.
    if policy.resource.key is not None and not tally.flagged:
        deletions.settle(parts, policy, tally)
    return tally


def _walk_orderly(parts: Parts, policy: Policy, tally: Tally, afresh: bool) -> None:
    """By key; where the platform does not sort or filter by it, by time; where it does neither, by page
    numbers."""
    with parts.mirror.read() as connection:
        by_time = isinstance(walks.state_of(connection, policy.collection).walk_key, str) and not afresh
    try:
        if not by_time:
            _walk_by_key(parts, policy, tally, afresh)
            return
    except (NotByKey, PlatformRefused) as error:
        if not is_unfit(error):
            raise
        log.warning("%s; it is read by time instead", error)
    try:
        if policy.history:
            _walk_by_time(parts, policy, tally, afresh=not by_time)
            return
    except (windows.NotByTime, PlatformRefused) as error:
        if isinstance(error, PlatformRefused) and not is_unfit(error):
            raise
        log.warning("%s; it is read by page numbers instead", error)
    _walk_by_pages(parts, policy, tally)


def _walk_by_time(parts: Parts, policy: Policy, tally: Tally, *, afresh: bool) -> None:
    """Closed windows from the newest to the oldest; `walk_key` is the time text that it has come down to."""
    collection = policy.collection
    if afresh:
        parts.mirror.write(lambda tx: walks.begin(tx, collection))
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    total = windows.count(parts.platform, policy.resource, [], tries=tries(state.failures))
    if total == 0:
        _doubt_empty(state)
    done, top, noted = state.walk_rows, 0, state.walk_rows > 0
    for window in windows.everything(
        parts.platform,
        policy.resource,
        clock.parse_stamp(state.walk_key),
        limit=page_limit(state.failures),
        tries=tries(state.failures),
    ):
        store(parts, policy, window, tally, later=done >= FRESH)
        keys = (usable_key(policy.resource, document) for document in window.documents)
        top = max(top, *(key for key in keys if isinstance(key, int)), 0)
        if window.since is not None:
            if window.documents and not noted:
                # No later window tells how far look-backs need not come: it may hold what came after this
                # one was read, beside what came in this one's time and was not.
                parts.mirror.write(partial(walks.begin_at_top, collection=collection, top=top))
                noted = True
            since, rows = clock.stamp(window.since), len(window.documents)
            parts.mirror.write(partial(walks.step, collection=collection, key=since, rows=rows, total=total))
        done += len(window.documents)
        tally.show(done, max(total, done))
        tally.check()
    mark = None if noted else top or None
    parts.mirror.write(lambda tx: walks.finish(tx, collection, mark, max(total, done)))


def _walk_by_key(parts: Parts, policy: Policy, tally: Tally, afresh: bool) -> None:
    collection, down = policy.collection, policy.history
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    if afresh or state.begun_at is None:
        parts.mirror.write(lambda tx: walks.begin(tx, collection))
        after, done = None, 0
    else:
        after, done = state.walk_key, state.walk_rows
    last, total = after, done
    pages = by_key(
        parts.platform,
        policy.resource,
        after=after,
        down=down,
        limit=page_limit(state.failures),
        tries=tries(state.failures),
    )
    for window in ahead(pages):
        if after is None and done == 0:
            if window.total == 0:
                _doubt_empty(state)
            elif down:
                _note_top(parts, policy, window.documents[0])
        total = done + window.total
        store(parts, policy, window, tally, walk_total=total, later=done >= FRESH)
        done += len(window.documents)
        last = window.last
        tally.show(done, total)
        tally.check()
    mark = None if down else last
    parts.mirror.write(lambda tx: walks.finish(tx, collection, mark, total))


def _note_top(parts: Parts, policy: Policy, newest: Document) -> None:
    key = usable_key(policy.resource, newest)
    if key is not None:
        parts.mirror.write(lambda tx: walks.begin_at_top(tx, policy.collection, key))


def _walk_by_pages(parts: Parts, policy: Policy, tally: Tally) -> None:
    collection, resource = policy.collection, policy.resource
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, collection)
    for _ in range(PASSES):
        seen: set[Key | None] = set()
        totals: set[int] = set()
        everything: list[Document] = []
        asked_at, pages = clock.stamp(), 0
        for window in by_pages(
            parts.platform, resource, limit=page_limit(state.failures), tries=tries(state.failures)
        ):
            totals.add(window.total)
            pages += 1
            if resource.key is None:
                everything += window.documents
            else:
                seen.update(usable_key(resource, document) for document in window.documents)
                store(parts, policy, window, tally, later=len(seen) > FRESH)
            tally.show(max(len(seen), len(everything)), window.total)
            tally.check()
        # One answer can't have shifted: what is twice in it is two records that read alike.
        listed = len(everything) if pages == 1 else _different(everything)
        count = listed if resource.key is None else len(seen)
        if totals == {count}:
            if count == 0:
                _doubt_empty(state)
            mark = max((key for key in seen if isinstance(key, int)), default=None) if policy.by_key else None
            tally.read += len(everything)
            _finish(parts, policy, state, everything, asked_at, mark, count, tally)
            return
    raise PlatformBroken(f"/{collection}: it changed while it was read, {PASSES} times")


def _different(documents: list[Document]) -> int:
    """How many records there are: a page that shifted shows one twice. Without ids nobody can tell."""
    ids = [document.values.get("id") for document in documents]
    if any(number is None or isinstance(number, list | dict) for number in ids):
        return len(documents)
    return len(set(ids))


def _finish(
    parts: Parts,
    policy: Policy,
    state: walks.WalkState,
    everything: list[Document],
    asked_at: str,
    mark: int | None,
    total: int,
    tally: Tally,
) -> None:
    """`everything` are the records without keys, which are stored only when all of them are here."""
    stored = policy.resource.key is None and (total > 0 or deletions.may_be_empty(parts, policy, state))

    def job(tx: Transaction) -> None:
        if stored:
            tally.count(replace_all(tx, policy.resource, everything, source="sync", asked_at=asked_at))
        walks.finish(tx, policy.collection, mark, total, asked_at)

    parts.mirror.write(job)
    if stored:
        deletions.release(parts, policy, state)


def _read_single(parts: Parts, policy: Policy, tally: Tally) -> None:
    asked_at = clock.stamp()
    document = parts.platform.item(f"/{policy.collection}")

    def job(tx: Transaction) -> None:
        tally.count(upsert(tx, policy.resource, [document], source="sync", asked_at=asked_at))
        walks.finish(tx, policy.collection, None, 1)

    parts.mirror.write(job)
    tally.read += 1
    tally.show(1, 1)


def _read_dictionary(parts: Parts, policy: Policy, tally: Tally) -> None:
    """The specification says "collection" and shows no record: an object of codes is taken, too."""
    asked_at, path = clock.stamp(), policy.collection
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, path)
    try:
        answer = parts.platform.page(path, tries=tries(state.failures))
        found = answer.documents
        if answer.total is not None and 1 < len(found) < answer.total:
            raise PlatformBroken(
                f"/{path}: {len(found):,} records where {answer.total:,} should be", status=200
            )
    except PlatformBroken as error:
        if error.status is not None:
            raise
        found = [parts.platform.item(f"/{path}", tries=tries(state.failures))]
    if not found:
        _doubt_empty(state)
    _finish(parts, policy, state, found, asked_at, None, len(found), tally)
    tally.read += len(found)
    tally.show(len(found), len(found))


def _doubt_empty(state: walks.WalkState) -> None:
    """An empty answer where records are known is more often a mistake than the truth: believed the third
    time only, or where a person said that so many are gone."""
    accepted = state.rows <= state.accepted < walks.EVERYTHING
    if state.rows and not accepted and state.failures < 2:
        raise PlatformBroken(
            f"/{state.collection}: the platform lists nothing where {state.rows:,} records are known"
        )
