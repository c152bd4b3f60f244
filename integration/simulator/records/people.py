"""Invented account: users, numbers, ring groups and queues."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records import numbers
from integration.simulator.records.contacts import make_contacts
from integration.simulator.records.seeds import SEEDS

Record = dict[str, Any]

CUSTOMER_ID = 100001
FIRST_USER_ID = 1000001
FIRST_EXTENSION = 1001


@dataclass(slots=True)
class Person:
    """User of the account with a telephone.

    `password` and `api_key` are invented; /_simulator/account lists them. `ring_time`: seconds.
    `monitor`: recording setting A (all), I (inbound), O (outbound) or N (none).
    """

    id: int
    ext: str
    first_name: str
    last_name: str
    email: str
    password: str
    api_key: str
    cli: str
    user_agent: str | None
    is_root: bool = False
    has_two_factor: bool = False
    monitor: str = "N"
    has_transcripts: bool = False
    log_missed_calls: bool = True
    ring_time: int = 20
    is_online: bool = True
    sip_endpoint_id: int = 0
    pickup_group_id: int | None = None
    group_ids: list[int] = field(default_factory=list)
    location_id: int | None = None
    vm_announcement_id: int | None = None

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"


@dataclass(slots=True)
class Group:
    """Ring group or queue.

    `kind`: 'ringgroup' or 'queue'. `strategy`: 'A' (ring all) or 'H' (hunt). `ring_time`: seconds.
    `logged_in`: login state by user id.
    """

    id: int
    kind: str
    name: str
    number: int
    strategy: str
    ring_time: int
    members: list[Person]
    cli_prefix: bool = False
    final_dst_type: str = "H"
    logged_in: dict[int, bool] = field(default_factory=dict)

    @property
    def context(self) -> str:
        """Call context: `RG-<id>` as observed, or `Queue` as documented.

        See docs/platform.md#10-event-fields.
        """
        return f"RG-{self.id}" if self.kind == "ringgroup" else "Queue"


@dataclass(frozen=True, slots=True)
class UnplayedDestination:
    """Target of a number that no script plays.

    `kind`: C (conference room) or I (IVR).
    """

    kind: str
    id: int


@dataclass(slots=True)
class Ddi:
    """Telephone number of the account, and the target of its calls."""

    id: str
    e164: str
    name: str
    target: Person | Group | UnplayedDestination
    sms: bool = True
    fax: bool = False


@dataclass(slots=True)
class Account:
    people: list[Person]
    groups: list[Group]
    ddis: list[Ddi]
    contacts: list[Record]

    @property
    def admin(self) -> Person:
        return self.people[0]

    @property
    def ordinary_user(self) -> Person:
        """User without administrator rights."""
        return self.people[1]

    def find_person(self, user_id: object) -> Person | None:
        return next((p for p in self.people if str(p.id) == str(user_id)), None)

    def find_ddi(self, target: Person | Group) -> Ddi:
        return next((ddi for ddi in self.ddis if ddi.target is target), self.ddis[0])

    def remove_person(self, person: Person) -> None:
        """Remove a user from the account and all groups.

        Numbers of the user are routed to the administrator.
        """
        self.people.remove(person)
        for group in self.groups:
            group.members = [member for member in group.members if member is not person]
            group.logged_in.pop(person.id, None)
        for ddi in self.ddis:
            if ddi.target is person:
                ddi.target = self.admin


def make_secret(rng: random.Random) -> str:
    """Create a token or key of 40 lower-case hexadecimal digits.

    All tokens and keys of the platform have this form. See docs/platform.md#2-sign-in.
    """
    return f"{rng.getrandbits(160):040x}"


def make_account(rng: random.Random, contacts: int = 60) -> Account:
    people = [_make_person(rng, n, entry) for n, entry in enumerate(SEEDS["users"])]
    by_name: dict[str, Person | Group] = {person.first_name: person for person in people}
    groups = []
    for entry in SEEDS["groups"]:
        members = [person for person in people if person.first_name in entry["members"]]
        logged_in = {member.id: n != 2 for n, member in enumerate(members)}
        groups.append(Group(**{**entry, "members": members}, logged_in=logged_in))
        by_name[entry["name"]] = groups[-1]
    ddis = [
        Ddi(**{**entry, "target": by_name[entry["target"]]}, id=str(4001 + n), e164=_make_own_number(n))
        for n, entry in enumerate(SEEDS["numbers"])
    ]
    for person in people:
        person.cli = next((ddi.e164 for ddi in ddis if ddi.target is person), ddis[0].e164)
    return Account(people, groups, ddis, make_contacts(rng, contacts, [person.id for person in people]))


def _make_own_number(n: int) -> str:
    return numbers.make_london_number(100 + n)


def _make_person(rng: random.Random, n: int, entry: Record) -> Person:
    words, agents = SEEDS["password_words"], SEEDS["user_agents"]
    return Person(
        **entry,
        id=FIRST_USER_ID + n,
        ext=str(FIRST_EXTENSION + n),
        email=f"{entry['first_name'].lower()}@example.com",
        password=f"{rng.choice(words)}-{rng.choice(words)}-{rng.randrange(1000, 10000)}",
        api_key=make_secret(rng),
        cli="",
        user_agent=agents[n % len(agents)] or None,
        ring_time=rng.choice((15, 20, 25)),
        sip_endpoint_id=500001 + n,
        # The user groups have five users each.
        group_ids=[75001 + n // 5],
    )
