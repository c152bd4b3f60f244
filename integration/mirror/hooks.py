"""Hooks that update derived tables when rows of collection tables change.

Hooks run in the transaction of the upsert, so that readers never see rows without their derived data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from integration.core.ids import as_id
from integration.mirror.calls import backlog
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import messages
from integration.mirror.records import schema_drift, subresources
from integration.mirror.records.rows import UpsertResult
from integration.mirror.sync_state import collection_state, media_files
from integration.sqlite.database import Database
from integration.sqlite.transaction import Hook, Transaction


def register_hooks(mirror_db: Database, call_store: CallStore) -> None:
    """Register the hooks of `mirror_db`.

    Call this function once, before the first write.
    """
    for table, fields in LEG_FIELDS.items():
        mirror_db.hooks.setdefault(table, []).append(_make_refresh_hook(call_store, fields))
    messages.register_hook(mirror_db)
    subresources.register_hook(mirror_db)
    media_files.register_hooks(mirror_db, media_files.AUTOMATIC_KINDS)
    schema_drift.register_hooks(mirror_db, collection_state.is_complete)


def _make_refresh_hook(call_store: CallStore, fields: Iterable[str]) -> Hook:
    def hook(tx: Transaction, result: UpsertResult) -> None:
        leg_ids = sorted(set(_list_leg_ids(result, fields)))
        if result.defer_calls:
            backlog.add(tx, leg_ids)
        else:
            call_store.refresh(tx, leg_ids)

    return hook


def _list_leg_ids(result: UpsertResult, fields: Iterable[str]) -> Iterator[int]:
    for record in result.changed:
        for name in fields:
            leg_id = as_id(record.values.get(name))
            if leg_id is not None and leg_id > 0:
                yield leg_id
