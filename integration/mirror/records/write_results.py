"""Store results of writes in the mirror before their responses are sent.

Live calls are stored by `mirror/calls/live_table.py`.
"""

from __future__ import annotations

from typing import Any

import orjson

from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord
from integration.mirror.records import single_record
from integration.mirror.records.upsert import get_usable_key, store_item, upsert
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


def store_written(mirror_db: Database, resource: Resource, record: JsonRecord, requested_at: str) -> None:
    """Store the record that a write returned.

    `requested_at`: time of the write request (UTC text). Fields that only the list has keep their stored
    values. Additional fields are stored only in `_item`, the form of the record's own path.
    """
    key = get_usable_key(resource, record)
    if key is None:
        return

    def store(tx: Transaction) -> None:
        stored = single_record.find_record(tx.connection, resource, key)
        list_form, full_form = record, record
        if stored is not None:
            list_form = _match_list_form(orjson.loads(stored.doc), record)
            full_form = _make_record({**orjson.loads(stored.item or stored.doc), **record.values})
        elif (newest := single_record.find_newest(tx.connection, resource)) is not None and _has_two_forms(
            resource
        ):
            list_form = _make_record({name: record.values[name] for name in record.values if name in newest})
        upsert(tx, resource, [list_form], source="write", requested_at=requested_at)
        if full_form.values.keys() != list_form.values.keys() or (
            stored is not None and stored.item is not None
        ):
            store_item(tx, resource, full_form, source="write", requested_at=requested_at)

    mirror_db.write(store)


def _has_two_forms(resource: Resource) -> bool:
    """Return whether a record's own path has more fields than the list."""
    return any(field.item_only for field in resource.fields) or any(
        relation.is_includable for relation in resource.relations
    )


def _match_list_form(list_values: dict[str, Any], record: JsonRecord) -> JsonRecord:
    """Return `record` with the fields of the list, in its order."""
    values = {name: record.values.get(name, value) for name, value in list_values.items()}
    return record if values == record.values else _make_record(values)


def _make_record(values: dict[str, Any]) -> JsonRecord:
    return JsonRecord(orjson.dumps(values, default=str).decode(), values)
