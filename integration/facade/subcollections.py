"""Paths below a record, and the records that they return.

docs/facade.md lists them for users. The specification shows no relation; the examples at most of these paths
show another resource (specification, Examples), so the names of the paths decide.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from integration.access import user_scope
from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.page_queries import contacts
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.records import single_record, subresources

Conditions = tuple[Condition | AnyOf, ...]
BuildConditions = Callable[[sqlite3.Connection, PhoneNumbers, Mapping[str, str]], Conditions]
"""Builds the fixed condition of a path from its parameters."""


@dataclass(frozen=True, slots=True)
class RelatedRecords:
    """Path whose records are part of the collection `target`.

    `parent`: collection of the record in the path. `build_conditions`: condition for its records in `target`.
    """

    parent: str
    target: str
    build_conditions: BuildConditions

    @property
    def resource(self) -> Resource:
        return get_resource(self.target)


@dataclass(frozen=True, slots=True)
class StoredBelow:
    """Path whose records are stored with their parent (mirror/records/subresources).

    `count_field`: field of the parent with the number of records, None if there is none.
    `required_collection`: collection that a key needs besides the parent's, None for no other.
    """

    parent: str
    name: str
    resource: Resource
    count_field: str | None = None
    required_collection: str | None = None


def _has_parent_id(field_name: str) -> BuildConditions:
    def build(_: sqlite3.Connection, __: PhoneNumbers, parameters: Mapping[str, str]) -> Conditions:
        return (Condition(field_name, "eq", int(parameters["id"])),)

    return build


def _is_visible_contact(
    connection: sqlite3.Connection, _: PhoneNumbers, parameters: Mapping[str, str]
) -> Conditions:
    """Return the condition for the user's own and the shared contacts."""
    return (user_scope.filter_for(connection, get_resource("contacts"), int(parameters["id"])),)


def _is_call_of_user(_: sqlite3.Connection, __: PhoneNumbers, parameters: Mapping[str, str]) -> Conditions:
    """Return the condition for live calls with the user at either end.

    Live calls name the user as text in `src_id` or `dst_id` (docs/platform.md#4-types).
    """
    user_id = str(int(parameters["id"]))
    return (AnyOf((Condition("src_id", "eq", user_id), Condition("dst_id", "eq", user_id))),)


def _is_between_numbers(
    _: sqlite3.Connection, phone_numbers: PhoneNumbers, parameters: Mapping[str, str]
) -> Conditions:
    """Return the condition for SMS between two numbers.

    An SMS without a user belongs to the threads of all users.
    """
    first = phone_numbers.list_spellings(parameters["from"])
    second = phone_numbers.list_spellings(parameters["to"])
    from_first, to_first = Condition("from", "in", first), Condition("to", "in", first)
    from_second, to_second = Condition("from", "in", second), Condition("to", "in", second)
    # (from_first AND to_second) OR (from_second AND to_first), as the filter language has only AND of ORs.
    return (
        AnyOf((Condition("user_id", "eq", int(parameters["id"])), Condition("user_id", "eq", None))),
        AnyOf((from_first, from_second)),
        AnyOf((from_first, to_first)),
        AnyOf((to_second, from_second)),
        AnyOf((to_second, to_first)),
    )


def _has_number_of_contact(
    connection: sqlite3.Connection, phone_numbers: PhoneNumbers, parameters: Mapping[str, str]
) -> Conditions:
    """Return the condition for CDRs of the contact's numbers."""
    key = int(parameters["id"])
    contact = single_record.fetch_by_key(connection, get_resource("contacts"), [key]).get(str(key), {})
    numbers = [contact[name] for name in contacts.NUMBER_FIELDS if contact.get(name)]
    spellings = [spelling for number in numbers for spelling in phone_numbers.list_spellings(number)]
    return (AnyOf((Condition("src", "in", spellings), Condition("dst", "in", spellings))),)


_SMS_THREAD = RelatedRecords("users", "sms", _is_between_numbers)

SUBCOLLECTIONS: dict[str, RelatedRecords | StoredBelow] = {
    "GET /calls/{id}/monitors": RelatedRecords("calls", "monitors", _has_parent_id("live_id")),
    "GET /cdrs/{id}/notes": StoredBelow("cdrs", "notes", subresources.NOTES, count_field="nb_notes"),
    "GET /contacts/{id}/cdrs": RelatedRecords("contacts", "cdrs", _has_number_of_contact),
    "GET /users/{id}/audio": StoredBelow("users", "audio", subresources.ANNOUNCEMENTS),
    "GET /users/{id}/calls": RelatedRecords("users", "calls", _is_call_of_user),
    "GET /users/{id}/cdrs": RelatedRecords("users", "cdrs", _has_parent_id("user_id")),
    "GET /users/{id}/chatmsgs": StoredBelow(
        "users", "chatmsgs", subresources.MESSAGES, required_collection="chats"
    ),
    "GET /users/{id}/contacts": RelatedRecords("users", "contacts", _is_visible_contact),
    "GET /users/{id}/sms/threads/{from}/{to}": _SMS_THREAD,
    "GET /users/{id}/smsthreads/{from}/{to}": _SMS_THREAD,
}
"""Operations below a record that are served from the mirror, by name."""
