"""Choices of account forms: records, codes and values in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from integration.catalogue import field_labels
from integration.catalogue.shapes import Resource
from integration.core.json_records import read_record
from integration.dashboard.account.editable import FormSpec
from integration.dashboard.account.sections import SECTIONS, Section
from integration.dashboard.account.values import find_meaning
from integration.dashboard.account.widgets import Choice
from integration.dashboard.site import formats
from integration.mirror.query import browse
from integration.mirror.query.query import Query
from integration.mirror.records import dictionaries
from integration.mirror.records.dictionaries import Labels

MAX_CHOICES = 2000
"""Records of one collection that a form offers."""
_VOICEMAIL = "V"
_HANG_UP = "H"


@dataclass(frozen=True, slots=True)
class ChoiceReader:
    """Choices of the fields of one form."""

    connection: sqlite3.Connection
    section: Section
    labels: Labels

    @classmethod
    def open(cls, connection: sqlite3.Connection, section: Section) -> ChoiceReader:
        labels: Labels = {}
        if section.resource.is_listed:
            labels = dictionaries.load_labels(connection, section.resource)
        return cls(connection, section, labels)

    def list_choices(self, spec: FormSpec) -> list[Choice]:
        """Return the choices of a field; of a rules field its columns."""
        kind, target = spec.widget.kind, spec.widget.target
        if kind == "destination":
            return self._list_destinations()
        if kind == "rules":
            return [Choice(name, field_labels.label_field(name)) for name in self._list_rule_names(spec)]
        if target:
            return self._list_records(target, spec.widget.target_key)
        return self.list_codes(spec)

    def list_codes(self, spec: FormSpec) -> list[Choice]:
        """Return the codes of a field with labels.

        A single documented code is no choice.
        """
        if spec.field.actual_type == "boolean":
            return []
        record_field = self.section.resource.field(spec.source)
        codes = self.labels.get(spec.name) or field_labels.parse_codes(record_field or spec.field, spec.name)
        return [Choice(code, label) for code, label in codes.items()] if len(codes) > 1 else []

    def list_suggestions(self, spec: FormSpec) -> list[Choice]:
        """Return values of this field in other records, with their meanings."""
        resource = self.section.resource
        field = resource.field(spec.source)
        if not spec.widget.has_suggestions or field is None or field.item_only or not resource.is_listed:
            return []
        values = browse.list_values(self.connection, resource, spec.source)
        return [Choice(value, find_meaning(resource, spec.source, value) or "") for value in values]

    def _list_records(self, collection: str, value_field: str) -> list[Choice]:
        resource = SECTIONS[collection].resource
        query = Query(resource, limit=MAX_CHOICES)
        choices = []
        for row in query.fetch_rows(self.connection):
            values = read_record(row["_doc"]).values
            key = str(values.get(resource.key or "id", ""))
            value = str(values.get(value_field) or "")
            if value:
                choices.append(Choice(value, _label_record(resource, values, key), id=key))
        return sorted(choices, key=lambda choice: choice.label.casefold())

    def _list_destinations(self) -> list[Choice]:
        choices = [Choice(f"{_HANG_UP}:", "Hang up")]
        for code, (collection, label) in field_labels.DESTINATION_TYPES.items():
            if collection:
                heading = label[0].upper() + label[1:]
                choices += [
                    Choice(
                        f"{code}:{one.value}",
                        f"Voicemail of {one.label}" if code == _VOICEMAIL else one.label,
                        heading,
                    )
                    for one in self._list_records(collection, "id")
                ]
        return choices

    def _list_rule_names(self, spec: FormSpec) -> list[str]:
        """Return the names in the rules of stored records.

        The specification does not show them.
        """
        names: dict[str, None] = {}
        for row in Query(self.section.resource, limit=browse.SAMPLE_SIZE).fetch_rows(self.connection):
            rules = read_record(row["_doc"]).values.get(spec.name)
            for rule in rules if isinstance(rules, list) else ():
                names |= dict.fromkeys(rule) if isinstance(rule, dict) else {}
        return list(names)


def list_routed_numbers(section: Section, ddis: Iterable[Mapping[str, Any]]) -> list[str] | None:
    """Return the numbers of `ddis` that are routed to the collection.

    They are E.164 digits. None if the collection has no known code, or a number has an unknown code.
    """
    codes, records = section.destination_codes, list(ddis)
    if not codes or any(str(one.get("target_type")) not in field_labels.DESTINATION_TYPES for one in records):
        return None
    return [str(one["e164"]) for one in records if str(one["target_type"]) in codes and one.get("e164")]


def add_missing(choices: list[Choice], values: Iterable[str]) -> list[Choice]:
    """Add the values of a record that no choice has.

    Saving the form would otherwise remove them.
    """
    present = {choice.value for choice in choices}
    return choices + [Choice(one, one) for one in values if one and one not in present]


def _label_record(resource: Resource, values: Mapping[str, Any], key: str) -> str:
    name = field_labels.record_title(values)
    if resource.collection == "ddis":
        number = formats.national(str(values.get("e164", "")))
        return f"{number} · {name}" if name else number
    extension = values.get("ext") or values.get("number")
    label = name or f"{resource.title} {key}"
    return f"{label} · {extension}" if extension else label
