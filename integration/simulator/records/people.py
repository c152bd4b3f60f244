"""Users, ring groups, queues and contacts of the invented account."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import ClassVar

from integration.simulator.records import numbers
from integration.simulator.records.record_fields import SEEDS, Record, copy_attributes, make_record

CUSTOMER_ID = 100001
FIRST_USER_ID = 1000001
FIRST_EXTENSION = 1001


@dataclass(slots=True, eq=False)
class Person:
    """User of the account with a telephone.

    `password` and `api_key` are invented; /_simulator/account lists them. `ring_time`: seconds.
    `monitor`: recording setting A (all), I (inbound), O (outbound) or N (none).
    """

    target_type: ClassVar[str] = "U"
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
    location_id: int | None = None
    vm_announcement_id: int | None = None

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"


@dataclass(slots=True, eq=False)
class Group:
    """Ring group or queue: its record and members.

    `kind`: 'ringgroup' or 'queue'. `logged_in`: login state by user id.
    """

    kind: str
    record: Record
    members: list[Person] = field(default_factory=list)
    logged_in: dict[int, bool] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return int(self.record["id"])

    @property
    def name(self) -> str:
        return str(self.record["name"])

    @property
    def target_type(self) -> str:
        return "R" if self.kind == "ringgroup" else "Q"

    @property
    def strategy(self) -> str:
        """'A' (ring all) or 'H' (hunt)."""
        strategy = self.record["strategy" if self.kind == "ringgroup" else "ring_strategy"]
        return "A" if strategy in ("A", None) else "H"

    @property
    def ring_time(self) -> int:
        """Seconds."""
        return max(1, int(self.record["ring_time"] or 20))

    @property
    def context(self) -> str:
        """Call context: `RG-<id>` as observed, or `Queue` as documented.

        See docs/platform.md#10-event-fields.
        """
        return f"RG-{self.id}" if self.kind == "ringgroup" else "Queue"


def make_secret(rng: random.Random) -> str:
    """Create a token or key of 40 lower-case hexadecimal digits.

    All tokens and keys of the platform have this form. See docs/platform.md#2-sign-in.
    """
    return f"{rng.getrandbits(160):040x}"


def make_people(rng: random.Random) -> list[Person]:
    words, agents = SEEDS["password_words"], SEEDS["user_agents"]
    return [
        Person(
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
        )
        for n, entry in enumerate(SEEDS["users"])
    ]


_GROUPS = ("Customers", "Suppliers", "Partners", None)
_NOTES = (None, None, "Prefers a call in the morning", "Ask for order number / account")


def make_contacts(rng: random.Random, count: int, user_ids: list[int]) -> list[Record]:
    """Create `count` contacts with a mobile number, a landline number or both.

    About one in five is private to one of `user_ids`.
    """
    seeds = SEEDS["contacts"]
    names = [(first, last) for first in seeds["first_names"] for last in seeds["last_names"]]
    rng.shuffle(names)
    mobiles = [numbers.make_mobile_number(n) for n in range(0, 700, 3)]
    rng.shuffle(mobiles)
    landlines = [numbers.make_london_number(n) for n in range(300, 900, 3)]
    rng.shuffle(landlines)
    contacts = []
    for n in range(count):
        first, last = names[n]
        is_shared = rng.random() < 0.8
        company = rng.choice(seeds["companies"]) if rng.random() < 0.7 else None
        number_draw = rng.random()
        contact = make_record(
            "contacts",
            id=610001 + n,
            first_name=first,
            last_name=last,
            company=company,
            email=f"{first}.{last}@example.org".lower(),
            mobile=mobiles[n] if number_draw < 0.8 else None,
            tel=landlines[n] if number_draw > 0.6 else None,
            group_name=rng.choice(_GROUPS),
            user_id=None if is_shared else rng.choice(user_ids),
            notes=rng.choice(_NOTES),
        )
        contact["global"] = is_shared
        contacts.append(contact)
    return contacts


def user_record(person: Person) -> Record:
    """Build a user as /users lists it.

    This is the specification's short form with observed fields.
    """
    return make_record(
        "users",
        **copy_attributes(person, "id ext email first_name last_name is_root cli"),
        is_initial=person.is_root,
        roles=["ROLE_ADMIN"] if person.is_root else ["ROLE_USER"],
        two_factor_auth="E" if person.has_two_factor else "D",
        visited_apps=["dashboard"] if person.is_root else [],
        customer=CUSTOMER_ID,
        nb_sip_locations=int(person.is_online),
    )


def user_item(person: Person, record: Record, vm_new: int, vm_old: int) -> Record:
    """Build a user as /users/{id} returns it, the specification's full model.

    `record`: the user as listed.
    """
    full_record = make_record(
        "users",
        is_full=True,
        **copy_attributes(person, "monitor log_missed_calls pickup_group_id vm_announcement_id"),
        customer_id_id=CUSTOMER_ID,
        ring_time=str(person.ring_time),
        final_dst_id=person.id,
        fm_final_dst_id=person.id,
        vm_pin=f"{person.id % 10000:04d}",
        vm_emails=[person.email],
        vm_new=vm_new,
        vm_old=vm_old,
        monitor_transcript="Y" if person.has_transcripts else "D",
        call_barge_allowed=person.is_root,
        location_id=None if person.location_id is None else str(person.location_id),
    )
    item = full_record | record
    del item["customer"]
    return item


def me_record(person: Person) -> Record:
    return make_record(
        "me",
        **copy_attributes(person, "id email first_name last_name is_root cli"),
        customer_id=CUSTOMER_ID,
        currency_iso="GBP",
        balance=48.2,
        cc="44",
        sip_password=f"invented-{person.ext}",
        sip_domain="switch.sip.example.net",
    )
