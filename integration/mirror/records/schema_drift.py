"""How the platform's records depart from what is documented: unknown fields, other types, new codes.

Nothing is refused for it; each departure is noted once, with when it was first and last seen, so that people
learn of a change of the platform's before they miss something. Collections whose records nobody has shown
are left out: there everything is new.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from integration.catalogue import RESOURCES
from integration.catalogue.events import EVENTS, NAME_FIELDS
from integration.catalogue.shapes import Field, Resource, Type
from integration.core import clock
from integration.core.json_records import Document, Raw, read_object
from integration.mirror.records.masking import has_secrets, is_secret
from integration.sqlite.database import Database
from integration.sqlite.transaction import Hook, Transaction

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

What = Literal["field", "type", "code"]
_Found = tuple[str, What, str]

CODED = frozenset(
    {
        "action",
        "context",
        "destination",
        "direction",
        "disposition",
        "final_dst_type",
        "flag",
        "fm_cli",
        "fm_final_dst_type",
        "fm_strategy",
        "folder",
        "format",
        "monitor",
        "monitor_state",
        "result",
        "ring_strategy",
        "sentiment",
        "state",
        "status",
        "strategy",
        "target_type",
        "transfer_cli",
        "two_factor_auth",
        "type",
    }
)
"""Fields whose values are codes, by name: the specification marks none, but tells of these that they are."""

DOCUMENTED: Mapping[tuple[str, str], frozenset[str]] = {
    ("cdrs", "type"): frozenset("OIM"),
    ("cdrs", "disposition"): frozenset({"INITIAL", "RINGING", "CONNECTED", "ON_HOLD", "VM"}),
    ("cdrs", "destination"): frozenset({"in", "out", "webcall", "callmeback"}),
    ("users", "final_dst_type"): frozenset("UVRIQCH"),
    ("users", "fm_final_dst_type"): frozenset("UVRIQCH"),
    ("users", "two_factor_auth"): frozenset("DE"),
    ("users", "fm_strategy"): frozenset("AHM"),
    ("users", "monitor"): frozenset("NAIO"),
}
"""Codes that the specification lists. Of other fields those seen before the first walk was complete count as
known."""

_TYPES: Mapping[Type, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "timestamp": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_NUMBER = re.compile(r"[0-9]+")

EVENT = "webhook "
"""What departures of events have before the event's name."""

AGAIN_SECONDS = 3600.0
"""`last_seen` is brought up to date that often."""
MOST = 5000
"""Shapes of records, and departures, remembered of one collection; then it is learnt anew."""
LONGEST = 80


@dataclass(frozen=True, slots=True)
class Departure:
    """`collection` by its path, or EVENT and an event's name. `what`: 'field' – nobody documented `field`;
    'type' – it came as `value`, which is not its documented type; 'code' – it has the new code `value`
    (digits as #). Times are UTC text."""

    collection: str
    field: str
    what: What
    value: str
    first_seen: str
    last_seen: str


def listed(connection: sqlite3.Connection, limit: int = 200) -> list[Departure]:
    """What departs, the newest discovery first."""
    rows = connection.execute(
        "SELECT collection, field, what, value, first_seen, last_seen FROM _drift WHERE NOT expected "
        "ORDER BY first_seen DESC, collection, field LIMIT ?",
        (limit,),
    )
    return [Departure(*row) for row in rows]


def may_hide_secrets(connection: sqlite3.Connection, of: Resource) -> bool:
    """Whether records of this kind may hold a secret: by the catalogue, or by what they were seen to have
    beyond it. To look into every record would cost a page of CDRs several times what reading it does."""
    if has_secrets(of) or not _watched(of) or any(one.many and one.to == "users" for one in of.relations):
        return True
    rows = connection.execute(
        "SELECT field, value FROM _drift WHERE collection = ? AND what <> 'code'", (of.collection,)
    )
    return any(is_secret(name) or value in ("array", "object") for name, value in rows)


def _watched(of: Resource) -> bool:
    return of.listed and len(of.fields) > 1


@dataclass(frozen=True, slots=True)
class Aside:
    """Records of table `table` that can't be a row, such as those without a usable key: how many are kept as
    received (`_flagged`), and when the last came (UTC text)."""

    table: str
    reason: str
    records: int
    last_at: str


