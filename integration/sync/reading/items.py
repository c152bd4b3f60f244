"""Records by their own paths, where those answer with more than the list, and what lies below them."""

from __future__ import annotations

from collections.abc import Sequence

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.core.json_records import read_item, read_page
from integration.mirror.records import subresources as below
from integration.mirror.records.rows import Key
from integration.mirror.sync_state import collection_state as walks
from integration.sync.context import Parts
from integration.sync.plan import DAY, OLD_DAYS, Below, Policy
from integration.sync.reading.page_store import Tally, keep_item


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
    with parts.mirror.read() as connection:
        names = walks.named(connection, policy.resource, policy.own_form or "", keys)
    for name in names:
        tally.check()
        asked_at = clock.stamp()
        try:
            document = parts.platform.item(f"/{policy.collection}/{name}")
        except PlatformRefused as error:
            if error.status not in (403, 404):
                raise
            continue  # Deleted since the list was read, or not for our eyes.
        keep_item(parts, policy, document, asked_at)


def read_due_below(parts: Parts, path: Below, tally: Tally) -> int:
    """Read what lies below records that were not asked for within `path.seconds`; returns how many were.

    Raises PlatformError; what was read stays. A record that refuses (403, 404) has nothing there.
    """
    if path.seconds is None:
        return 0
    now = clock.unix()
    with parts.mirror.read() as connection:
        keys = below.due(
            connection,
            path.collection,
            path.name,
            path.where,
            clock.stamp(now - path.seconds),
            old=clock.stamp(now - path.old_seconds),
            since=clock.stamp(now - OLD_DAYS * DAY),
        )
    for key in keys:
        tally.check()
        asked_at = clock.stamp()
        try:
            text: str | None = _read(parts, path.path.replace("{id}", str(key)))
        except PlatformRefused as error:
            if error.status not in (403, 404):
                raise
            text = None
        parts.mirror.write(
            lambda tx, key=key, text=text, at=asked_at: below.put(  # type: ignore[misc]
                tx, path.collection, key, path.name, text, at
            )
        )
    return len(keys)


def _read(parts: Parts, path: str) -> str:
    """The records below `path` as a JSON array: the specification shows none, so one object counts as one."""
    answer = parts.platform.get(path)
    try:
        found = read_page(answer.body).documents
    except PlatformBroken:
        found = [read_item(answer.body)]
    return "[" + ",".join(document.text for document in found) + "]"
