"""Display values of fields: names for ids, labels for codes, local times."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from integration.catalogue import field_labels, get_resource
from integration.catalogue.field_meanings import get_meaning, is_secret
from integration.catalogue.shapes import Field, Meaning, Resource
from integration.core import clock
from integration.core.ids import parse_id
from integration.core.json_records import RawJson
from integration.dashboard.account.sections import SECTIONS
from integration.dashboard.site import formats
from integration.mirror.query import browse
from integration.mirror.records import single_record
from integration.mirror.records.dictionaries import Labels
from integration.mirror.records.masking import mask_json, remove_secrets

ValueKind = Literal[
    "nothing", "secret", "text", "prose", "number", "yes", "no", "code", "time", "duration", "phone",
    "reference", "call", "list", "object", "colour", "email", "json",
]  # fmt: skip

_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_EMAIL = re.compile(r"[A-Za-z0-9._+'-]{1,64}@[A-Za-z0-9.-]{1,189}")
_MAX_DEPTH = 4
_RING_STRATEGIES = ("strategy", "ring_strategy")
"""Fields that are read with the codes of `fm_strategy`: the specification states no others.

Queues with A were observed to ring all (docs/platform.md).
"""


@dataclass(frozen=True, slots=True)
class DisplayValue:
    """Value for a template.

    `text` is the displayed text, `raw` the received value where it differs, `href` a local page. `children`
    are (label, value) of the entries of a list or an object.
    """

    kind: ValueKind
    text: str = ""
    raw: str = ""
    href: str | None = None
    title: str = ""
    children: tuple[tuple[str, DisplayValue], ...] = ()


EMPTY_VALUE = DisplayValue("nothing")


@dataclass(slots=True)
class ReferenceNames:
    """Names of referenced records, read in one query per collection.

    Records of `open_collections`, which the viewer can open, get a link; others only a name.
    """

    connection: sqlite3.Connection
    open_collections: Collection[str]
    _records: dict[tuple[str, str], dict[str, dict[str, Any]]] = field(default_factory=dict)

    def load(self, resource: Resource, records: Iterable[Mapping[str, Any]]) -> None:
        """Read the records that `records` refer to."""
        keys_by_target: dict[tuple[str, str], set[str]] = defaultdict(set)
        for values in records:
            for name, value in values.items():
                for collection, key_field in reference_targets(resource, name, values):
                    keys_by_target[collection, key_field].update(browse.extract_ids(value))
        for (collection, key_field), keys in keys_by_target.items():
            self._records[collection, key_field] = single_record.fetch_by_key(
                self.connection,
                SECTIONS[collection].resource,
                keys,
                key_field=key_field,
                include_missing=True,
            )

    def find(self, collection: str, key_field: str, key: str) -> dict[str, Any] | None:
        return self._records.get((collection, key_field), {}).get(key)


def reference_targets(resource: Resource, name: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the possible targets (collection, key field) of the field `name`."""
    relation = next((row for row in resource.relations if row.name == name), None)
    candidates: list[tuple[str, str]] = []
    if relation is not None and relation.target_collection != "calls":
        candidates = [(relation.target_collection, "id")] + (
            [("ddis", "e164")] if relation.target_collection == "ddis" else []
        )
    elif name in field_labels.DESTINATION_TYPE_FIELDS:
        type_code = values.get(field_labels.DESTINATION_TYPE_FIELDS[name])
        candidates = [(field_labels.DESTINATION_TYPES.get(str(type_code), ("", ""))[0], "id")]
    elif name in field_labels.IMPLIED_REFERENCES and relation is None:
        candidates = [(field_labels.IMPLIED_REFERENCES[name], "id")]
    return [(collection, key_field) for collection, key_field in candidates if collection in SECTIONS]


