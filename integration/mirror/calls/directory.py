"""Ends of a leg: users and groups of the account, contexts.

A `Directory` contains the users, groups and numbers of the account. Before the initial sync the directory is
empty. Ends are then identified only by the leg's own fields, and fewer calls count as answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from integration.core.ids import parse_id
from integration.core.phone_numbers import clean_name, is_short, is_withheld

AnsweredBy = Literal["phone", "forward", "conference", "group", "ivr", "machine", "outside", "unknown"]
"""Kind of end that answers in a context.

In this order: a user's phone, a Follow-Me or network-unavailable target, a conference, a queue or ring group
(music), an IVR, another machine, the public network, unknown.
"""

_GROUP_ID = re.compile(r"^(RG|RINGGROUP|RING_GROUP|Q|QUEUE)[-_:](\d+)$")
_CONTEXTS: tuple[tuple[re.Pattern[str], AnsweredBy], ...] = (
    (re.compile(r"^(LOCAL_USER|USER_LOCAL|USER)$"), "phone"),
    (re.compile(r"^(FOLLOW_?ME|FM|NUN|NETWORK_UNAVAILABLE|NETWORK_UNAVAILABILITY)"), "forward"),
    (re.compile(r"^CONF"), "conference"),
    (re.compile(r"^(RG|RING_?GROUP|Q|QUEUE)([-_:]|$)"), "group"),
    (re.compile(r"^IVR"), "ivr"),
    (re.compile(r"^(VM|VOICE_?MAIL|PARK|ANNOUNCE|MOH|MUSIC|TEST_CALL|ECHO|FAX)"), "machine"),
    (re.compile(r"^PSTN"), "outside"),
)


@lru_cache(maxsize=1024)
def classify_context(context: str | None) -> AnsweredBy:
    """Classify the end that answers in `context`.

    The set of contexts is open (docs/platform.md#10-event-fields). Unlisted contexts are 'unknown'.
    """
    text = _normalize(context)
    return next((kind for pattern, kind in _CONTEXTS if pattern.match(text)), "unknown")


@lru_cache(maxsize=1024)
def parse_group(context: str | None) -> tuple[str, int | None] | None:
    """Return the kind and id of the group that `context` names.

    'RG-80001' is ('ringgroup', 80001), 'Queue' is ('queue', None). None if the context names no group.
    """
    text = _normalize(context)
    if match := _GROUP_ID.match(text):
        return ("queue" if match[1].startswith("Q") else "ringgroup"), parse_id(match[2])
    if classify_context(context) != "group":
        return None
    return ("queue" if text.startswith("Q") else "ringgroup"), None


def _normalize(context: str | None) -> str:
    return (context or "").strip().upper().replace(" ", "_")


class Person(NamedTuple):
    """Platform user: `id` is the user id, `ext` the extension.

    The stored fingerprint of the directory contains the class name and the field names; a change of these
    makes every call due once after an upgrade.
    """

    id: int
    ext: str | None
    name: str


class Group(NamedTuple):
    """Queue or ring group.

    `patience`: seconds for which the group rings one phone or waits before the next (`ring_time`; `retry` of
    a queue); None if unknown. The stored fingerprint of the directory contains the class name and the field
    names; a change of these makes every call due once after an upgrade.
    """

    kind: str
    id: int
    number: str | None
    name: str
    patience: int | None


@dataclass(frozen=True)
class Directory:
    """Users, groups and numbers of the account, indexed by values of legs."""

    people: dict[int, Person] = field(default_factory=dict)
    people_by_extension: dict[str, Person] = field(default_factory=dict)
    people_by_name: dict[str, Person] = field(default_factory=dict)
    groups: dict[tuple[str, int], Group] = field(default_factory=dict)
    groups_by_number: dict[str, Group] = field(default_factory=dict)
    machine_numbers: tuple[str, ...] = ()
    """Internal numbers of IVRs and conferences."""
    ddis: dict[str, str] = field(default_factory=dict)
    """Names of the account's DDIs by their E.164 number."""

    @classmethod
    def build(
        cls,
        people: Iterable[Person],
        groups: Iterable[Group] = (),
        machine_numbers: Iterable[str] = (),
        ddis: dict[str, str] | None = None,
    ) -> Directory:
        """Build the indexes. Names that several users share are omitted from `people_by_name`."""
        sorted_people = sorted(people)
        names = [person.name.casefold() for person in sorted_people]
        groups = sorted(groups, key=lambda group: (group.kind, group.id))
        return cls(
            {person.id: person for person in sorted_people},
            {person.ext: person for person in sorted_people if person.ext},
            {
                person.name.casefold(): person
                for person in sorted_people
                if names.count(person.name.casefold()) == 1
            },
            {(group.kind, group.id): group for group in groups},
            {group.number: group for group in groups if group.number},
            tuple(sorted(set(machine_numbers))),
            ddis or {},
        )

    def find_person(self, id_: str | None, number: str | None, name: str | None) -> Person | None:
        """Find the user at one end of a leg.

        Compares id, extension and name, in this order. An id alone is not enough: webhooks contain the id of
        an extension where CDRs contain the id of a user.
        """
        if id_ and id_ != "0":
            person = self.people.get(parse_id(id_) or 0) or self.people_by_extension.get(id_)
            if person is not None:
                return person
        if number and (person := self.people_by_extension.get(number)) is not None:
            return person
        cleaned = clean_name(name)
        return self.people_by_name.get(cleaned.casefold()) if cleaned else None

    def find_group(self, kind: str, id_: int | None, dst_id: str | None, dst: str | None) -> Group | None:
        """Find the group by its id, otherwise by the leg's destination."""
        if id_ is not None:
            return self.groups.get((kind, id_))
        group = self.groups.get((kind, parse_id(dst_id) or 0))
        if group is not None:
            return group
        group = self.groups_by_number.get(dst or "")
        return group if group is not None and group.kind == kind else None

    def is_own_number(self, number: str | None) -> bool:
        """Return whether `number` is an internal number of the account.

        Users, groups, IVRs and conferences have internal numbers.
        """
        return bool(number) and (
            number in self.people_by_extension
            or number in self.groups_by_number
            or number in self.machine_numbers
        )

    def is_own(self, number: str | None, id_: str | None) -> bool:
        """Return whether an end of a leg belongs to the account.

        An internal number belongs to the account. For a withheld or short number the id decides. For a longer
        number the id is ignored, because CDRs put ids of contacts into the same field (specification, CDR
        `src_id`).
        """
        if self.is_own_number(number):
            return True
        if not (is_withheld(number) or is_short(number)):
            return False
        return parse_id(id_) in self.people
