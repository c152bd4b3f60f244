"""Erasure gate: strip records of erased numbers before storing them.

Only a keyed hash of the digits of an erased number is stored. Records and webhooks that contain the
number and are dated before its erasure are stripped. Ids, times, durations, codes and the account's own
numbers stay, so that calls are counted. The number is replaced by `erased`; names and texts become null.
Records with a later date are stored unchanged.
"""

from __future__ import annotations

import hmac
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from integration.catalogue import HISTORY, RESOURCES
from integration.catalogue.events import EVENT_FIELDS
from integration.catalogue.field_meanings import list_meanings
from integration.catalogue.shapes import Field, Meaning, Resource
from integration.core import clock, json_records
from integration.core.errors import PlatformBroken
from integration.core.ids import as_id
from integration.core.json_records import (
    JsonRecord,
    RawJson,
    read_record,
    read_record_bytes,
    serialize_values,
)
from integration.core.number_variants import ERASED, Finder
from integration.core.phone_numbers import parse_clid_number
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records.upsert import get_usable_key
from integration.mirror.sync_state.media_files import MediaKind, get_record_table
from integration.settings.data_dir_secrets import load_erasure_key
from integration.sqlite.database import Database
from integration.sqlite.transaction import Gate

LEGS_KEY = "legs"
"""Key of the erased leg ids in `ErasureGate.record_keys`.

The platform can resend webhooks of these legs.
"""

PERSON_TABLES = frozenset({"contacts"})
"""Tables of records about one person, which are deleted completely."""

OWN_NUMBER_TABLES = frozenset({"ddis", "users", "me"})
"""Tables with the account's own numbers."""

_NUMBER_MEANINGS = ("phone", "extension")
_KEPT_MEANINGS = (*_NUMBER_MEANINGS, "code", "open_code")
_ID_FIELD = re.compile(r"(^|_)(id|ids|seq)$")

NumberMatcher = Callable[[str], bool]


def is_history(resource: Resource) -> bool:
    """Return whether records of `resource` are history, not configuration.

    Collections without keys are treated as history.
    """
    return resource.key is None or resource.collection in _EVENTS


_EVENTS = HISTORY | {"calls"}
"""Collections stripped like history.

Live calls contain callers as history does. They are not in HISTORY, because their record is hidden at
their end.
"""


def strip_record(record: JsonRecord, fields: Iterable[Field], contains_number: NumberMatcher) -> JsonRecord:
    """Return the record without personal data.

    `fields`: documented fields of the record. `contains_number`: predicate for texts with an erased number.
    """
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
        return None if not _ID_FIELD.search(name) and contains_number(str(value)) else value
    if not isinstance(value, str) or isinstance(value, RawJson):
        return None
    if contains_number(value):
        return ERASED if meaning in _NUMBER_MEANINGS else None
    if meaning == "caller_id":
        return value if parse_clid_number(value) and not re.search(r"[^\W\d_]", value) else None
    is_id = _ID_FIELD.search(name) and "contact" not in value.casefold()
    return value if meaning in _KEPT_MEANINGS or is_id or clock.parse_utc(value) is not None else None


def remove_number(text: str, finder: Finder[Any]) -> str:
    """Return `text` without the number.

    In JSON, every string or key that contains the number becomes `erased`, and a number becomes null. In
    other texts only the number is replaced.
    """
    if text[:1] in ("{", "["):
        try:
            return json_records.replace_values(text, finder.contains_number, ERASED, _ID_FIELD)
        except PlatformBroken:
            pass
    return finder.replace_numbers(text, ERASED)


