"""State of the simulated account: users, numbers and collections."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from integration.core import clock
from integration.simulator.records import directory, people
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import Record, list_fields
from integration.simulator.records.store import Collection, make_owner_test

# First ids of records that are added later. The ids of the initial account are lower.
_NEXT_IDS = {
    "calls": 4278000101,
    "cdrs": 700000001,
    "cdrs/notes": 9100001,
    "monitors": 1052000001,
    "sms": 8000001,
    "voicemessages": 36900001,
    "contacts": 611001,
    "faxes": 485001,
    "transactions": 5861001,
    "mediasessions": 240000001,
    "msdrs": 250000001,
    "chats": 3300001,
    "chatmsgs": 3400001,
    "webcalls": 4400001,
    "calllabels": 6101,
    "sms/cannedresponses": 6601,
    "vmannouncements": 77101,
    "conferences": 72101,
    "ivrs": 70101,
    "routingrules": 73101,
    "queuegroups": 74101,
    "usergroups": 75101,
    "usergrouppolicies": 76101,
    "ringgroups": 80011,
    "queues": 80111,
    "reportschedules": 5201,
    "calltracking/campaigns": 81101,
    "calltracking/ddis": 82101,
    "callmeback/settings": 1511,
    "callmeback/buttons": 2011,
    "callmeback/visitors": 1700001,
}


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
        self._next_ids = dict(_NEXT_IDS)
        self.collections: dict[str, Collection] = {}
        self._add_core_collections()

    def new_id(self, collection: str) -> int:
        with self.lock:
            number = self._next_ids[collection]
            self._next_ids[collection] = number + 1
            return number

    def find_contact_name(self, number: str) -> str | None:
        """Return the name of the contact with `number`, if any."""
        for contact in self.collections["contacts"].records.values():
            if number and number in (contact["mobile"], contact["tel"]):
                return f"{contact['first_name'] or ''} {contact['last_name'] or ''}".strip()
        return None

    def _add_core_collections(self) -> None:
        account = self.account
        self.add_collection("cdrs", read_test=make_owner_test("user_id"))
        self.add_collection("monitors", read_test=make_owner_test("user_id"))
        self.add_collection("sms", read_test=make_owner_test("user_id"))
        self.add_collection("voicemessages", read_test=make_owner_test("extension_id"))
        self.add_collection(
            "contacts",
            read_test=lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
            write_test=make_owner_test("user_id"),
            records=account.contacts,
        )
        self.add_collection(
            "users",
            read_test=make_owner_test("id"),
            # Only administrators change users.
            write_test=lambda *_: False,
            item=self._make_user_item,
            records=[directory.user_record(person) for person in account.people],
        )
        self.add_collection("ddis", key="e164", records=[directory.ddi_record(ddi) for ddi in account.ddis])
        for name, kind in (("queues", "queue"), ("ringgroups", "ringgroup")):
            groups = [directory.group_record(group) for group in account.groups if group.kind == kind]
            self.add_collection(name, item=self._make_group_item, records=groups)

    def add_collection(
        self,
        name: str,
        *,
        records: Iterable[Record] = (),
        fields: Sequence[str] = (),
        **collection_options: Any,
    ) -> None:
        """Add a collection.

        Queries may use `fields`, by default the fields of its list.
        """
        collection = self.collections[name] = Collection(
            name, fields or list_fields(name), **collection_options
        )
        for record in records:
            collection.add(record)

    def _make_user_item(self, record: Record) -> Record:
        person = self.account.find_person(record["id"])
        assert person is not None
        messages = [
            message
            for message in self.collections["voicemessages"].records.values()
            if message["extension_id"] == person.id
        ]
        new_count = sum(1 for message in messages if message["is_new"])
        return {
            **directory.user_item(person, new_count, len(messages) - new_count),
            **{name: value for name, value in record.items() if name != "customer"},
        }

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
