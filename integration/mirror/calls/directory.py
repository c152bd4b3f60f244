"""Who is at the ends of a leg: persons of ours, groups of ours, contexts and what answers in them.

A `Directory` is what we know of our own people and groups; without one (before the first sync) only what
the platform says about a leg itself is known, and less counts as answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from integration.core.phone_numbers import clean_name, is_short, withheld

Answering = Literal["phone", "forward", "conference", "group", "ivr", "machine", "outside", "unknown"]
"""What picks up in a context: a user's phone, a Follow-Me or network-unavailable target, a conference, a
queue or ring group (music), an IVR, another machine, the public network, or nobody knows."""

MAX_DIGITS = 18
"""Of an id in text: more may not fit 64 bits, and is no id of the platform's."""

_GROUP_ID = re.compile(r"^(RG|RINGGROUP|RING_GROUP|Q|QUEUE)[-_:](\d+)$")
_CONTEXTS: tuple[tuple[re.Pattern[str], Answering], ...] = (
    (re.compile(r"^(LOCAL_USER|USER_LOCAL|USER)$"), "phone"),
    (re.compile(r"^(FOLLOW_?ME|FM|NUN|NETWORK_UNAVAILABLE|NETWORK_UNAVAILABILITY)"), "forward"),
    (re.compile(r"^CONF"), "conference"),
    (re.compile(r"^(RG|RING_?GROUP|Q|QUEUE)([-_:]|$)"), "group"),
    (re.compile(r"^IVR"), "ivr"),
    (re.compile(r"^(VM|VOICE_?MAIL|PARK|ANNOUNCE|MOH|MUSIC|TEST_CALL|ECHO|FAX)"), "machine"),
    (re.compile(r"^PSTN"), "outside"),
)


@lru_cache(maxsize=1024)
def answering(context: str | None) -> Answering:
    """What answers in `context`. The set of contexts is open (observed.md §1.2)."""
    text = _normal(context)
    return next((kind for pattern, kind in _CONTEXTS if pattern.match(text)), "unknown")


@lru_cache(maxsize=1024)
def group_in(context: str | None) -> tuple[str, int | None] | None:
    """('ringgroup', 80001) of 'RG-80001'; ('queue', None) of 'Queue'; None where no group is named."""
    text = _normal(context)
    if match := _GROUP_ID.match(text):
        return ("queue" if match[1].startswith("Q") else "ringgroup"), id_of(match[2])
    if answering(context) != "group":
        return None
    return ("queue" if text.startswith("Q") else "ringgroup"), None


def id_of(text: str | None) -> int | None:
    """The id that text is, or None."""
    if not text or len(text) > MAX_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)


def _normal(context: str | None) -> str:
    return (context or "").strip().upper().replace(" ", "_")


class Person(NamedTuple):
    """A user of the account: `id` is the user id, `ext` the extension number people dial."""

    id: int
    ext: str | None
    name: str


class Group(NamedTuple):
    """A queue or ring group. `patience` is how long it lets one phone ring, or waits before it tries the
    next (`ring_time`, a queue's `retry`), in seconds; None where unknown."""

    kind: str
    id: int
    number: str | None
    name: str
    patience: int | None


@dataclass(frozen=True)
class Directory:
    """Our people, groups and other numbers of our own, by what the platform calls them in a leg."""

    people: dict[int, Person] = field(default_factory=dict)
    by_ext: dict[str, Person] = field(default_factory=dict)
    by_name: dict[str, Person] = field(default_factory=dict)
    groups: dict[tuple[str, int], Group] = field(default_factory=dict)
    by_number: dict[str, Group] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    """Extension numbers of IVRs and conferences."""
    ddis: dict[str, str] = field(default_factory=dict)
    """Our outside numbers in E.164, with the names people gave them."""

    @classmethod
    def of(
        cls,
        people: Iterable[Person],
        groups: Iterable[Group] = (),
        machines: Iterable[str] = (),
        ddis: dict[str, str] | None = None,
    ) -> Directory:
        """Names that two people share say nothing and are left out."""
        everyone = sorted(people)
        names = [person.name.casefold() for person in everyone]
        groups = sorted(groups, key=lambda group: (group.kind, group.id))
        return cls(
            {person.id: person for person in everyone},
            {person.ext: person for person in everyone if person.ext},
            {
                person.name.casefold(): person
                for person in everyone
                if names.count(person.name.casefold()) == 1
            },
            {(group.kind, group.id): group for group in groups},
            {group.number: group for group in groups if group.number},
            tuple(sorted(set(machines))),
            ddis or {},
        )

    def person(self, id_: str | None, number: str | None, name: str | None) -> Person | None:
        """The user that a leg's end names. Webhooks give an extension's id where CDRs give a user's, so
        that number and name are tried as well."""
        if id_ and id_ != "0":
            found = self.people.get(id_of(id_) or 0) or self.by_ext.get(id_)
            if found is not None:
                return found
        if number and (found := self.by_ext.get(number)) is not None:
            return found
        cleaned = clean_name(name)
        return self.by_name.get(cleaned.casefold()) if cleaned else None

    def group(self, kind: str, id_: int | None, dst_id: str | None, dst: str | None) -> Group | None:
        """The group by its id, else by the id or number that the leg was sent to."""
        if id_ is not None:
            return self.groups.get((kind, id_))
        found = self.groups.get((kind, id_of(dst_id) or 0))
        if found is not None:
            return found
        found = self.by_number.get(dst or "")
        return found if found is not None and found.kind == kind else None

    def is_own_number(self, number: str | None) -> bool:
        """True for an extension of ours: a user's, a group's, an IVR's, a conference's."""
        return bool(number) and (number in self.by_ext or number in self.by_number or number in self.machines)

    def is_ours(self, number: str | None, id_: str | None) -> bool:
        """True where an end of a leg is one of ours. A long number is outside whatever its id says: CDRs
        put the ids of contacts into the same field (specification, CDR `src_id`)."""
        if self.is_own_number(number):
            return True
        if not (withheld(number) or is_short(number)):
            return False
        return id_of(id_) in self.people
