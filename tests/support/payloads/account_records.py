"""Collections as the clockwork would leave them: through the same door, with the same marks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.catalogue import RESOURCES, get_resource
from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord
from integration.mirror.records.upsert import replace_all, store_item, upsert
from integration.mirror.sync_state import collection_state

LISTED = sorted((row for row in RESOURCES if row.is_listed), key=lambda row: row.collection == "calls")
"""Live calls come last: a CDR of the same leg ends the call, which then leaves their table."""
AT = "2026-11-02 09:15:00"


class Filling:
    def __init__(self, app) -> None:
        self._mirror = app.mirror_db

    def __call__(self, collection: str, *records: dict[str, Any], complete: bool = True) -> None:
        of = get_resource(collection)
        documents = [document(record) for record in records]

        def job(tx) -> None:
            if of.key is None:
                replace_all(tx, of, documents, source="sync", requested_at=AT)
            else:
                upsert(tx, of, documents, source="sync", requested_at=AT)
            if complete:
                collection_state.finish_full_sync(tx, collection, None, len(documents))

        self._mirror.write(job)

    def item(self, collection: str, record: dict[str, Any]) -> None:
        """The record as its own path answers."""
        self._mirror.write(
            lambda tx: store_item(
                tx, get_resource(collection), document(record), source="sync", requested_at=AT
            )
        )

    def gone(self, collection: str, key: Any, since: str = "2026-11-03 10:00:00") -> None:
        of = get_resource(collection)
        sql = f'UPDATE "{of.table}" SET _missing_since = ? WHERE "{of.key}" = ?'
        self._mirror.write(lambda tx: tx.execute(sql, (since, key)))

    def failed(self, collection: str, error: str) -> None:
        self._mirror.write(lambda tx: collection_state.record_failure(tx, collection, error))


def document(record: dict[str, Any]) -> JsonRecord:
    return JsonRecord(json.dumps(record, ensure_ascii=False, separators=(",", ":")), record)


def complete_record(of: Resource, text: str = "some text", number: int = 7) -> dict[str, Any]:
    """A record that has every field of the catalogue and, for collections kept raw, fields of its own."""
    record: dict[str, Any] = {}
    for field in of.fields:
        kind = field.actual_type
        if field.name == of.key:
            record[field.name] = str(number) if field.type == "string" else number
        elif field.type == "timestamp" or field.name == of.date:
            record[field.name] = AT
        else:
            record[field.name] = {
                "integer": number,
                "number": 0.25,
                "boolean": True,
                "string": text,
                "array": [text, {"id": number, "name": text}],
                "object": {"inner": text, "deeper": {"deepest": [text]}},
                "any": text,
            }[kind]
    return {**record, "strange_key": text, f"{text[:40]}": number, "labels_too": [text]}


def path_of(of: Resource, number: int = 7) -> str:
    return f"/account/{of.collection}/{1 if of.key is None else number}"


@pytest.fixture
def fill(app):
    return Filling(app)
