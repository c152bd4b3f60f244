"""What is known no longer of numbers that were erased, and the doors that keep it out.

A number is known by a keyed hash of its digits only. Records and webhooks that name it and are dated before
its erasure are stripped before they are stored: what stays is what counts a call – ids, times, durations,
codes, numbers of ours – with `erased` in the place of the number and nothing in the place of names and texts.
What is dated later is another story, and kept whole.
"""

from __future__ import annotations

import hmac
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from integration.catalogue import HISTORY, RESOURCES
from integration.catalogue.events import EVENT_FIELDS
from integration.catalogue.field_meanings import list_meanings
from integration.catalogue.shapes import Field, Meaning, Resource
from integration.core import clock, json_records
from integration.core.errors import PlatformBroken
from integration.core.ids import as_id
from integration.core.json_records import JsonRecord, RawJson, read_record, serialize_values
from integration.core.number_variants import ERASED, Finder
from integration.core.phone_numbers import parse_clid_number
from integration.mirror.sync_state.media_files import MediaKind, get_record_table
from integration.sqlite.database import Database

LEGS_KEY = "legs"
"""Among the erased records: legs, by number, of which webhooks may come again."""

PERSON_TABLES = frozenset({"contacts"})
"""Tables whose record is about the person alone: it goes as a whole."""

OWN_NUMBER_TABLES = frozenset({"ddis", "users", "me"})
"""Tables whose numbers are ours."""

_NUMBER_MEANINGS = ("phone", "extension")
_KEPT_MEANINGS = (*_NUMBER_MEANINGS, "code", "open_code")
_ID_FIELD = re.compile(r"(^|_)(id|ids|seq)$")

NumberMatcher = Callable[[str], bool]


def is_history(resource: Resource) -> bool:
    """Whether its records tell what happened, rather than how something is set up."""
    return resource.key is None or resource.collection in _EVENTS


_EVENTS = HISTORY | {"calls"}
"""A live call names a caller as history does. It is not history: when it ends, its record is hidden."""


def strip_record(record: JsonRecord, fields: Iterable[Field], contains_number: NumberMatcher) -> JsonRecord:
    """The record with what counts, and nothing of the person. `fields` are its documented ones."""
    meanings = list_meanings(fields)
    values = {
        name: _strip_value(name, meanings.get(name), value, contains_number)
        for name, value in record.values.items()
    }
    return JsonRecord(serialize_values(values), values)


def _strip_value(name: str, meaning: Meaning | None, value: Any, contains_number: NumberMatcher) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if meaning in _NUMBER_MEANINGS and contains_number(str(value)):
            return ERASED
        return _strip_number(name, value, contains_number)
    if not isinstance(value, str) or isinstance(value, RawJson):
        return None
    if contains_number(value):
        return ERASED if meaning in _NUMBER_MEANINGS else None
    if meaning == "caller_id":
        return value if parse_clid_number(value) and not re.search(r"[^\W\d_]", value) else None
    is_id = _ID_FIELD.search(name) and "contact" not in value.casefold()
    return value if meaning in _KEPT_MEANINGS or is_id or clock.parse_utc(value) is not None else None


def _strip_number(name: str, value: float, contains_number: NumberMatcher) -> Any:
    return None if not _ID_FIELD.search(name) and contains_number(str(value)) else value


def remove_number(text: str, finder: Finder[Any]) -> str:
    """Any text without the number: JSON stays JSON, where a string or key that names it is `erased` as a
    whole, and a number null."""
    if text[:1] in ("{", "["):
        try:
            return json_records.replace_values(text, finder.contains_number, ERASED, _ID_FIELD)
        except PlatformBroken:
            pass
    return finder.replace_numbers(text, ERASED)


def remove_number_from_bytes(body: bytes, finder: Finder[Any]) -> bytes:
    """Bytes that are no JSON object, without the number."""
    return finder.replace_numbers(body.decode("latin-1"), ERASED).encode("latin-1")


