"""State of the simulated account: users, numbers and collections."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

from integration import catalogue
from integration.core import clock
from integration.simulator.records import directory, people
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import Record, list_fields, make_record
from integration.simulator.records.seeds import COLLECTIONS
from integration.simulator.records.store import Collection


class AccountState:
    """State of one account, created from `seed`.

    `start`: Unix time at which the seeded history ends.
    `lock`: held by callers while they read or change more than one item.
    """

    def __init__(self, seed: int, start: float | None = None) -> None:
        self.seed = seed
        self.start = float(int(clock.unix() if start is None else start))
        self.lock = threading.RLock()
        self.account = people.make_account(random.Random(f"account {seed}"))
        self._next_ids: dict[str, int] = {
            name: seeds["next_id"] for name, seeds in COLLECTIONS.items() if "next_id" in seeds
        }
        self.collections = {name: _make_collection(name) for name in COLLECTIONS}
        self._add_account_records()

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

    def find_contact_name(self, number: str) -> str | None:
        """Return the name of the contact with `number`, if any."""
        for contact in self.collections["contacts"].records.values():
            if number and number in (contact["mobile"], contact["tel"]):
                return f"{contact['first_name'] or ''} {contact['last_name'] or ''}".strip()
        return None

    def _add_account_records(self) -> None:
        """Add contacts, users, numbers and groups."""
        account, collections = self.account, self.collections
        # Only administrators change users.
        collections["users"].can_owner_write = False
        collections["users"].item = self._make_user_item
        collections["ddis"].key = "e164"
        collections["faxes"].unfilterable = frozenset({"from", "to"})
        for contact in account.contacts:
            collections["contacts"].add(contact)
        for person in account.people:
            collections["users"].add(directory.user_record(person))
        for ddi in account.ddis:
            collections["ddis"].add(directory.ddi_record(ddi))
        for name, kind in (("queues", "queue"), ("ringgroups", "ringgroup")):
            collections[name].item = self._make_group_item
            for group in account.groups:
                if group.kind == kind:
                    collections[name].add(directory.group_record(group))

    def _make_user_item(self, record: Record) -> Record:
        person = self.account.find_person(record["id"])
        assert person is not None
        messages = self.collections["voicemessages"].records.values()
        states = [message["is_new"] for message in messages if message["extension_id"] == person.id]
        return directory.user_item(person, record, states.count(True), states.count(False))

    def _make_group_item(self, record: Record) -> Record:
        group = self.get_group(record["id"])
        ddi_numbers = [ddi.e164 for ddi in self.account.ddis if ddi.target is group]
        return {**record, "users": [member.id for member in group.members], "ddis": ddi_numbers}

    def get_group(self, group_id: int) -> Group:
        return next(group for group in self.account.groups if group.id == group_id)

    def route_numbers_to(
        self, numbers: Iterable[str], target: Person | Group | people.UnplayedDestination
    ) -> None:
        """Route exactly `numbers` of the account to `target`.

        Other numbers of `target` are routed to the administrator. Raises KeyError, without any change, for a
        number that does not belong to the account.
        """
        ddi_by_number = {ddi.e164: ddi for ddi in self.account.ddis}
        selected_ddis = [ddi_by_number[number] for number in numbers]
        for ddi in self.account.ddis:
            if ddi.target == target and ddi not in selected_ddis:
                ddi.target = self.account.admin
        for ddi in selected_ddis:
            ddi.target = target
        self.refresh_ddi_records()

    def refresh_ddi_records(self) -> None:
        """Update the targets in the records of /ddis."""
        for ddi in self.account.ddis:
            current = directory.ddi_record(ddi)
            record = self.collections["ddis"].records[ddi.e164]
            record.update(target_type=current["target_type"], target_id=current["target_id"])


def _make_collection(name: str) -> Collection:
    """Create a collection with its seeded records."""
    seeds = COLLECTIONS[name]
    user_key = catalogue.get_resource(name).user_key if name in catalogue.COLLECTIONS else None
    owners = seeds.get("owner", [user_key] if user_key else [])
    collection = Collection(name, list_fields(name), tuple(owners), seeds.get("shared", False))
    for record in seeds.get("records", ()):
        collection.add(make_record(name, **record))
    return collection
