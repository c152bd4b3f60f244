"""Everything the pretend platform knows: the account's collections and its live calls.

One lock guards it all; callers hold `world.lock` while they read or change more than one thing.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from integration import catalogue
from integration.core import clock
from integration.simulator.calls import media_sessions as sessions
from integration.simulator.calls.events import EventIds
from integration.simulator.calls.legs import Leg
from integration.simulator.calls.participants import Casting
from integration.simulator.calls.records import live_record
from integration.simulator.calls.scripts import Scripts
from integration.simulator.calls.webcalls import WebScripts
from integration.simulator.records import (
    chats,
    conversations,
    directory,
    notes,
    people,
    reports,
    settings,
    tracking,
    widgets,
)
from integration.simulator.records import (
    faxes as papers,
)
from integration.simulator.records.people import Account, Group, Person
from integration.simulator.records.store import Collection, Record, owned_by

# Ids that the account begins with are below these.
_FIRST_IDS = {
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
        web_cast = Casting(self.account, random.Random(f"web {seed}"), lambda: self.new_id("calls"))
        self.scripts.by_name |= WebScripts(web_cast).by_name
        self.collections: dict[str, Collection] = {}
        self._lay_out()
        for noun in (settings, reports, tracking, widgets, chats, papers, sessions, notes, conversations):
            noun.lay_out(self)

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
        self.collect("cdrs", mine=owned_by("user_id"))
        self.collect("monitors", mine=owned_by("user_id"))
        self.collect("sms", mine=owned_by("user_id"))
        self.collect("voicemessages", mine=owned_by("extension_id"))
        self.collect(
            "contacts",
            mine=lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
            own=owned_by("user_id"),
            records=account.contacts,
        )
        self.collect("calls", mine=is_party, derive=lambda: self.live_records(clock.unix()))
        self.collect("webcalls")
        self.collect(
            "users",
            mine=owned_by("id"),
            # Nobody changes a user but administrators.
            own=lambda *_: False,
            item=self._user_item,
            records=[directory.user_record(person) for person in account.people],
        )
        self.collect("ddis", key="e164", records=[directory.line_record(line) for line in account.lines])
        for name, kind in (("queues", "queue"), ("ringgroups", "ringgroup")):
            groups = [directory.group_record(group) for group in account.groups if group.kind == kind]
            self.collect(name, item=self._group_item, records=groups)

    def collect(
        self, name: str, *, records: Iterable[Record] = (), fields: Sequence[str] = (), **more: Any
    ) -> None:
        """Add a collection. A query may use `fields`, else what the catalogue says its list shows."""
        if not fields:
            fields = tuple(field.name for field in catalogue.resource(name).fields if not field.item_only)
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

    def retarget(self, numbers: Iterable[str], target: Person | Group | people.Place) -> None:
        """Let `numbers` of the account, and no others, go to `target`; those it had go to the administrator.

        Raises KeyError for a number that is not the account's, and changes nothing then.
        """
        lines = {line.e164: line for line in self.account.lines}
        wanted = [lines[number] for number in numbers]
        for line in self.account.lines:
            if line.target == target and line not in wanted:
                line.target = self.account.admin
        for line in wanted:
            line.target = target
        self.refresh_lines()

    def refresh_lines(self) -> None:
        """Let the records of /ddis show where each number goes now."""
        for line in self.account.lines:
            shown = directory.line_record(line)
            record = self.collections["ddis"].records[line.e164]
            record.update(target_type=shown["target_type"], target_id=shown["target_id"])


def is_party(call: Record, person: Person) -> bool:
    return str(person.id) in (call["src_id"], call["dst_id"])


def _without(record: Record, name: str) -> Record:
    return {key: value for key, value in record.items() if key != name}
