"""A field's value as people read it: a name for an id, a word for a code, a time in the display zone."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Field, Resource
from integration.core import clock
from integration.core.json_records import Raw
from integration.dashboard.account.sections import RESOURCE
from integration.dashboard.site import formats
from integration.mirror.query import browse
from integration.mirror.records.dictionaries import Labels
from integration.mirror.records.masking import is_secret, masked, without_secrets

Kind = Literal[
    "nothing", "secret", "text", "prose", "number", "yes", "no", "code", "time", "duration", "phone",
    "reference", "call", "list", "object", "colour", "email", "json",
]  # fmt: skip

_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_EMAIL = re.compile(r"[A-Za-z0-9._+'-]{1,64}@[A-Za-z0-9.-]{1,189}")
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """What a template writes. `text` is what people read, `raw` the value as received where that differs,
    `href` a page of ours, `parts` what a list or an object holds (label, value)."""

    kind: Kind
    text: str = ""
    raw: str = ""
    href: str | None = None
    title: str = ""
    parts: tuple[tuple[str, Shown], ...] = ()


NOTHING = Shown("nothing")


@dataclass(slots=True)
class Names:
    """Names of the records that a page refers to, read in one query per collection.

    `visible` says of a collection whether the person may open it; others are named without a link.
    """

    connection: sqlite3.Connection
    visible: Callable[[str], bool]
    _known: dict[tuple[str, str], dict[str, dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _asked: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def prepare(self, resource: Resource, records: Iterable[Mapping[str, Any]]) -> None:
        """Read what `records` refer to."""
        wanted: dict[tuple[str, str], set[str]] = defaultdict(set)
        for values in records:
            for name, value in values.items():
                for collection, by in targets(resource, name, values):
                    wanted[collection, by].update(browse.references(value))
        for (collection, by), keys in wanted.items():
            missing = keys - self._asked[collection, by]
            if missing:
                self._asked[collection, by] |= missing
                self._known[collection, by] |= browse.named(
                    self.connection, RESOURCE[collection], by, missing
                )

    def find(self, collection: str, by: str, key: str) -> dict[str, Any] | None:
        return self._known[collection, by].get(key)


def targets(resource: Resource, name: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(collection, field) by which the value of `name` names a record; several where it may be either."""
    relation = next((row for row in resource.relations if row.name == name), None)
    found: list[tuple[str, str]] = []
    if relation is not None and relation.to != "calls":
        found = [(relation.to, "id")] + ([("ddis", "e164")] if relation.to == "ddis" else [])
    elif name in words_of.DESTINATIONS:
        kind = values.get(words_of.DESTINATIONS[name])
        found = [(words_of.DESTINATION_TYPES.get(str(kind), ("", ""))[0], "id")]
    elif name in words_of.SOFT and relation is None:
        found = [(words_of.SOFT[name], "id")]
    return [(collection, by) for collection, by in found if collection in RESOURCE]


