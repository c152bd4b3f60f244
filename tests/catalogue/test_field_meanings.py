"""Meanings of fields: display format, erasure and export columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from integration.catalogue import COLLECTIONS, RESOURCES, get_resource
from integration.catalogue.events import EVENTS
from integration.catalogue.field_meanings import get_meaning, is_secret
from integration.catalogue.shapes import Field, Meaning
from integration.core.json_records import JsonRecord
from integration.dashboard.account.values import ReferenceNames, ValueFormatter
from integration.exports.columns import derive_columns
from integration.mirror.privacy.erasure_gate import ErasureGate
from tests.support.applications.shared_app import SharedApp, module_app, shared_app

__all__ = ["module_app", "shared_app"]

ERASED_NUMBER, OTHER_NUMBER = "442079460001", "442079460002"
KEPT, REMOVED = "kept", "removed"
FIELDS = [
    # Meaning, value, format on Account pages; after an erasure in its record: the value, the erased number
    ("phone", OTHER_NUMBER, "phone", KEPT, "erased"),
    ("contact_phone", OTHER_NUMBER, "phone", REMOVED, REMOVED),
    ("extension", "101", "text", KEPT, "erased"),
    ("caller_id", f'"Ann" <{OTHER_NUMBER}>', "text", REMOVED, REMOVED),
    ("caller_id", f"<+{OTHER_NUMBER}>", "text", KEPT, REMOVED),  # without a name
    ("duration", 75, "duration", KEPT, None),
    ("seconds", 30, "number", KEPT, None),
    ("bytes", 2_000_000, "number", KEPT, None),
    ("unix_time", 1_790_000_000, "time", KEPT, None),
    ("cost", 0.5, "number", KEPT, None),
    ("code", "GOOD", "text", KEPT, REMOVED),
    ("open_code", "busy", "text", KEPT, REMOVED),
    ("choice", "sharp", "text", REMOVED, REMOVED),
    ("text", "called back", "prose", REMOVED, REMOVED),
    (None, "called back", "text", REMOVED, REMOVED),
    (None, 75, "number", KEPT, None),
]


def add_field(meaning: Any, value: object) -> Any:
    """CDRs with a field `added` of this meaning."""
    kind = "string" if isinstance(value, str) else "number" if isinstance(value, float) else "integer"
    codes = ("GOOD",) if meaning == "code" else ()
    added = Field("added", kind, meaning=meaning, codes=codes)  # type: ignore[arg-type]
    cdrs = get_resource("cdrs")
    return replace(cdrs, fields=(*cdrs.fields, added))


def strip(resource: Any, value: object) -> Any:
    """The field `added` after an erasure of another number in the record."""
    gate = ErasureGate(b"key" * 11)
    gate.add("2026-12-01 00:00:00", [gate.digest(ERASED_NUMBER)], [len(ERASED_NUMBER)], ())
    record = {"id": 1, "calldate": "2026-11-02 09:15:00", "src": ERASED_NUMBER, "added": value}
    stripped = gate.filter_record(resource, JsonRecord(json.dumps(record), record))
    assert stripped is not None
    assert stripped.values["src"] == "erased"
    return stripped.values["added"]


@pytest.mark.parametrize(("meaning", "value", "shown", "after_erasure", "of_erased_number"), FIELDS)
def test_the_meaning_determines_display_and_erasure(
    shared_app: SharedApp,
    meaning: str | None,
    value: object,
    shown: str,
    after_erasure: str,
    of_erased_number: str | None,
) -> None:
    resource = add_field(meaning, value)
    with shared_app.mirror_db.read() as connection, shared_app.product.site.app_context():
        formatter = ValueFormatter(resource, ReferenceNames(connection, COLLECTIONS))
        assert formatter.format_value("added", {"added": value}).kind == shown
    assert strip(resource, value) == (value if after_erasure == KEPT else None)
    if of_erased_number is not None:
        expected = "erased" if of_erased_number == "erased" else None
        assert strip(resource, ERASED_NUMBER) == expected


def test_the_meaning_determines_additional_export_columns() -> None:
    assert "added_hms" in derive_columns(add_field("duration", 75), {})
    assert '"cdrs"."added"' in derive_columns(add_field("cost", 0.5), {})["currency"].sql
    plain = derive_columns(add_field(None, 75), {})
    assert "added_hms" not in plain
    assert '"cdrs"."added"' not in plain["currency"].sql


def test_fields_of_the_same_name_have_the_same_meaning_in_all_resources():
    """Undocumented and nested fields have only a name."""
    meanings = {}
    for field in (field for row in RESOURCES for field in row.fields if field.meaning is not None):
        assert meanings.setdefault(field.name, field.meaning) == field.meaning, field.name
        assert field.meaning in get_args(Meaning)
    for field in (field for row in EVENTS for field in row.fields if field.meaning is not None):
        assert get_meaning(field.name, None) is not None, field.name


def test_an_undocumented_field_has_the_meaning_of_its_name():
    assert get_meaning("src", None) == "phone"
    assert get_meaning("phone_number", None) == "contact_phone"
    assert get_meaning("src", Field("src", "string")) is None
    assert is_secret("sip_passphrase")
