"""Invented account: users, numbers, ring groups and queues."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records import numbers
from integration.simulator.records.contacts import make_contacts

Record = dict[str, Any]

CUSTOMER_ID = 100001
FIRST_USER_ID = 1000001
FIRST_EXTENSION = 1001

_NAMES = (
    ("Ada", "Marlow"),
    ("Ben", "Okafor"),
    ("Clara", "Whitfield"),
    ("Dev", "Patel"),
    ("Elena", "Costa"),
    ("Finn", "Gallagher"),
    ("Grace", "Osei"),
    ("Hugo", "Lindqvist"),
    ("Iris", "Tanaka"),
    ("Jonas", "Becker"),
    ("Kezia", "Adeyemi"),
    ("Liam", "O'Shea"),
)
_PASSWORD_WORDS = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbour",
    "indigo",
    "juniper",
)
_USER_AGENTS = (
    "Desk 3.4.0 / win32",
    "Desk 3.4.0 / darwin",
    "Mobile 5.1.2 / android",
    "Yealink T46S 66.86",
    None,
)


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
    pickup_groups: tuple[int, ...] = ()
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
    people = [_make_person(rng, n, first, last) for n, (first, last) in enumerate(_NAMES)]
    people[0].is_root = True
    people[2].has_two_factor = True
    people[11].is_online = False
    for n in (4, 7, 10):
        people[n].log_missed_calls = False
    for n in (1, 3, 4, 5, 6, 8):
        people[n].monitor = "A"
    people[9].monitor = "I"
    for n in (1, 3, 5):
        people[n].has_transcripts = True
    people[0].vm_announcement_id, people[1].vm_announcement_id = 77001, 77002
    groups = [
        Group(80001, "ringgroup", "Sales", 611, "A", 20, people[1:5], cli_prefix=True, final_dst_type="V"),
        Group(80002, "ringgroup", "Support", 612, "A", 25, people[4:7]),
        Group(80003, "ringgroup", "Workshop", 613, "H", 20, people[7:10]),
        Group(80101, "queue", "Service line", 601, "A", 15, people[4:8]),
        Group(80102, "queue", "Bookings", 602, "H", 15, [people[8], people[9], people[10]]),
    ]
    for group in groups:
        group.logged_in = {member.id: n != 2 for n, member in enumerate(group.members)}
    targets: list[tuple[str, Person | Group]] = [
        ("Main number", groups[0]),
        ("Support", groups[1]),
        ("Workshop", groups[2]),
        ("Service line", groups[3]),
        ("Bookings", groups[4]),
        ("Ada direct", people[0]),
        ("Ben direct", people[1]),
        ("Dev direct", people[3]),
    ]
    ddis = [
        Ddi(str(4001 + n), numbers.make_london_number(100 + n), name, target, sms=n not in (3, 4), fax=n == 0)
        for n, (name, target) in enumerate(targets)
    ]
    for person in people:
        person.cli = next((ddi.e164 for ddi in ddis if ddi.target is person), ddis[0].e164)
    return Account(people, groups, ddis, make_contacts(rng, contacts, [person.id for person in people]))


def _make_person(rng: random.Random, n: int, first: str, last: str) -> Person:
    return Person(
        id=FIRST_USER_ID + n,
        ext=str(FIRST_EXTENSION + n),
        first_name=first,
        last_name=last,
        email=f"{first.lower()}@example.com",
        password=f"{rng.choice(_PASSWORD_WORDS)}-{rng.choice(_PASSWORD_WORDS)}-{rng.randrange(1000, 10000)}",
        api_key=make_secret(rng),
        cli="",
        user_agent=_USER_AGENTS[n % len(_USER_AGENTS)],
        ring_time=rng.choice((15, 20, 25)),
        sip_endpoint_id=500001 + n,
    )
