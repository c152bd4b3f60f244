"""What a write through the platform made, noted in the mirror before its answer leaves (interface.md §4)."""

from __future__ import annotations

from typing import Any

import orjson

from integration.catalogue.shapes import Resource
from integration.core.json_records import Document
from integration.mirror.records import single_record as records
from integration.mirror.records.upsert import put_item, upsert, usable_key
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


def keep(mirror: Database, resource: Resource, record: Document, asked_at: str) -> None:
    """Store the record a write answered with. What it shows less than the list's form stays, what it shows
    more belongs to the record's own form alone. `asked_at` (UTC text) is when the write was sent."""
    key = usable_key(resource, record)
    if key is None:
        return

    def work(tx: Transaction) -> None:
        before = records.stored(tx.connection, resource, key)
        listed, whole = record, record
        if before is not None:
            listed = _within(orjson.loads(before.doc), record)
            whole = _document({**orjson.loads(before.item or before.doc), **record.values})
        elif (sibling := records.newest(tx.connection, resource)) is not None and _has_two_forms(resource):
            listed = _document({name: record.values[name] for name in record.values if name in sibling})
        upsert(tx, resource, [listed], source="write", asked_at=asked_at)
        if whole.values.keys() != listed.values.keys() or (before is not None and before.item is not None):
            put_item(tx, resource, whole, source="write", asked_at=asked_at)

    mirror.write(work)


def _has_two_forms(resource: Resource) -> bool:
    """Whether a record's own path tells more than the list."""
    return any(field.item_only for field in resource.fields) or any(
        relation.includable for relation in resource.relations
    )


def _within(known: dict[str, Any], record: Document) -> Document:
    """`record` in the form that the list has it in: the same fields, in the same order."""
    values = {name: record.values.get(name, value) for name, value in known.items()}
    return record if values == record.values else _document(values)


def _document(values: dict[str, Any]) -> Document:
    return Document(orjson.dumps(values, default=str).decode(), values)
