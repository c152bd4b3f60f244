"""Everything the pretend platform knows: the account's collections, its live calls and its tokens.

One lock guards it all; callers hold `world.lock` while they read or change more than one thing.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration import clock
from integration.simulator import people
from integration.simulator.calls import Leg, Scripts
from integration.simulator.events import EventIds
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
        self.scripts = Scripts(self.account, self.rng, lambda: self.new_id("calls"))
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
        self._collect("cdrs", CDR_FIELDS, mine=own_id)
        self._collect("monitors", MONITOR_FIELDS, mine=own_id)
        self._collect("sms", SMS_FIELDS, mine=own_id)
        self._collect("voicemessages", VOICEMESSAGE_FIELDS, mine=_owned_by("extension_id"))
        contacts = self._collect(
            "contacts",
            tuple(people.CONTACT_DEFAULTS),
            mine=lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
        )
        for contact in account.contacts:
            contacts.add(contact)
        self._collect("calls", LIVE_FIELDS)
        users = self._collect("users", (), mine=_owned_by("id"), item=self._user_item)
        for person in account.people:
            users.add(people.user_record(person))
        ddis = self._collect("ddis", (), key="e164")
        for line in account.lines:
            ddis.add(people.line_record(line))
        for name, kind in (("queues", "queue"), ("ringgroups", "ringgroup")):
            groups = self._collect(name, (), item=self._group_item)
            for group in account.groups:
                if group.kind == kind:
                    groups.add(people.group_record(group))
        for collection in self.collections.values():
            if not collection.fields:
                collection.fields = tuple(next(iter(collection.records.values())))

    def _collect(self, name: str, fields: Sequence[str], **more: Any) -> Collection:
        self.collections[name] = Collection(name, fields, **more)
        return self.collections[name]

    def _user_item(self, record: Record) -> Record:
        person = self.account.person(record["id"])
        assert person is not None
        messages = [
            message
            for message in self.collections["voicemessages"].records.values()
            if message["extension_id"] == person.id
        ]
        new = sum(1 for message in messages if message["is_new"])
        return {**people.user_item(person, new, len(messages) - new), **_without(record, "customer")}

    def _group_item(self, record: Record) -> Record:
        group = self.group(record["id"])
        return {**record, "users": [member.id for member in group.members]}

    def group(self, group_id: int) -> Group:
        return next(group for group in self.account.groups if group.id == group_id)


def _owned_by(name: str) -> Callable[[Record, Person], bool]:
    return lambda record, person: bool(record[name] == person.id)


def _without(record: Record, name: str) -> Record:
    return {key: value for key, value in record.items() if key != name}


CDR_FIELDS = [
    "id",
    "call_id",
    "live_id",
    "parent_live_id",
    "root_live_id",
    "is_root",
    "user_id",
    "sip_endpoint_id",
    "server_id",
    "type",
    "calldate",
    "clid",
    "src_id",
    "src_name",
    "src",
    "src_ua",
    "src_codec",
    "dst_id",
    "dst",
    "dst_name",
    "dst_ua",
    "dst_codec",
    "duration",
    "billsec",
    "disposition",
    "destination",
    "context",
    "rate",
    "charge",
    "t_cause",
    "info",
    "labels",
    "metadata",
    "nb_notes",
]
MONITOR_FIELDS = [
    "id",
    "timestamp",
    "live_id",
    "user_id",
    "sip_endpoint_id",
    "type",
    "caller",
    "called",
    "context",
    "src_id",
    "dst_id",
    "dst_name",
    "duration",
    "size",
    "transcript",
    "transcript_speakers",
    "summary",
    "sentiment",
    "cx_score",
    "metadata",
]
SMS_FIELDS = [
    "id",
    "created_at",
    "from",
    "from_id",
    "from_name",
    "to",
    "to_id",
    "to_name",
    "message",
    "type",
    "result",
    "user_id",
]
VOICEMESSAGE_FIELDS = [
    "id",
    "origtime",
    "caller",
    "callerid",
    "dialled",
    "duration",
    "folder",
    "is_new",
    "extension_id",
    "live_id",
    "parent_live_id",
    "transcript",
]
LIVE_FIELDS = [
    "id",
    "parent_id",
    "state",
    "destination",
    "context",
    "start_time",
    "connected_at",
    "duration",
    "clid",
    "src",
    "src_id",
    "src_name",
    "src_ua",
    "src_codec",
    "src_call_id",
    "src_contact",
    "src_rate",
    "dst",
    "dst_id",
    "dst_name",
    "dst_ua",
    "dst_codec",
    "dst_call_id",
    "dst_contact",
    "dst_rate",
    "dst_connection",
    "min_charge",
    "monitor_state",
    "queue_state",
    "referred_by",
]
