"""What a person of the dashboard sees: whose calls, which collections, which fields.

| Role | Sees |
|---|---|
| viewer, agent | people, numbers, contacts, queues, groups, calls and messages as on other pages |
| supervisor, admin | everything: routing, tracking, widgets, roles, reports, records, `/me` |

Below supervisor a user's own settings (voicemail, forwarding, private numbers: what only the user's own
record has) and the raw records stay closed. With `dashboard.agents_see: own` history is limited to the
person's own records, and a collection that cannot be limited is closed. PINs, passwords and keys are hidden
from every role.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

from integration.access import user_scope
from integration.access.people import Person
from integration.access.rights import Role, has
from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.mirror.calls.schema import CALLS
from integration.mirror.query import browse
from integration.mirror.query.query import Query
from integration.mirror.records.masking import list_hidden_fields

AgentsSee = Literal["all", "own"]

NO_USER_ID = -1
"""No user of the platform has this id: a person who is none of them sees no calls under `own`."""


def user_scope_of(person: Person, agents_see: AgentsSee) -> int | None:
    """The platform user whose calls alone this person sees and hears; None if they see everyone's.

    `dashboard.agents_see: own` holds for viewers and agents. One of whom nobody said which user of the
    platform they are (`platform_user_id`) sees none then, rather than all.
    """
    if agents_see == "all" or has(person, "supervisor"):
        return None
    return NO_USER_ID if person.platform_user_id is None else person.platform_user_id


def visibility_key(person: Person, agents_see: AgentsSee) -> Hashable:
    """Two people with an equal value are shown the same, down to the buttons."""
    return (person.role, person.rights, user_scope_of(person, agents_see))


FULL_ACCESS_ROLE: Role = "supervisor"
"""From this role on records are shown whole, raw text included."""


@dataclass(frozen=True, slots=True)
class Section:
    """One collection on the Account pages: its group and its plural title."""

    collection: str
    group: str
    title: str

    @property
    def resource(self) -> Resource:
        return RESOURCES_BY_COLLECTION[self.collection]

    @property
    def path(self) -> str:
        return f"/account/{self.collection}"


_SECTIONS = (
    Section("users", "People", "Users"),
    Section("contacts", "People", "Contacts"),
    Section("usergroups", "People", "User groups"),
    Section("pickupgroups", "People", "Pickup groups"),
    Section("aclroles", "People", "ACL roles"),
    Section("usergrouppolicies", "People", "User group policies"),
    Section("ddis", "Numbers", "Telephone numbers"),
    Section("ddis/calltracking", "Numbers", "Numbers under call tracking"),
    Section("conferences", "Numbers", "Conferences"),
    Section("queues", "Queues and groups", "Queues"),
    Section("ringgroups", "Queues and groups", "Ring groups"),
    Section("queuegroups", "Queues and groups", "Queue groups"),
    Section("routingrules", "Routing", "Routing rules"),
    Section("ivrs", "Routing", "IVRs"),
    Section("vmannouncements", "Routing", "Voicemail announcements"),
    Section("cdrs", "History", "Call detail records"),
    Section("calls", "History", "Live calls"),
    Section("monitors", "History", "Recordings"),
    Section("voicemessages", "History", "Voice messages"),
    Section("sms", "History", "SMS"),
    Section("faxes", "History", "Faxes"),
    Section("chats", "History", "Chats"),
    Section("webcalls", "History", "Webcalls"),
    Section("mediasessions", "History", "Media sessions"),
    Section("msdrs", "History", "Media session detail records"),
    Section("calltracking/campaigns", "Call tracking and widgets", "Campaigns"),
    Section("calltracking/ddis", "Call tracking and widgets", "Campaigns' numbers"),
    Section("calltracking/cdrs", "Call tracking and widgets", "Campaigns' call records"),
    Section("cdrs/calltracking", "Call tracking and widgets", "Call records under tracking"),
    Section("callmeback/settings", "Call tracking and widgets", "Call-me-back widgets"),
    Section("callmeback/websites", "Call tracking and widgets", "Call-me-back websites"),
    Section("callmeback/visitors", "Call tracking and widgets", "Call-me-back visitors"),
    Section("callmeback/cdrs", "Call tracking and widgets", "Call-me-back call records"),
    Section("me", "Settings", "The account's own user"),
    Section("calllabels", "Settings", "Call labels"),
    Section("sms/cannedresponses", "Settings", "SMS canned responses"),
    Section("reportschedules", "Settings", "Report schedules"),
)


def _build_sections() -> dict[str, Section]:
    """Every collection that has a table; without a section of its own it is under Settings."""
    sections = {section.collection: section for section in _SECTIONS}
    listed_resources = [resource for resource in RESOURCES if resource.is_listed]
    for resource in listed_resources:
        is_dictionary = resource.collection.endswith("/dictionaries")
        group = "Dictionaries" if is_dictionary else "Settings"
        sections.setdefault(
            resource.collection,
            Section(resource.collection, group, resource.title),
        )
    collections = {resource.collection for resource in listed_resources}
    return {name: section for name, section in sections.items() if name in collections}


SECTIONS: Mapping[str, Section] = _build_sections()
"""By collection, in the order of the overview."""
RESOURCES_BY_COLLECTION: Mapping[str, Resource] = {row.collection: row for row in RESOURCES if row.is_listed}


@dataclass(frozen=True, slots=True)
class Visibility:
    """What one person sees. `user_scope`: the platform user whose records alone they see; None for all."""

    person: Person
    user_scope: int | None

    def can_open(self, section: Section) -> bool:
        if not has(self.person, section.resource.audience):
            return False
        return (
            self.user_scope is None
            or section.resource.is_shared
            or user_scope.is_reachable(section.collection)
        )

    def can_open_collection(self, collection: str) -> bool:
        """Whether links to records of this collection lead anywhere for them."""
        return self.can_open(SECTIONS[collection])

    @property
    def can_see_raw(self) -> bool:
        """Whether raw records are shown."""
        return has(self.person, FULL_ACCESS_ROLE)

    def can_see_item_fields(self, section: Section) -> bool:
        """Whether they are shown what a record's own path tells beyond the list."""
        return self.can_see_raw or not section.resource.has_item_only_fields

    def hidden_fields(self, section: Section) -> frozenset[str]:
        """Fields they may not learn, not even by searching, filtering or sorting."""
        resource = section.resource
        hidden_fields = list_hidden_fields(resource)
        if not self.can_see_item_fields(section):
            hidden_fields |= {field.name for field in resource.fields if field.item_only}
        return hidden_fields

    def restrict_query(self, connection: sqlite3.Connection, section: Section, record_query: Query) -> Query:
        """To their own records, where `agents_see: own` asks for it."""
        if self.user_scope is None or section.resource.is_shared:
            return record_query
        return record_query.with_conditions(
            user_scope.filter_for(connection, record_query.resource, self.user_scope)
        )

    def collection_state(self, connection: sqlite3.Connection, section: Section) -> browse.CollectionState:
        """How a collection stands, counting what they may see of it."""
        resource = section.resource
        return browse.get_collection_state(
            connection, resource, self.restrict_query(connection, section, Query(resource))
        )


