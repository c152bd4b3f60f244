"""Everything the pretend platform knows: the account's collections, its live calls and its tokens.

One lock guards it all; callers hold `world.lock` while they read or change more than one thing.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration import catalogue, clock
from integration.simulator import directory, people
from integration.simulator.calls import Scripts
from integration.simulator.casting import Casting
from integration.simulator.events import EventIds
from integration.simulator.legs import Leg
from integration.simulator.people import Account, Group, Person
from integration.simulator.records import live_record

Record = dict[str, Any]

_FIRST_IDS = {
    "calls": 4278000101,
    "cdrs": 700000001,
    "monitors": 1052000001,
    "sms": 8000001,
    "voicemessages": 36900001,
    "contacts": 611001,
}


@dataclass(slots=True)
class Collection:
    """Records of one kind by key, in the order of their keys.

    `fields` are the names a query may use. `item` makes the form of the record's own path. `mine` says
    whether a record belongs to a person; None: only administrators see the collection.
    """

    name: str
    fields: Sequence[str]
    records: dict[Any, Record] = field(default_factory=dict)
    key: str = "id"
    item: Callable[[Record], Record] = dict
    mine: Callable[[Record, Person], bool] | None = None
    unfilterable: frozenset[str] = frozenset()

    def add(self, record: Record) -> Record:
        self.records[record[self.key]] = record
        return record

    def visible(self, person: Person) -> Iterable[Record]:
        """The records `person` may see, in order."""
        if person.is_root:
            return self.records.values()
        mine = self.mine
        return [] if mine is None else [r for r in self.records.values() if mine(r, person)]

    def find(self, key: str) -> Record | None:
        """The record whose key reads `key`, as in a path."""
        found = self.records.get(key)
        if found is None and key.isdigit():
            found = self.records.get(int(key))
        return found


class World:
    """The state of one simulated platform, from a seed and the moment its history ends (Unix seconds)."""

    def __init__(self, seed: int, start: float | None = None) -> None:
        self.seed = seed
        self.start = float(int(clock.unix() if start is None else start))
        self.lock = threading.RLock()
        self.rng = random.Random(f"switchroom {seed}")
        self.account: Account = people.make_account(random.Random(f"account {seed}"))
        self.event_ids = EventIds(random.Random(f"events {seed}"))
        self.live: dict[int, Leg] = {}
        self._next = dict(_FIRST_IDS)
        self.cast = Casting(self.account, self.rng, lambda: self.new_id("calls"))
        self.scripts = Scripts(self.cast)
        self.collections: dict[str, Collection] = {}
        self._lay_out()

    def new_id(self, collection: str) -> int:
        with self.lock:
            number = self._next[collection]
            self._next[collection] = number + 1
            return number

    def live_records(self, now: float) -> list[Record]:
        with self.lock:
            return [live_record(leg, now) for leg in sorted(self.live.values(), key=lambda leg: leg.id)]

    def name_of(self, number: str) -> str | None:
        """The contact who has `number`."""
        for contact in self.collections["contacts"].records.values():
            if number and number in (contact["mobile"], contact["tel"]):
                return f"{contact['first_name'] or ''} {contact['last_name'] or ''}".strip()
        return None

    def _lay_out(self) -> None:
        account = self.account
        own_id = _owned_by("user_id")
        self._collect("cdrs", mine=own_id)
        self._collect("monitors", mine=own_id)
        self._collect("sms", mine=own_id)
        self._collect("voicemessages", mine=_owned_by("extension_id"))
        self._collect(
            "contacts",
            mine=lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
            records=account.contacts,
        )
        self._collect("calls")
        self._collect(
            "users",
            mine=_owned_by("id"),
            item=self._user_item,
            records=[directory.user_record(person) for person in account.people],
        )
        self._collect("ddis", key="e164", records=[directory.line_record(line) for line in account.lines])
        for name, kind in (("queues", "queue"), ("ringgroups", "ringgroup")):
            groups = [directory.group_record(group) for group in account.groups if group.kind == kind]
            self._collect(name, item=self._group_item, records=groups)

    def _collect(self, name: str, *, records: Iterable[Record] = (), **more: Any) -> None:
        """A collection of the catalogue: a query may use the names that its list shows."""
        resource = catalogue.resource(name)
        fields = tuple(field.name for field in resource.fields if not field.item_only)
        collection = self.collections[name] = Collection(name, fields, **more)
        for record in records:
            collection.add(record)

    def _user_item(self, record: Record) -> Record:
        person = self.account.person(record["id"])
        assert person is not None
        messages = [
            message
            for message in self.collections["voicemessages"].records.values()
            if message["extension_id"] == person.id
        ]
        new = sum(1 for message in messages if message["is_new"])
        return {**directory.user_item(person, new, len(messages) - new), **_without(record, "customer")}

    def _group_item(self, record: Record) -> Record:
        group = self.group(record["id"])
        lines = [line.e164 for line in self.account.lines if line.target is group]
        return {**record, "users": [member.id for member in group.members], "ddis": lines}

    def group(self, group_id: int) -> Group:
        return next(group for group in self.account.groups if group.id == group_id)


def _owned_by(name: str) -> Callable[[Record, Person], bool]:
    return lambda record, person: bool(record[name] == person.id)


def _without(record: Record, name: str) -> Record:
    return {key: value for key, value in record.items() if key != name}