class ErasureGate:
    """The erasures in force. `key` is None where data_dir has lost it: then only what was found at the time
    is known, by its id. Thread-safe: what is added is swapped in whole."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._erased_at: dict[bytes, str] = {}
        self._lengths: set[int] = set()
        self._finder: Finder[str] = Finder((), lambda _digits: None)
        self.record_keys: dict[str, set[Any]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._erased_at)

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def set_key(self, key: bytes) -> None:
        """The first erasure made one."""
        self._key = key

    def digest(self, digits: str) -> bytes:
        """What stands for the digits in house.db. Raises ValueError without a key."""
        if self._key is None:
            raise ValueError("there is no key")
        return hmac.digest(self._key, digits.encode(), "sha256")[:16]

    def add(
        self,
        erased_at: str,
        digests: Iterable[bytes],
        lengths: Iterable[int],
        records: Iterable[tuple[str, Any]],
    ) -> None:
        """A number erased at `erased_at` (UTC text), and the records that told of it: (table, key)."""
        for table, key in records:
            self.record_keys[table].add(key)
        erased_at_by_digest = self._erased_at | {
            digest: max(erased_at, self._erased_at.get(digest, "")) for digest in digests
        }
        self._erased_at, self._lengths = erased_at_by_digest, self._lengths.union(lengths)
        if self._key is not None:
            # The numbers of an office repeat.
            find_erased_at = lru_cache(maxsize=50_000)(
                lambda digits: erased_at_by_digest.get(self.digest(digits))
            )
            self._finder = Finder(self._lengths, find_erased_at)

    def _contains_number(self, text: str) -> bool:
        return self._finder.contains_number(text)

    def _contains_number_erased_after(self, text: str, recorded_at: object) -> bool:
        """Whether it names a number that was erased later than `recorded_at`, UTC text; None: whenever."""
        return any(
            not isinstance(recorded_at, str) or recorded_at <= erased_at
            for _, _, erased_at in self._finder.find(text)
        )

    # --- doors -------------------------------------------------------------------------------------

    def install(self, mirror_db: Database) -> None:
        """From now on let nothing into `mirror_db` that was erased. Safe to call again."""
        for resource in RESOURCES:
            previous_gate = mirror_db.gates.get(resource.table)
            if not isinstance(previous_gate, _TableGate):
                mirror_db.gates[resource.table] = _TableGate(self, resource, previous_gate)
        mirror_db.gates["_below"] = self._filter_subresource
        mirror_db.gates["_answers"] = self._filter_response

    def filter_record(self, resource: Resource, record: JsonRecord) -> JsonRecord | None:
        """What of a record may be stored."""
        is_erased = record.values.get(resource.key or "") in self.record_keys.get(resource.table, ())
        if not is_erased:
            if resource.key is not None and (resource.date is None or not is_history(resource)):
                # What has no date can only be known by its id: it was entered, or began, since.
                return record
            if not self._contains_number_erased_after(record.text, record.values.get(resource.date or "")):
                return record
        if resource.table in PERSON_TABLES:
            return None
        if is_history(resource):
            return strip_record(record, resource.fields, self._contains_number)
        return read_record(remove_number(record.text, self._finder))

    def filter_webhook(self, body: bytes) -> bytes:
        """A webhook's body as it may be stored."""
        if not self:
            return body
        try:
            event = read_record(body.decode("utf-8-sig"))
        except (UnicodeDecodeError, PlatformBroken):
            return remove_number_from_bytes(body, self._finder)
        event_time = event.values.get("event_time")
        is_erased = self._is_erased_leg(event.values.get("call_id")) or self._contains_number_erased_after(
            event.text, event_time
        )
        return strip_record(event, EVENT_FIELDS, self._contains_number).text.encode() if is_erased else body

    def is_file_erased(self, connection: sqlite3.Connection, kind: MediaKind, record_id: int) -> bool:
        """Whether a file belongs to a record that was erased, or came stripped since."""
        if not self:
            return False
        table = get_record_table(kind)
        if record_id in self.record_keys.get(table, ()):
            return True
        row = connection.execute(f"SELECT _doc FROM {table} WHERE id = ?", (record_id,)).fetchone()
        return row is not None and f'"{ERASED}"' in row[0]

    def _is_erased_leg(self, leg: object) -> bool:
        return as_id(leg) in self.record_keys.get(LEGS_KEY, ())

    def _filter_subresource(self, entry: tuple[str, Any, str | None]) -> str | None:
        collection, key, doc = entry
        table = collection.replace("/", "_")
        return (
            None
            if doc is None or key in self.record_keys.get(table, ())
            else remove_number(doc, self._finder)
        )

    def _filter_response(self, body: bytes) -> bytes | None:
        return None if self._contains_number(body.decode("utf-8", "replace")) else body


class _TableGate:
    """Before a table: what was there before first, then ours."""

    def __init__(
        self,
        erasure_gate: ErasureGate,
        resource: Resource,
        previous_gate: Callable[[JsonRecord], JsonRecord | None] | None,
    ) -> None:
        self._erasure_gate, self._resource, self._previous_gate = erasure_gate, resource, previous_gate

    def __call__(self, record: JsonRecord) -> JsonRecord | None:
        filtered = record if self._previous_gate is None else self._previous_gate(record)
        return None if filtered is None else self._erasure_gate.filter_record(self._resource, filtered)
