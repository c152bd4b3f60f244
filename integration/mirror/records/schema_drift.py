"""Schema drift: undocumented fields, other types and new codes in records.

Records with drift are stored like others. Each difference is stored once, with the times of its first and
last occurrence, so that users learn of changes of the platform. Collections without documented records
are excluded, because every field of them is undocumented.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from integration.catalogue import RESOURCES
from integration.catalogue.events import EVENTS
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Field, FieldType, Resource
from integration.core import clock
from integration.core.json_records import JsonRecord, RawJson
from integration.core.timestamps import parse_seconds
from integration.mirror.records.masking import has_secrets
from integration.mirror.records.rows import UpsertResult
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _drift (
    collection TEXT NOT NULL,
    field TEXT NOT NULL,
    what TEXT NOT NULL,
    value TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    expected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, field, what, value)
) STRICT, WITHOUT ROWID;
"""

DriftKind = Literal["field", "type", "code"]
_Drift = tuple[str, DriftKind, str]

_WATCHED_MEANINGS = ("code", "choice")

_TYPES: Mapping[FieldType, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "timestamp": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_DIGITS = re.compile(r"[0-9]+")
_TIME_CHARACTERS = re.compile(r"[0-9 TZ:.,/+-]+")
_ABSENT: Any = ()

EVENT_PREFIX = "webhook "
"""Prefix of the event's name in `_drift.collection`, for drift of webhooks."""

LAST_SEEN_INTERVAL_SECONDS = 3600.0
"""Minimum seconds between two updates of `last_seen` of one difference."""
MAX_CACHED = 5000
"""Record shapes that the cache of one collection holds. A full cache is cleared."""
FIRST_YEAR, LAST_YEAR = "2001", "2099"
"""Years of usual dates. Others, such as 0001 and 9999, take the place of an unknown date."""
MAX_VALUE_LENGTH = 80
"""Characters stored of a field name or code."""


@dataclass(frozen=True, slots=True)
class DriftEntry:
    """One difference between records and their documentation.

    `collection`: path of the collection, or EVENT_PREFIX and the name of an event. `kind`: 'field' – `field`
    is undocumented and has type `value`; 'type' – `field` has type `value` instead of its documented type, or
    is the date of its collection in another form, `value` (digits as #);
    'code' – `field` has the new code `value` (digits as #). Times are UTC text.
    """

    collection: str
    field: str
    kind: DriftKind
    value: str
    first_seen: str
    last_seen: str


def list_drift(connection: sqlite3.Connection, limit: int = 200) -> list[DriftEntry]:
    """Return the stored differences, newest first occurrence first.

    Documented codes and codes of the initial sync are excluded.
    """
    rows = connection.execute(
        "SELECT collection, field, what, value, first_seen, last_seen FROM _drift WHERE NOT expected "
        "ORDER BY first_seen DESC, collection, field LIMIT ?",
        (limit,),
    )
    return [DriftEntry(*row) for row in rows]


def may_contain_secrets(connection: sqlite3.Connection, resource: Resource) -> bool:
    """Return whether records of `resource` can contain a secret.

    The catalogue and the schema drift of the collection decide. Searching every record would cost several
    times as much as reading a page of CDRs.
    """
    if (
        has_secrets(resource)
        or not _is_watched(resource)
        or any(relation.is_list and relation.target_collection == "users" for relation in resource.relations)
    ):
        return True
    rows = connection.execute(
        "SELECT field, value FROM _drift WHERE collection = ? AND what <> 'code'", (resource.collection,)
    )
    return any(is_secret(name) or value in ("array", "object") for name, value in rows)


def _is_watched(resource: Resource) -> bool:
    return resource.is_listed and len(resource.fields) > 1


@dataclass(frozen=True, slots=True)
class RejectedRecords:
    """Records without a row in `table`, such as records without usable key.

    `records`: how many are stored as received in `_flagged`. `last_at`: UTC time of the last one, as text.
    """

    table: str
    reason: str
    records: int
    last_at: str


def list_rejected(connection: sqlite3.Connection) -> list[RejectedRecords]:
    """Return the rejected records, counted by table and reason."""
    rows = connection.execute(
        "SELECT table_name, reason, count(*), max(at) FROM _flagged GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [RejectedRecords(*row) for row in rows]


IsComplete = Callable[[Transaction, str], bool]
"""Return whether a collection was ever read completely.

Undocumented codes of the initial sync are not drift.
"""


def register_hooks(mirror_db: Database, is_complete: IsComplete) -> None:
    """Register hooks that check every inserted or updated record for drift."""
    for resource in RESOURCES:
        if _is_watched(resource):
            detector = _DriftDetector(resource.collection, resource.fields, resource.date, is_complete)
            mirror_db.hooks.setdefault(resource.table, []).append(detector.check_changed)


class EventDriftDetector:
    """Detector of drift in webhooks.

    Codes of fields without documented codes are never drift: in webhooks they are open sets.
    """

    def __init__(self) -> None:
        self._detectors = {
            event.name: _DriftDetector(f"{EVENT_PREFIX}{event.name}", event.fields, "event_time")
            for event in EVENTS
        }

    def check_events(self, tx: Transaction, events: Iterable[tuple[str | None, JsonRecord]]) -> None:
        """Store the drift of events, given by name and body.

        Call this method in the transaction that applies the events.
        """
        records_by_event = defaultdict[str | None, list[JsonRecord]](list)
        for name, record in events:
            records_by_event[name].append(record)
        for name in self._detectors.keys() & records_by_event.keys():
            self._detectors[name].check_records(tx, records_by_event[name])


class _DriftDetector:
    """Detector of drift in one collection or event, for the writer thread."""

    def __init__(
        self,
        name: str,
        fields: Sequence[Field],
        date: str | None,
        is_complete: IsComplete = lambda _tx, _collection: False,
    ) -> None:
        self._name = name
        self._is_complete = is_complete
        self._fields = {field.name: field for field in fields}
        self._date = date
        self._coded_fields = [field.name for field in fields if field.meaning in _WATCHED_MEANINGS]
        self._drift_by_shape: dict[tuple[tuple[str, ...], tuple[type, ...]], list[_Drift]] = {}

    def check_changed(self, tx: Transaction, result: UpsertResult) -> None:
        """Check inserted and updated records."""
        self.check_records(tx, result.changed)

    def check_records(self, tx: Transaction, records: Sequence[JsonRecord]) -> None:
        """Store the drift of `records`."""
        drift = set(self._find_drift(records))
        if drift:
            self._store_drift(tx, drift)

    def _find_drift(self, records: Iterable[JsonRecord]) -> Iterable[_Drift]:
        # Most records have the same fields and types. Checking each field of each record would slow the
        # initial sync down.
        record_values = [record.values for record in records]
        shapes = {(tuple(values), tuple(map(type, values.values()))): values for values in record_values}
        if any(RawJson in kinds for _, kinds in shapes):
            # The type of an unparsed value depends on its text, so the cache by Python types does not apply.
            for values in record_values:
                if RawJson in map(type, values.values()):
                    yield from self._find_shape_drift(values)
        for shape, values in shapes.items():
            if RawJson in shape[1]:
                continue
            shape_drift = self._drift_by_shape.get(shape)
            if shape_drift is None:
                if len(self._drift_by_shape) >= MAX_CACHED:
                    self._drift_by_shape.clear()
                shape_drift = self._drift_by_shape[shape] = list(self._find_shape_drift(values))
            yield from shape_drift
        if self._date is not None:
            for values in record_values:
                if (form := _find_unusual_form(values.get(self._date, _ABSENT))) is not None:
                    yield self._date, "type", form
        for name in self._coded_fields:
            codes = [values.get(name) for values in record_values]
            for code in {code for code in codes if code.__class__ is str or code.__class__ is int}:
                if code != "":
                    value = _DIGITS.sub("#", code)[:MAX_VALUE_LENGTH] if isinstance(code, str) else str(code)
                    yield name, "code", value

    def _find_shape_drift(self, values: Mapping[str, Any]) -> Iterable[_Drift]:
        for name, value in values.items():
            field = self._fields.get(name)
            if field is None:
                yield name[:MAX_VALUE_LENGTH], "field", _TYPE_NAMES.get(_get_json_type(value), "null")
            elif value is not None and not _matches_type(field, _get_json_type(value)):
                yield name, "type", _TYPE_NAMES.get(_get_json_type(value), "odd")

    def _store_drift(self, tx: Transaction, drift: set[_Drift]) -> None:
        now, updated_before = clock.utc_text(), clock.utc_text(clock.unix() - LAST_SEEN_INTERVAL_SECONDS)
        is_first_sync = not self._is_complete(tx, self._name)
        tx.executemany(
            "INSERT INTO _drift VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) ON CONFLICT DO UPDATE SET"
            " last_seen = excluded.last_seen WHERE last_seen <= ?7",
            [
                (self._name, *entry, now, self._is_expected(*entry, is_first_sync), updated_before)
                for entry in drift
            ],
        )

    def _is_expected(self, name: str, kind: DriftKind, value: str, is_first_sync: bool) -> bool:
        if kind != "code":
            return False
        documented_codes = self._fields[name].codes
        return value in documented_codes if documented_codes else is_first_sync


_USUAL_DATE = re.compile(
    r"20(?:0[1-9]|[1-9][0-9])-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r" (?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}"
)
"""Most dates. To parse each one takes four times as long as to match it."""


def _find_unusual_form(date: object) -> str | None:
    """Return the form of a date, such as '####-##-##T##:##:##Z', '0001-##-## ##:##:##', 'null' or 'text'.

    None for 'YYYY-MM-DD HH:MM:SS' with a usual year, and for another type, which is drift of its own.
    """
    if not isinstance(date, str):
        return "null" if date is None else None
    if _USUAL_DATE.fullmatch(date):
        return None
    if len(date) == len("2026-07-01 09:15:00") and date[10] == " " and parse_seconds(date) is not None:
        return None if FIRST_YEAR <= date[:4] <= LAST_YEAR else f"{date[:4]}-##-## ##:##:##"
    if not date:
        return "empty"
    if _TIME_CHARACTERS.fullmatch(date) is None:
        return "text"
    is_zero = set("123456789").isdisjoint(date)
    return (date if is_zero else re.sub("[0-9]", "#", date))[:MAX_VALUE_LENGTH]


def _get_json_type(value: object) -> type:
    """Return the Python type of a JSON value, parsed or not."""
    if isinstance(value, RawJson):
        return {"{": dict, "[": list}.get(value[:1], int)
    return type(value)


def _matches_type(field: Field, json_type: type) -> bool:
    for type_name in {field.type, field.actual_type}:
        python_types = _TYPES.get(type_name)
        if python_types is None or (
            issubclass(json_type, python_types) and (type_name == "boolean" or json_type is not bool)
        ):
            return True
    return False
