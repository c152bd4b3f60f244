"""Where each collection stands on the Account pages, what it is called there, and who may see it.

| Role | Sees |
|---|---|
| viewer, agent | people, numbers, contacts, queues, groups, calls and messages as on other pages |
| supervisor, admin | everything: routing, tracking, widgets, roles, reports, records, `/me` |

Below supervisor a user's own settings (voicemail, forwarding, private numbers: what only the user's own
record tells) and the raw records stay closed. With `dashboard.agents_see: own` history narrows to the
person's own records, and what can't be narrowed is closed. PINs, passwords and keys are shown to nobody.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from integration.access import user_scope as narrowing
from integration.access.people import Person, Role
from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.mirror.query import browse
from integration.mirror.query.query import Query
from integration.mirror.records.masking import hidden_of

GROUPS: Mapping[str, str] = {
    "People": "Who works here, and whom they know",
    "Numbers": "What people dial to reach you",
    "Queues and groups": "Where callers wait, and whose phones ring",
    "Routing": "What happens to a call before somebody answers",
    "History": "Every call, recording and message, as the platform recorded it",
    "Call tracking and widgets": "Calls that your websites and campaigns bring",
    "Dictionaries": "What the codes in records mean, as far as the platform tells",
    "Settings": "The account itself, and what is chosen from elsewhere",
}

FULL: Role = "supervisor"
"""From this role on records are shown whole, raw text included."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """One collection on these pages: its group, its plural, the least role that sees it. `personal`: its
    records are somebody's own, so that `agents_see: own` narrows it. `private_items`: what only a record's
    own path tells is for FULL."""

    collection: str
    group: str
    title: str
    role: Role = FULL
    personal: bool = False
    private_items: bool = False

    @property
    def path(self) -> str:
        return f"/account/{self.collection}"


_SHELVES = (
    Shelf("users", "People", "Users", "viewer", private_items=True),
    Shelf("contacts", "People", "Contacts", "viewer", personal=True),
    Shelf("usergroups", "People", "User groups", "viewer"),
    Shelf("pickupgroups", "People", "Pickup groups", "viewer"),
    Shelf("aclroles", "People", "ACL roles"),
    Shelf("usergrouppolicies", "People", "User group policies"),
    Shelf("ddis", "Numbers", "Telephone numbers", "viewer"),
    Shelf("ddis/calltracking", "Numbers", "Numbers under call tracking"),
    Shelf("conferences", "Numbers", "Conferences"),
    Shelf("queues", "Queues and groups", "Queues", "viewer"),
    Shelf("ringgroups", "Queues and groups", "Ring groups", "viewer"),
    Shelf("queuegroups", "Queues and groups", "Queue groups", "viewer"),
    Shelf("routingrules", "Routing", "Routing rules"),
    Shelf("ivrs", "Routing", "IVRs"),
    Shelf("vmannouncements", "Routing", "Voicemail announcements"),
    Shelf("cdrs", "History", "Call detail records", "viewer", personal=True),
    Shelf("calls", "History", "Live calls", "viewer", personal=True),
    Shelf("monitors", "History", "Recordings", "viewer", personal=True),
    Shelf("voicemessages", "History", "Voice messages", "viewer", personal=True),
    Shelf("sms", "History", "SMS", "viewer", personal=True),
    Shelf("faxes", "History", "Faxes", "viewer", personal=True),
    Shelf("chats", "History", "Chats", personal=True),
    Shelf("webcalls", "History", "Webcalls", personal=True),
    Shelf("mediasessions", "History", "Media sessions", personal=True),
    Shelf("msdrs", "History", "Media session detail records", personal=True),
    Shelf("calltracking/campaigns", "Call tracking and widgets", "Campaigns"),
    Shelf("calltracking/ddis", "Call tracking and widgets", "Campaigns' numbers"),
    Shelf("calltracking/cdrs", "Call tracking and widgets", "Campaigns' call records", personal=True),
    Shelf("cdrs/calltracking", "Call tracking and widgets", "Call records under tracking", personal=True),
    Shelf("callmeback/settings", "Call tracking and widgets", "Call-me-back widgets"),
    Shelf("callmeback/websites", "Call tracking and widgets", "Call-me-back websites"),
    Shelf("callmeback/visitors", "Call tracking and widgets", "Call-me-back visitors"),
    Shelf("callmeback/cdrs", "Call tracking and widgets", "Call-me-back call records", personal=True),
    Shelf("me", "Settings", "The account's own user"),
    Shelf("calllabels", "Settings", "Call labels", "viewer"),
    Shelf("sms/cannedresponses", "Settings", "SMS canned responses", "viewer"),
    Shelf("reportschedules", "Settings", "Report schedules"),
)


def _all() -> dict[str, Shelf]:
    """Every collection that has a table; one that nobody placed yet stands under Settings, for FULL."""
    placed = {shelf.collection: shelf for shelf in _SHELVES}
    listed = [row for row in RESOURCES if row.listed]
    for row in listed:
        codes = row.collection.endswith("/dictionaries")
        group = "Dictionaries" if codes else "Settings"
        placed.setdefault(row.collection, Shelf(row.collection, group, row.title, personal=not codes))
    known = {row.collection for row in listed}
    return {name: shelf for name, shelf in placed.items() if name in known}


SHELVES: Mapping[str, Shelf] = _all()
"""By collection, in the order of the overview."""
RESOURCE: Mapping[str, Resource] = {row.collection: row for row in RESOURCES if row.listed}


@dataclass(frozen=True, slots=True)
class Sight:
    """What a person sees here. `only` is the platform user whose records alone they see; None: everyone's."""

    person: Person
    only: int | None

    def reaches(self, shelf: Shelf) -> bool:
        if not self.person.may(shelf.role):
            return False
        return self.only is None or not shelf.personal or narrowing.reachable(shelf.collection)

    def opens(self, collection: str) -> bool:
        """Whether links to records of this collection lead anywhere for them."""
        return self.reaches(SHELVES[collection])

    def groups(self) -> dict[str, list[Shelf]]:
        """What they may open, by group in order; groups that would be empty are left out."""
        groups: dict[str, list[Shelf]] = {group: [] for group in GROUPS}
        for shelf in SHELVES.values():
            if self.reaches(shelf):
                groups[shelf.group].append(shelf)
        return {group: shelves for group, shelves in groups.items() if shelves}

    @property
    def whole(self) -> bool:
        """Whether raw records are shown."""
        return self.person.may(FULL)

    def items(self, shelf: Shelf) -> bool:
        """Whether they are shown what a record's own path tells beyond the list."""
        return not shelf.private_items or self.whole

    def hidden(self, shelf: Shelf) -> frozenset[str]:
        """Fields they may not learn, not even by searching, filtering or sorting."""
        resource = RESOURCE[shelf.collection]
        hidden = hidden_of(resource)
        if not self.items(shelf):
            hidden |= {field.name for field in resource.fields if field.item_only}
        return hidden

    def narrowed(self, connection: sqlite3.Connection, shelf: Shelf, question: Query) -> Query:
        """To their own records, where `agents_see: own` asks for it."""
        if self.only is None or not shelf.personal:
            return question
        return question.also(narrowing.own(connection, question.resource, self.only))

    def standing(self, connection: sqlite3.Connection, shelf: Shelf) -> browse.Standing:
        """How a collection stands, counting what they may see of it."""
        resource = RESOURCE[shelf.collection]
        return browse.standing(connection, resource, self.narrowed(connection, shelf, Query(resource)))
