"""State of the simulated account: users, numbers and collections."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration import catalogue
from integration.core import clock
from integration.simulator.records import people
from integration.simulator.records.people import Group, Person, make_contacts
from integration.simulator.records.record_fields import COLLECTIONS, Record, list_fields, make_record

GROUP_COLLECTIONS = ("ringgroups", "queues")


@dataclass(slots=True)
class Collection:
    """Records of a collection by key, in the order of their keys.

    `fields`: names that queries may use; `unfilterable` names are refused in filters.
    `owners`: fields with the id of the user who may read and change a record; without them only
    administrators can.
    `is_shared`: every user can read records without an owner.
    `can_owner_write`: the owner can change the record.
    `item`: builds the form of the record's own path.
    `derive`: returns the records of a collection that is a view of other collections.
    """

    name: str
    fields: Sequence[str]
    owners: tuple[str, ...] = ()
    is_shared: bool = False
    can_owner_write: bool = True
    key: str = "id"
    item: Callable[[Record], Record] = dict
    unfilterable: frozenset[str] = frozenset()
    derive: Callable[[], Iterable[Record]] | None = None
    records: dict[Any, Record] = field(default_factory=dict)

    def add(self, record: Record) -> Record:
        self.records[record[self.key]] = record
        return record

    def remove(self, record: Record) -> None:
        self.records.pop(record[self.key], None)

    def iterate_records(self) -> Iterable[Record]:
        return self.records.values() if self.derive is None else self.derive()

    def list_visible(self, person: Person) -> Iterable[Record]:
        """List the records that `person` may read, in order."""
        if person.is_root:
            return self.iterate_records()
        return [record for record in self.iterate_records() if self.can_read(record, person)]

    def can_read(self, record: Record, person: Person) -> bool:
        is_unowned = self.is_shared and all(record[name] is None for name in self.owners)
        return person.is_root or is_unowned or self._is_owned(record, person)

    def can_write(self, record: Record, person: Person) -> bool:
        return person.is_root or (self.can_owner_write and self._is_owned(record, person))

    def _is_owned(self, record: Record, person: Person) -> bool:
        return any(record[name] in (person.id, str(person.id)) for name in self.owners)

    def find(self, key: str) -> Record | None:
        """Return the record with the key `key`, a text from a path."""
        if self.derive is not None:
            return next((record for record in self.derive() if str(record.get(self.key)) == key), None)
        matching_record = self.records.get(key)
        if matching_record is None and key.isascii() and key.isdigit() and len(key) <= 20:
            matching_record = self.records.get(int(key))
        return matching_record


class AccountState:
    """State of one account, created from `seed`.

    `start`: Unix time at which the seeded history ends.
    `lock`: held by callers while they read or change more than one item.
    `ddis`: records of the account's telephone numbers. `has_assigned_mobiles`: callers and contacts have
    mobile numbers of an assigned range.
    """

    def __init__(self, seed: int, start: float | None = None, *, has_assigned_mobiles: bool = False) -> None:
        self.seed = seed
        self.start = float(int(clock.unix() if start is None else start))
        self.lock = threading.RLock()
        self.has_assigned_mobiles = has_assigned_mobiles
        self._next_ids: dict[str, int] = {
            name: seeds["next_id"] for name, seeds in COLLECTIONS.items() if "next_id" in seeds
        }
        self.collections = {name: _make_collection(name) for name in COLLECTIONS}
        rng = random.Random(f"account {seed}")
        self.people = people.make_people(rng)
        self.ddis = list(self.collections["ddis"].records.values())
        self.groups: list[Group] = []
        for name in GROUP_COLLECTIONS:
            self.collections[name].item = self._make_group_item
            for record in self.collections[name].records.values():
                names = record.pop("members")
                members = [person for person in self.people if person.first_name in names]
                logged_in = {member.id: n != 2 for n, member in enumerate(members)}
                self.groups.append(Group(name.removesuffix("s"), record, members, logged_in))
        users = self.collections["users"]
        # Only administrators change users.
        users.can_owner_write, users.item = False, self._make_user_item
        for person in self.people:
            person.cli = self.find_ddi(person)["e164"]
            users.add(people.user_record(person))
        for contact in make_contacts(rng, 60, [person.id for person in self.people]):
            contact["mobile"] = contact["mobile"] and self.assign_mobile(contact["mobile"])
            self.collections["contacts"].add(contact)

    def assign_mobile(self, number: str) -> str:
        """Return a number as callers and contacts of the account have it."""
        # Programs that check numbers take those for fiction for no mobile numbers. +44 7400 123nnn has the
        # example number of `phonenumbers`.
        is_assigned = self.has_assigned_mobiles and number.startswith("447700900")
        return f"447400123{number[-3:]}" if is_assigned else number

    @property
    def admin(self) -> Person:
        return self.people[0]

    @property
    def ordinary_user(self) -> Person:
        """User without administrator rights."""
        return self.people[1]

    @property
    def online_people(self) -> list[Person]:
        return [person for person in self.people if person.is_online]

    def find_person(self, user_id: object) -> Person | None:
        return next((person for person in self.people if str(person.id) == str(user_id)), None)

    def find_ddi(self, target: Person | Group) -> Record:
        """Return a number that is routed to `target`, or else the main number."""
        return next(iter(self.list_ddis(target.target_type, target.id)), self.ddis[0])

    def list_ddis(self, target_type: str, target_id: int) -> list[Record]:
        key = (target_type, target_id)
        return [ddi for ddi in self.ddis if (ddi["target_type"], ddi["target_id"]) == key]

    def remove_person(self, person: Person) -> None:
        """Remove a user from the account and all groups.

        Numbers of the user are routed to the administrator.
        """
        self.people.remove(person)
        for group in self.groups:
            group.members = [member for member in group.members if member is not person]
            group.logged_in.pop(person.id, None)
        self.route_numbers_to([], person.target_type, person.id)

    def new_id(self, collection: str) -> int:
        with self.lock:
            number = self._next_ids[collection]
            self._next_ids[collection] = number + 1
            return number

    def create(self, collection: str, /, **values: Any) -> Record:
        """Add a record with the next id of `collection`, unless `values` have an id."""
        if "id" not in values:
            values["id"] = self.new_id(collection)
        return self.collections[collection].add(make_record(collection, **values))

    def _make_user_item(self, record: Record) -> Record:
        person = self.find_person(record["id"])
        assert person is not None
        messages = self.collections["voicemessages"].records.values()
        states = [message["is_new"] for message in messages if message["extension_id"] == person.id]
        return people.user_item(person, record, states.count(True), states.count(False))

    def _make_group_item(self, record: Record) -> Record:
        group = self.get_group(record["id"])
        ddi_numbers = [ddi["e164"] for ddi in self.list_ddis(group.target_type, group.id)]
        return {**record, "users": [member.id for member in group.members], "ddis": ddi_numbers}

    def get_group(self, group_id: int) -> Group:
        return next(group for group in self.groups if group.id == group_id)

    def route_numbers_to(self, numbers: Iterable[str], target_type: str, target_id: int) -> None:
        """Route exactly `numbers` of the account to a target.

        Other numbers of the target are routed to the administrator.
        """
        for ddi in self.list_ddis(target_type, target_id):
            ddi.update(target_type=self.admin.target_type, target_id=self.admin.id)
        for ddi in self.ddis:
            if ddi["e164"] in numbers:
                ddi.update(target_type=target_type, target_id=target_id)


def _make_collection(name: str) -> Collection:
    """Create a collection with its seeded records."""
    seeds = COLLECTIONS[name]
    user_key = catalogue.get_resource(name).user_key if name in catalogue.COLLECTIONS else None
    owners = seeds.get("owner", [user_key] if user_key else [])
    collection = Collection(name, list_fields(name), tuple(owners), seeds.get("shared", False))
    collection.key, collection.unfilterable = seeds.get("key", "id"), frozenset(seeds.get("unfilterable", ()))
    for record in seeds.get("records", ()):
        collection.add(make_record(name, **record))
    return collection
