"""Hooks that update other tables when records are stored, in the transaction of the upsert."""

from __future__ import annotations

from integration.mirror.page_queries import messages
from integration.mirror.records import schema_drift, subresources
from integration.mirror.sync_state import collection_state, media_files
from integration.sqlite.database import Database


def register_hooks(mirror_db: Database) -> None:
    """Register the hooks of `mirror_db`.

    Call this function once, before the first write.
    """
    messages.register_hook(mirror_db)
    subresources.register_hook(mirror_db)
    media_files.register_hooks(mirror_db, media_files.AUTOMATIC_KINDS)
    schema_drift.register_hooks(mirror_db, collection_state.is_complete)