@dataclass(frozen=True, slots=True)
class Reader:
    """Shows the values of one collection's records."""

    resource: Resource
    names: Names
    labels: Labels = field(default_factory=dict)

    def show(self, name: str, values: Mapping[str, Any]) -> Shown:
        """The value of field `name` among the record's `values`."""
        value = values.get(name)
        if is_secret(name):
            # That a PIN is set may be known; how long it is may not.
            return NOTHING if value in (None, "") else Shown("secret")
        if value is None or value in ("", [], {}):
            return NOTHING
        known = self._reference(name, value, values) or self._coded(name, value)
        return known or self._plain(name, value, self.resource.field(name))

    def _reference(self, name: str, value: Any, values: Mapping[str, Any]) -> Shown | None:
        relation = next((row for row in self.resource.relations if row.name == name), None)
        if relation is not None and relation.to == "calls":
            return _call(value)
        found = targets(self.resource, name, values)
        if not found:
            return None
        listed = value if isinstance(value, list) else [value]
        shown = [self._one(found, item, sure=relation is not None) for item in listed]
        if any(item is None for item in shown):
            return None
        if not isinstance(value, list):
            return shown[0]
        return Shown("list", parts=tuple(("", item) for item in shown if item is not None))

    def _one(self, found: list[tuple[str, str]], item: Any, *, sure: bool) -> Shown | None:
        keys = browse.references(item)
        if len(keys) != 1:
            return None
        for collection, by in found:
            record = self.names.find(collection, by, keys[0])
            if record is not None:
                resource = RESOURCE[collection]
                href = f"/account/{collection}/{record.get(resource.key or '', keys[0])}"
                text = words_of.title_of(record) or keys[0]
                if collection == "ddis":
                    text = formats.national(str(record.get("e164", text)))
                off = " (off)" if isinstance(item, dict) and item.get("status") in (False, 0) else ""
                return Shown(
                    "reference", text + off, keys[0], href if self.names.visible(collection) else None
                )
        if found[0][0] == "ddis":
            return self._phone(keys[0])
        return Shown("text", keys[0], title="not among the mirrored records") if sure else None

    def _coded(self, name: str, value: Any) -> Shown | None:
        if isinstance(value, list | dict | bool):
            return None
        told = self._told(name, str(value))
        return Shown("code", told, str(value)) if told else None

    def _told(self, name: str, code: str) -> str | None:
        dictionary = self.labels.get(name, {})
        return dictionary.get(code) or words_of.codes(self.resource.field(name), name).get(code)

    def word(self, name: str, code: str) -> str:
        """What a code of the field means, else the code."""
        return self._told(name, code) or code

    def _plain(self, name: str, value: Any, about: Field | None) -> Shown:
        if isinstance(value, Raw):
            return Shown("json", masked(value.encode("utf-8", "surrogatepass")).decode())
        if isinstance(value, list | dict):
            return self._nested(name, value, 0)
        if isinstance(value, bool):
            return _truth(value)
        if about is not None and about.real_type == "boolean" and value in (0, 1, "0", "1", "true", "false"):
            return _truth(value in (1, "1", "true"))
        if words_of.is_time(self.resource, name) or name in words_of.UNIX_TIMES:
            return _time(name, value)
        if isinstance(value, int | float):
            return _number(name, value)
        text = str(value)
        if name in words_of.SECONDS and text.isdecimal():
            return Shown("number", f"{text} s", text)
        if name in words_of.PHONES:
            return self._phone(text)
        if _COLOUR.fullmatch(text):
            return Shown("colour", text)
        if _EMAIL.fullmatch(text):
            return Shown("email", text)
        return Shown("prose" if name in words_of.LONG or "\n" in text else "text", text)

    def _phone(self, text: str) -> Shown:
        return Shown("phone", formats.national(text), text, title=formats.international(text))

    def _nested(self, name: str, value: Any, depth: int) -> Shown:
        if depth >= _DEEPEST:
            return Shown("json", json.dumps(without_secrets(value), ensure_ascii=False))
        if isinstance(value, list):
            return Shown("list", parts=tuple(("", self._inner(name, item, depth)) for item in value))
        return Shown(
            "object",
            parts=tuple(
                (words_of.label(str(key)), self._inner(str(key), item, depth)) for key, item in value.items()
            ),
        )

    def _inner(self, name: str, item: Any, depth: int) -> Shown:
        if is_secret(name):
            return NOTHING if item in (None, "") else Shown("secret")
        if item is None or item in ("", [], {}):
            return NOTHING
        if isinstance(item, list | dict):
            return self._nested(name, item, depth + 1)
        return self._plain(name, item, None)


def _truth(value: bool) -> Shown:
    return Shown("yes", "Yes") if value else Shown("no", "No")


def _call(value: Any) -> Shown:
    keys = browse.references(value)
    if len(keys) == 1 and keys[0].isdecimal() and keys[0] != "0":
        return Shown("call", keys[0], href=f"/calls/{keys[0]}")
    return Shown("text", str(value)) if keys else NOTHING


def _time(name: str, value: Any) -> Shown:
    """In the display zone, as received (UTC) on hover; what is no time as it came."""
    stamp = value if isinstance(value, str) else None
    if isinstance(value, int | float) and name in words_of.UNIX_TIMES and 0 < value < 4e9:
        stamp = clock.stamp(float(value))
    if clock.parse_stamp(stamp) is None:
        return Shown("number" if isinstance(value, int | float) else "text", str(value))
    return Shown("time", formats.at_full(stamp), str(stamp), title=f"{stamp} UTC")


def _number(name: str, value: int | float) -> Shown:
    raw = repr(value)
    if name in words_of.DURATIONS:
        return Shown("duration", formats.duration(value), raw, title=f"{raw} s")
    if name in words_of.SECONDS:
        return Shown("number", f"{raw} s", raw)
    if name in words_of.BYTES:
        return Shown("number", formats.size(value), raw, title=f"{raw} bytes")
    return Shown("number", raw)