@dataclass(frozen=True, slots=True)
class ValueFormatter:
    """Formatter of the values of records of one collection."""

    resource: Resource
    reference_names: ReferenceNames
    labels: Labels = field(default_factory=dict)

    def format_value(self, name: str, values: Mapping[str, Any]) -> DisplayValue:
        """Format the field `name` of the record `values`."""
        value = values.get(name)
        if is_secret(name):
            # Show that a PIN is set, but not its length.
            return EMPTY_VALUE if value in (None, "") else DisplayValue("secret")
        if value is None or value in ("", [], {}):
            return EMPTY_VALUE
        display_value = self._format_reference(name, value, values) or self._format_code(name, value)
        return display_value or self._format_plain(name, value, self.resource.field(name))

    def _format_reference(self, name: str, value: Any, values: Mapping[str, Any]) -> DisplayValue | None:
        relation = next((row for row in self.resource.relations if row.name == name), None)
        if relation is not None and relation.target_collection == "calls":
            return _format_call(value)
        candidates = reference_targets(self.resource, name, values)
        if not candidates:
            return None
        items = value if isinstance(value, list) else [value]
        display_values = [
            self._format_single_reference(candidates, item, is_documented=relation is not None)
            for item in items
        ]
        if any(item is None for item in display_values):
            return None
        if not isinstance(value, list):
            return display_values[0]
        return DisplayValue("list", children=tuple(("", item) for item in display_values if item is not None))

    def _format_single_reference(
        self, candidates: list[tuple[str, str]], item: Any, *, is_documented: bool
    ) -> DisplayValue | None:
        keys = browse.extract_ids(item)
        if len(keys) != 1:
            return None
        for collection, key_field in candidates:
            record = self.reference_names.find(collection, key_field, keys[0])
            if record is not None:
                resource = SECTIONS[collection].resource
                href = f"/account/{collection}/{record.get(resource.key or '', keys[0])}"
                text = field_labels.record_title(record) or keys[0]
                if collection == "ddis":
                    text = formats.national(str(record.get("e164", text)))
                status_suffix = (
                    " (off)" if isinstance(item, dict) and item.get("status") in (False, 0) else ""
                )
                return DisplayValue(
                    "reference",
                    text + status_suffix,
                    keys[0],
                    href if collection in self.reference_names.open_collections else None,
                )
        if candidates[0][0] == "ddis":
            return self._format_phone(keys[0])
        return (
            DisplayValue("text", keys[0], title="no such record in the local copy") if is_documented else None
        )

    def _format_code(self, name: str, value: Any) -> DisplayValue | None:
        if isinstance(value, list | dict | bool):
            return None
        label = self._find_code_label(name, str(value))
        return DisplayValue("code", label, str(value)) if label else None

    def _find_code_label(self, name: str, code: str) -> str | None:
        label = self.labels.get(name, {}).get(code) or find_meaning(self.resource, name, code)
        return label[:1].upper() + label[1:] if label else None

    def label_code(self, name: str, code: str) -> str:
        """Return the label of a code of the field `name`.

        A code without a label is returned unchanged.
        """
        return self._find_code_label(name, code) or code

    def _format_plain(self, name: str, value: Any, field_spec: Field | None) -> DisplayValue:
        if isinstance(value, RawJson):
            return DisplayValue("json", mask_json(value.encode("utf-8", "surrogatepass")).decode())
        if isinstance(value, list | dict):
            return self._format_nested(name, value, 0)
        if isinstance(value, bool):
            return _format_boolean(value)
        if (
            field_spec is not None
            and field_spec.actual_type == "boolean"
            and value in (0, 1, "0", "1", "true", "false")
        ):
            return _format_boolean(value in (1, "1", "true"))
        meaning = get_meaning(name, field_spec)
        if field_labels.is_time_field(self.resource, name) or meaning == "unix_time":
            return _format_time(meaning, value)
        if isinstance(value, int | float):
            return _format_number(meaning, value)
        text = str(value)
        if meaning == "seconds" and text.isdecimal():
            return DisplayValue("number", f"{text} s", text)
        if meaning in ("phone", "contact_phone"):
            return self._format_phone(text)
        if _COLOUR.fullmatch(text):
            return DisplayValue("colour", text)
        if _EMAIL.fullmatch(text):
            return DisplayValue("email", text)
        return DisplayValue("prose" if meaning == "text" or "\n" in text else "text", text)

    def _format_phone(self, text: str) -> DisplayValue:
        return DisplayValue("phone", formats.national(text), text, title=formats.international(text))

    def _format_nested(self, name: str, value: Any, depth: int) -> DisplayValue:
        if depth >= _MAX_DEPTH:
            return DisplayValue("json", json.dumps(remove_secrets(value), ensure_ascii=False))
        if isinstance(value, list):
            return DisplayValue(
                "list", children=tuple(("", self._format_child(name, item, depth)) for item in value)
            )
        return DisplayValue(
            "object",
            children=tuple(
                (field_labels.label_field(str(key)), self._format_child(str(key), item, depth))
                for key, item in value.items()
            ),
        )

    def _format_child(self, name: str, item: Any, depth: int) -> DisplayValue:
        if is_secret(name):
            return EMPTY_VALUE if item in (None, "") else DisplayValue("secret")
        if item is None or item in ("", [], {}):
            return EMPTY_VALUE
        if isinstance(item, list | dict):
            return self._format_nested(name, item, depth + 1)
        return self._format_plain(name, item, None)


def find_meaning(resource: Resource, name: str, code: str) -> str | None:
    """Return the meaning that the specification states for a code."""
    meanings = field_labels.parse_codes(resource.field(name), name)
    if name in _RING_STRATEGIES:
        meanings = field_labels.parse_codes(get_resource("users").field("fm_strategy"), name) | meanings
    return meanings.get(code)


def _format_boolean(value: bool) -> DisplayValue:
    return DisplayValue("yes", "Yes") if value else DisplayValue("no", "No")


def _format_call(value: Any) -> DisplayValue:
    keys = browse.extract_ids(value)
    if len(keys) == 1 and parse_id(keys[0]):
        return DisplayValue("call", keys[0], href=f"/calls/{keys[0]}")
    return DisplayValue("text", str(value)) if keys else EMPTY_VALUE


def _format_time(meaning: Meaning | None, value: Any) -> DisplayValue:
    """Format a time in the display zone, with UTC as its title.

    Other values stay unchanged.
    """
    timestamp = value if isinstance(value, str) else None
    if isinstance(value, int | float) and meaning == "unix_time" and 0 < value < 4e9:
        timestamp = clock.utc_text(float(value))
    if clock.parse_utc(timestamp) is None:
        return DisplayValue("number" if isinstance(value, int | float) else "text", str(value))
    return DisplayValue("time", formats.at_full(timestamp), str(timestamp), title=f"{timestamp} UTC")


def _format_number(meaning: Meaning | None, value: int | float) -> DisplayValue:
    raw_text = repr(value)
    if meaning == "duration":
        return DisplayValue("duration", formats.duration(value), raw_text, title=f"{raw_text} s")
    if meaning == "seconds":
        return DisplayValue("number", f"{raw_text} s", raw_text)
    if meaning == "bytes":
        return DisplayValue("number", formats.size(value), raw_text, title=f"{raw_text} bytes")
    return DisplayValue("number", raw_text)
