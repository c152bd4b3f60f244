"""Store results of writes in the mirror before their responses are sent.

Live calls are stored by `mirror/calls/live_table.py`.
"""

from __future__ import annotations

from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord, read_record, serialize_values
from integration.mirror.records import item_forms, single_record
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
        if stored is None:
            list_form, full_form = item_forms.derive_list_form(tx, resource, record), record
        else:
            list_form = item_forms.fit_to_list(stored.doc, record)
            full_form = _merge(stored.item or stored.doc, record)
        upsert(tx, resource, [list_form], source="write", requested_at=requested_at)
        if stored is not None and stored.item is not None and not _has_fields_of(record, stored.item):
            # The write may have changed fields that its response lacks.
            item_forms.clear(tx, resource, [key])
        elif full_form.values.keys() != list_form.values.keys():
            store_item(tx, resource, full_form, source="write", requested_at=requested_at)

    mirror_db.write(store)


def _has_fields_of(record: JsonRecord, stored_text: str) -> bool:
    return read_record(stored_text).values.keys() <= record.values.keys()


def _merge(stored_text: str, record: JsonRecord) -> JsonRecord:
    values = {**read_record(stored_text).values, **record.values}
    return JsonRecord(serialize_values(values), values)
