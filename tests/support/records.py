"""Records in a mirror, put there as a sync does."""

from __future__ import annotations

import json
from typing import Any

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.mirror.records import single_record
from integration.mirror.records.upsert import replace_all, upsert
from integration.mirror.sync_state import collection_state
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


def put_records(
    mirror_db: Database, collection: str, *records: dict[str, Any], complete: bool = False
) -> None:
    """Mirror `records`; with `complete` a full sync of the collection ends with them."""
    resource = get_resource(collection)
    documents = [JsonRecord(json.dumps(record, separators=(",", ":")), record) for record in records]

    def work(tx: Transaction) -> None:
        store = upsert if resource.key is not None else replace_all
        store(tx, resource, documents, source="sync", requested_at=clock.utc_text())
        if complete:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, len(documents))

    mirror_db.write(work)


def find_record(mirror_db: Database, collection: str, key: int) -> dict[str, Any] | None:
    """The mirrored record, or None if it is missing."""
    with mirror_db.read() as connection:
        found = single_record.find_record(connection, get_resource(collection), key)
    return None if found is None or found.is_missing else json.loads(found.doc)


def list_writes(app_db: Database) -> list[dict[str, Any]]:
    """Rows of the write log, oldest first."""
    with app_db.read() as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM journal ORDER BY id")]