class ErasureGate:
    """All erasures of this data_dir.

    `key`: key of the hashes, None if the file `erasure-key` is missing. Records are then recognized only by
    the ids stored at the erasure. `held_records`: records under legal hold pass unchanged, unless they were
    erased before the hold. Thread-safe: `add` replaces its data atomically.
    """

    def __init__(self, key: bytes | None, held_records: HeldRecords | None = None) -> None:
        self._key = key
        self._held_records = HeldRecords() if held_records is None else held_records
        self._erased_at: dict[bytes, str] = {}
        self._lengths: set[int] = set()
        self._finder: Finder[str] = Finder((), lambda _digits: None)
        self.record_keys: dict[str, set[Any]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._erased_at)

    @property
    def has_key(self) -> bool:
        """Return whether the file `erasure-key` is loaded, with which numbers are hashed."""
        return self._key is not None

    def create_key(self, data_dir: Path) -> None:
        """Load the key that the first erasure or opt-out creates. Raises SwitchroomError."""
        if self._key is None:
            self._key = load_erasure_key(data_dir, create=True)

    def digest(self, digits: str) -> bytes:
        """Return the hash of the digits, as stored in house.db.

        Raises ValueError without a key.
        """
        if self._key is None:
            raise ValueError("The erasure key is not loaded. Restore the file erasure-key in data_dir.")
        return hmac.digest(self._key, digits.encode(), "sha256")[:16]

    def add(
        self,
        erased_at: str,
        digests: Iterable[bytes],
        lengths: Iterable[int],
        records: Iterable[tuple[str, Any]],
    ) -> None:
        """Add an erasure.

        `erased_at`: its time (UTC text). `digests`, `lengths`: hash and number of digits of each spelling of
        the number. `records`: (table, key) of the records with the number.
        """
        for table, key in records:
            self.record_keys[table].add(key)
        erased_at_by_digest = self._erased_at | {
            digest: max(erased_at, self._erased_at.get(digest, "")) for digest in digests
        }
        self._erased_at, self._lengths = erased_at_by_digest, self._lengths.union(lengths)
        if self._key is not None:
            # The cache pays because an office uses the same numbers repeatedly.
            find_erased_at = lru_cache(maxsize=50_000)(
                lambda digits: erased_at_by_digest.get(self.digest(digits))
            )
            self._finder = Finder(self._lengths, find_erased_at)

    def _contains_number_erased_after(self, text: str, recorded_at: object) -> bool:
        """Return whether `text` contains a number erased at or after `recorded_at`.

        `recorded_at` is UTC text. Without it, any erased number counts.
        """
        return any(
            not isinstance(recorded_at, str) or recorded_at <= erased_at
            for _, _, erased_at in self._finder.find(text)
        )

    # --- gates -------------------------------------------------------------------------------------

    def install(self, mirror_db: Database) -> None:
        """Install the gates of all tables in `mirror_db`, once and after those of retention."""
        for resource in RESOURCES:
            previous_gate = mirror_db.gates.get(resource.table)
            mirror_db.gates[resource.table] = partial(self._filter_record, resource, previous_gate)
        previous_gate = mirror_db.gates.get("_below")
        mirror_db.gates["_below"] = partial(self._filter_subresource, mirror_db, previous_gate)
        mirror_db.gates["_answers"] = self._filter_response

    def _filter_record(
        self, resource: Resource, previous_gate: Gate | None, record: JsonRecord
    ) -> JsonRecord | None:
        kept = record if previous_gate is None else previous_gate(record)
        return kept if kept is None or not self else self.filter_record(resource, kept)

    def _filter_subresource(
        self, mirror_db: Database, previous_gate: Gate | None, entry: tuple[str, int, str | None]
    ) -> str | None:
        collection, key, doc = entry
        if previous_gate is not None:
            doc = previous_gate(entry)
        if doc is None or not self:
            return doc
        table = collection.replace("/", "_")
        if key in self.record_keys.get(table, ()):
            return None
        filtered = doc if self._held_records.is_text_held(doc) else remove_number(doc, self._finder)
        if filtered == doc:
            return doc
        with mirror_db.read() as connection:
            return doc if self._held_records.is_row_held(connection, table, key) else filtered

    def filter_record(self, resource: Resource, record: JsonRecord) -> JsonRecord | None:
        """Return the record as it may be stored; None to drop it."""
        is_erased = get_usable_key(resource, record) in self.record_keys.get(resource.table, ())
        if not is_erased:
            if resource.key is not None and (resource.date is None or not is_history(resource)):
                # Records without a date are recognized by their id only. Other ids were created after the
                # erasure.
                return record
            recorded_at = record.values.get(resource.date or "")
            if not self._contains_number_erased_after(record.text, recorded_at) or (
                self._held_records.is_record_held(record)
            ):
                return record
        if resource.table in PERSON_TABLES:
            return None
        if is_history(resource):
            return strip_record(record, resource.fields, self._finder.contains_number)
        return read_record(remove_number(record.text, self._finder))

    def filter_webhook(self, body: bytes) -> bytes:
        """Return the body of a webhook as it may be stored."""
        if not self:
            return body
        try:
            event = read_record_bytes(body)
        except PlatformBroken:
            if self._held_records.is_webhook_held(None, body):
                return body
            return self._finder.replace_numbers_in_bytes(body, ERASED)
        event_time, call_id = event.values.get("event_time"), event.values.get("call_id")
        is_erased = as_id(call_id) in self.record_keys.get(LEGS_KEY, ()) or (
            self._contains_number_erased_after(event.text, event_time)
            and not self._held_records.is_webhook_held(call_id, body)
        )
        if not is_erased:
            return body
        return strip_record(event, EVENT_FIELDS, self._finder.contains_number).text.encode()

    def is_file_erased(self, connection: sqlite3.Connection, kind: MediaKind, record_id: int) -> bool:
        """Return whether the record of a file was erased, or stripped later."""
        if not self:
            return False
        table = get_record_table(kind)
        if record_id in self.record_keys.get(table, ()):
            return True
        row = connection.execute(f"SELECT _doc FROM {table} WHERE id = ?", (record_id,)).fetchone()
        return row is not None and f'"{ERASED}"' in row[0]

    def _filter_response(self, body: bytes) -> bytes | None:
        return None if self and self._finder.contains_number_in_bytes(body) else body
