"""Fill collections of the mirror as the sync does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.catalogue import RESOURCES, get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.mirror.records.upsert import store_item
from integration.mirror.sync_state import collection_state
from tests.support.records import Records

LISTED = sorted((row for row in RESOURCES if row.is_listed), key=lambda row: row.collection == "calls")
"""Listed collections. Live calls come last, because a CDR of the same leg deletes its row in `calls`."""
AT = "2026-11-02 09:15:00"
"""UTC time of all records."""


class Filling:
    """Function that mirrors records, with methods for other states of a collection."""

    def __init__(self, app: Records) -> None:
        self._app, self._mirror = app, app.context.mirror_db

    def __call__(self, collection: str, *records: dict[str, Any], complete: bool = True) -> None:
        self._app.put(collection, *records, complete=complete)

    def item(self, collection: str, record: dict[str, Any]) -> None:
        """Store the record that the platform returns for its own path."""
        item, now = document(record), clock.utc_text()
        self._mirror.write(
            lambda tx: store_item(tx, get_resource(collection), item, source="sync", requested_at=now)
        )

    def mark_missing(self, collection: str, key: Any, since: str = "2026-11-03 10:00:00") -> None:
        """Mark a record as missing."""
        resource = get_resource(collection)
        sql = f'UPDATE "{resource.table}" SET _missing_since = ? WHERE "{resource.key}" = ?'
        self._mirror.write(lambda tx: tx.execute(sql, (since, key)))

    def record_failure(self, collection: str, error: str) -> None:
        """Record a failed sync of a collection."""
        self._mirror.write(lambda tx: collection_state.record_failure(tx, collection, error))


def document(record: dict[str, Any]) -> JsonRecord:
    return JsonRecord(json.dumps(record, ensure_ascii=False, separators=(",", ":")), record)


def complete_record(resource: Resource, text: str = "some text", number: int = 7) -> dict[str, Any]:
    """Return a record with all catalogued fields and three undocumented ones."""
    record: dict[str, Any] = {}
    for field in resource.fields:
        kind = field.actual_type
        if field.name == resource.key:
            record[field.name] = str(number) if field.type == "string" else number
        elif field.type == "timestamp" or field.name == resource.date:
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


def path_of(resource: Resource, number: int = 7) -> str:
    """Path of a record's page in the dashboard."""
    return f"/account/{resource.collection}/{1 if resource.key is None else number}"


@pytest.fixture
def fill(app):
    return Filling(app)
