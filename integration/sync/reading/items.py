"""Read records by their own paths, and subresources.

A record's own path returns more fields than the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformRefused, RecordTooLarge
from integration.mirror.records import subresources
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import store_item
from integration.mirror.sync_state import collection_state
from integration.sync.plan import DAY, OLD_RECORD_DAYS, Policy, Subresource
from integration.sync.reading.page_store import Tally


def read_due_items(context: SyncContext, policy: Policy, tally: Tally) -> None:
    """Read the records that are due by their own paths.

    Those are the records never read so, and all records every `sync.full_interval`.
    """
    read_before = clock.utc_text(clock.unix() - context.settings.sync.full_interval)
    with context.mirror_db.read() as connection:
        read_at = collection_state.get_state(connection, policy.collection).items_at
        reads_all = read_at is None or read_at < read_before
        keys = collection_state.list_keys(connection, policy.resource, without_item=not reads_all)
    read_items(context, policy, keys, tally)
    if reads_all:
        context.mirror_db.write(lambda tx: collection_state.record_items_read(tx, policy.collection))
    tally.raise_if_unreadable()


def read_items(context: SyncContext, policy: Policy, keys: Sequence[Key], tally: Tally) -> None:
    """Read the records `keys` by their own paths.

    These return more fields than the list.
    """
    with context.mirror_db.read() as connection:
        names = collection_state.list_field_values(connection, policy.resource, policy.item_key or "", keys)
    for name in names:
        tally.raise_if_cancelled()
        requested_at = clock.utc_text()
        try:
            record = context.platform.item(f"/{policy.collection}/{name}")
        except RecordTooLarge as error:
            tally.unreadable.append(f"/{policy.collection}/{name}: {error}")
            continue
        except PlatformRefused as error:
            if error.status not in (403, 404):
                raise
            continue  # Deleted since the list was read (404), or not allowed for this account (403).
        context.mirror_db.write(
            partial(
                store_item, resource=policy.resource, record=record, source="sync", requested_at=requested_at
            )
        )


def read_due_subresources(context: SyncContext, subresource: Subresource, tally: Tally) -> int:
    """Read the due subresources of records. Returns the number of requests.

    Raises PlatformError; committed subresources are kept. A 403 or 404 means that the record has none.
    """
    now = clock.unix()
    with context.mirror_db.read() as connection:
        keys = subresources.due(
            connection,
            subresource.collection,
            subresource.name,
            subresource.count_field,
            clock.utc_text(now - subresource.interval_seconds),
            old_read_before=clock.utc_text(now - subresource.old_interval_seconds),
            old_date_limit=clock.utc_text(now - OLD_RECORD_DAYS * DAY),
        )
    for key in keys:
        tally.raise_if_cancelled()
        requested_at = clock.utc_text()
        try:
            text: str | None = _read_doc(context, subresource.path.replace("{id}", str(key)), tally)
        except RecordTooLarge as error:
            tally.unreadable.append(f"{subresource.path.replace('{id}', str(key))}: {error}")
            continue
        except PlatformRefused as error:
            if error.status not in (403, 404):
                raise
            text = None
        context.mirror_db.write(
            partial(
                subresources.store,
                collection=subresource.collection,
                key=key,
                name=subresource.name,
                doc=text,
                read_at=requested_at,
            )
        )
    tally.raise_if_unreadable()
    return len(keys)


def _read_doc(context: SyncContext, path: str, tally: Tally) -> str:
    """Read all records below `path`, as JSON for `subresources.store`."""
    doc = subresources.extract_doc(context.platform.get(path).body)
    if doc is not None:
        return doc
    texts: list[str] = []
    read_count = 0
    for number in count(1):
        page = context.platform.page(path, page=number)
        texts += [record.text for record in page.records]
        tally.unreadable += [f"{path}: {record}" for record in page.too_large]
        page_count = len(page.records) + len(page.too_large)
        read_count += page_count
        if not page_count or page.total is None or read_count >= page.total:
            break
    return f"[{','.join(texts)}]"
