"""What a write through the platform made, noted in the mirror before its answer leaves (interface.md §4)."""

from __future__ import annotations

import orjson

from integration.catalogue.shapes import Resource
from integration.database import Database, Transaction
from integration.documents import Document
from integration.mirror import records
from integration.mirror.upsert import put_item, upsert, usable_key


def keep(mirror: Database, resource: Resource, record: Document, asked_at: str) -> None:
    """Store the record a write answered with. One that shows only a part of its fields must not take the rest
    away from the list's form. `asked_at` (UTC text) is when the write was sent."""
    key = usable_key(resource, record)
    if key is None:
        return

    def work(tx: Transaction) -> None:
        before = records.stored(tx.connection, resource, key)
        document = record
        if before is not None:
            known = orjson.loads(before.doc)
            if known.keys() - record.values.keys():
                document = _document(
                    {**known, **{name: record.values[name] for name in known if name in record.values}}
                )
        upsert(tx, resource, [document], source="write", asked_at=asked_at)
        if before is not None and before.item is not None:
            whole = _document({**orjson.loads(before.item), **record.values})
            put_item(tx, resource, whole, source="write", asked_at=asked_at)

    mirror.write(work)


def _document(values: dict[str, object]) -> Document:
    return Document(orjson.dumps(values, default=str).decode(), values)