# --- exports -------------------------------------------------------------------------------------------


class NotAllowed(SwitchroomError):
    """This person may not have this export; the message says what they lack."""


def required_collection(target: Resource) -> str:
    """The collection that somebody has to be allowed to read. Calls are made of CDRs."""
    return "cdrs" if target is CALLS else target.collection


def check_export_scope(
    person: Person, target: Resource, right: str | None, agents_see: AgentsSee
) -> int | None:
    """The platform user whose records alone they may export, None for everyone's. `right` is one that the
    format demands beside “export”. Raises NotAllowed."""
    for required in ("export", *((right,) if right else ())):
        if not has(person, required):
            raise NotAllowed(f"This needs the right “{required}”. An administrator can give it to you.")
    scope = user_scope_of(person, agents_see)
    section = SECTIONS[required_collection(target)]
    if not has(person, section.resource.audience):
        raise NotAllowed(f"{section.title} are shown to supervisors and administrators.")
    if not Visibility(person, scope).can_open(section):
        raise NotAllowed("You see only your own calls, and this holds more.")
    # Numbers, queues and people's names are everybody's to see, but nobody's own.
    return None if section.resource.is_shared else scope


def hidden_fields(person: Person | None, target: Resource) -> frozenset[str]:
    """Fields that must not be learnt from a file, not even by filtering. `person` is None for keys, for the
    command line and for what administrators schedule."""
    if person is None:
        return list_hidden_fields(target)
    return list_hidden_fields(target) | Visibility(person, None).hidden_fields(
        SECTIONS[required_collection(target)]
    )


def can_see_raw(person: Person | None) -> bool:
    """Whether records as received may be in a file, with all that nobody documented."""
    return person is None or Visibility(person, None).can_see_raw