def aside(connection: sqlite3.Connection) -> list[Aside]:
    rows = connection.execute(
        "SELECT table_name, reason, count(*), max(at) FROM _flagged GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [Aside(*row) for row in rows]


def follow(mirror: Database) -> None:
    """From now on, look at every record that is stored new or changed."""
    for of in RESOURCES:
        if _watched(of):
            mirror.hooks.setdefault(of.table, []).append(_Watch(of.collection, of.fields).hook())


class Told:
    """What webhooks tell, looked at as records are; their codes are open sets from the start."""

    def __init__(self) -> None:
        self._watches = {event.name: _Watch(f"{EVENT}{event.name}", event.fields, ()) for event in EVENTS}

    def look(self, tx: Transaction, bodies: Iterable[str]) -> None:
        """Note how these (JSON objects, as text) depart; in the transaction of their effects."""
        found = defaultdict[str, list[Document]](list)
        for body in bodies:
            document = read_object(body)
            names = [name for name in map(document.values.get, NAME_FIELDS) if isinstance(name, str)]
            for name in self._watches.keys() & set(names):
                found[name].append(document)
        for name, documents in found.items():
            self._watches[name].look(tx, documents)


class _Watch:
    """Records of one kind, looked at on the writer's thread."""

    def __init__(self, name: str, fields: Sequence[Field], coded: Collection[str] = CODED) -> None:
        self._name = name
        self._fields = {field.name: field for field in fields}
        self._coded = [name for name in self._fields if name in coded]
        self._shapes: dict[tuple[tuple[str, ...], tuple[type, ...]], list[_Found]] = {}
        self._codes: dict[tuple[str, str | int], _Found] = {}
        self._noted: dict[_Found, float] = {}

    def hook(self) -> Hook:
        return lambda tx, outcome: self.look(tx, outcome.changed)

    def look(self, tx: Transaction, documents: Sequence[Document]) -> None:
        found = set(self._departures(documents))
        if found:
            self._note(tx, found)

    def _departures(self, documents: Iterable[Document]) -> Iterable[_Found]:
        # Most records look alike: looking at each field of each would slow a first walk down.
        records = [document.values for document in documents]
        shapes = {(tuple(values), tuple(map(type, values.values()))): values for values in records}
        if any(Raw in kinds for _, kinds in shapes):
            # What was kept unparsed tells by its text alone what it is.
            for values in records:
                if Raw in map(type, values.values()):
                    yield from self._shape(values)
        for shape, values in shapes.items():
            if Raw in shape[1]:
                continue
            known = self._shapes.get(shape)
            if known is None:
                if len(self._shapes) >= MOST:
                    self._shapes.clear()
                known = self._shapes[shape] = list(self._shape(values))
            yield from known
        for name in self._coded:
            told = [values.get(name) for values in records]
            for code in {code for code in told if code.__class__ is str or code.__class__ is int}:
                if code != "":
                    yield self._codes.get((name, code)) or self._code(name, code)

    def _code(self, name: str, code: str | int) -> _Found:
        if len(self._codes) >= MOST:
            self._codes.clear()
        found: _Found = (
            name,
            "code",
            _NUMBER.sub("#", code)[:LONGEST] if isinstance(code, str) else str(code),
        )
        return self._codes.setdefault((name, code), found)

    def _shape(self, values: Mapping[str, Any]) -> Iterable[_Found]:
        for name, value in values.items():
            field = self._fields.get(name)
            if field is None:
                yield name[:LONGEST], "field", _WORDS.get(_kind(value), "null")
            elif value is not None and not _fits(field, _kind(value)):
                yield name, "type", _WORDS.get(_kind(value), "odd")

    def _note(self, tx: Transaction, found: set[_Found]) -> None:
        now = clock.monotonic()
        due = [one for one in found if now - self._noted.get(one, -AGAIN_SECONDS) >= AGAIN_SECONDS]
        if not due:
            return
        if len(self._noted) + len(due) > MOST:
            self._noted.clear()
        stamp = clock.stamp()
        walked = tx.execute("SELECT complete_at FROM _walks WHERE collection = ?", (self._name,)).fetchone()
        first = walked is None or walked[0] is None
        tx.executemany(
            "INSERT INTO _drift VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "last_seen = excluded.last_seen",
            [
                (
                    self._name,
                    name,
                    what,
                    value,
                    stamp,
                    stamp,
                    self._expected(name, what, value, first),
                )
                for name, what, value in due
            ],
        )
        tx.after_commit(lambda: self._noted.update(dict.fromkeys(due, now)))

    def _expected(self, name: str, what: What, value: str, first: bool) -> bool:
        if what != "code":
            return False
        known = DOCUMENTED.get((self._name, name))
        return value in known if known is not None else first


def _kind(value: object) -> type:
    """What JSON it is; of what was kept unparsed its text tells."""
    if isinstance(value, Raw):
        return {"{": dict, "[": list}.get(value[:1], int)
    return type(value)


def _fits(field: Field, kind: type) -> bool:
    for told in {field.type, field.real_type}:
        kinds = _TYPES.get(told)
        if kinds is None or (issubclass(kind, kinds) and (told == "boolean" or kind is not bool)):
            return True
    return False
