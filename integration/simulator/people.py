"""The invented account: its people, numbers, ring groups, queues and contacts, as records of the platform.

List forms show what the platform lists; `*_item` forms what a record's own path answers with (more).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from integration.simulator import numbers

Record = dict[str, Any]

CUSTOMER_ID = 100001
FIRST_USER_ID = 1000001
FIRST_EXTENSION = 1001
OPENED = "2025-01-13 09:00:00"

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
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "indigo", "juniper")
_AGENTS = ("Desk 3.4.0 / win32", "Desk 3.4.0 / darwin", "Mobile 5.1.2 / android", "Yealink T46S 66.86", None)

_FIRST = [
    "Amelia",
    "Noah",
    "Olivia",
    "Theo",
    "Freya",
    "Arthur",
    "Isla",
    "Oscar",
    "Maya",
    "Leo",
    "Zara",
    "Felix",
    "Nadia",
    "Ivan",
    "Rosa",
    "Samir",
    "Tess",
    "Viktor",
    "Yara",
    "Quentin",
    "Petra",
    "Omar",
    "Nina",
    "Milo",
    "Lena",
    "Karim",
    "Jade",
    "Ingrid",
    "Hassan",
    "Greta",
]
_LAST = [
    "Hart",
    "Bennett",
    "Cole",
    "Dawson",
    "Ellis",
    "Farrow",
    "Grant",
    "Hale",
    "Ingram",
    "Jarvis",
    "Keane",
    "Lowe",
    "Mercer",
    "Nolan",
    "Oakley",
    "Pryce",
    "Quill",
    "Rowe",
    "Sutton",
    "Thorne",
    "Underhill",
    "Vance",
    "Walsh",
    "Yates",
    "Zeller",
    "Ashby",
    "Blake",
    "Crane",
    "Drummond",
    "Esposito",
]
_COMPANIES = [
    "Larkfield Bakery",
    "Northgate Cycles",
    "Harbour Dental",
    "Pinecrest Joinery",
    "Bluebell Florists",
    "Ashdown Legal",
    "Quarry Lane Surgery",
    "Tidewater Chandlers",
    "Fernhill Nursery",
    "Copperfield Books",
    "Redwood Lettings",
    "Millstone Coffee",
    "Summit Outdoor",
    "Lantern Theatre",
    "Greyfriars Hotel",
]


@dataclass(slots=True)
class Person:
    """A user of the account with a telephone. `password` and `api_key` are invented, and printed at start."""

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
    two_factor: bool = False
    monitor: str = "N"
    transcripts: bool = False
    log_missed_calls: bool = True
    ring_time: int = 20
    online: bool = True
    sip_endpoint_id: int = 0

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}"


@dataclass(slots=True)
class Group:
    """A ring group or queue: `kind` 'ringgroup' or 'queue', `strategy` 'A' ring all or 'H' hunt."""

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
        """`RG-<id>` as live captures show it; `Queue` as the documentation has it (observed.md §1.2)."""
        return f"RG-{self.id}" if self.kind == "ringgroup" else "Queue"


@dataclass(slots=True)
class Line:
    """One of the account's numbers and where its calls go: a Person or a Group."""

    id: str
    e164: str
    name: str
    target: Person | Group
    sms: bool = True


@dataclass(slots=True)
class Account:
    people: list[Person]
    groups: list[Group]
    lines: list[Line]
    contacts: list[Record]

    @property
    def admin(self) -> Person:
        return self.people[0]

    @property
    def ordinary(self) -> Person:
        """A user without any right over others."""
        return self.people[1]

    def person(self, user_id: object) -> Person | None:
        return next((p for p in self.people if str(p.id) == str(user_id)), None)

    def line_of(self, target: Person | Group) -> Line:
        return next((line for line in self.lines if line.target is target), self.lines[0])


def secret(rng: random.Random) -> str:
    """40 lower-case hex digits, the form of every token and key of the platform (observed.md §2)."""
    return f"{rng.getrandbits(160):040x}"


def make_account(rng: random.Random, contacts: int = 60) -> Account:
    people = [_person(rng, n, first, last) for n, (first, last) in enumerate(_NAMES)]
    people[0].is_root = True
    people[2].two_factor = True
    people[11].online = False
    for n in (4, 7, 10):
        people[n].log_missed_calls = False
    for n in (1, 3, 4, 5, 6, 8):
        people[n].monitor = "A"
    people[9].monitor = "I"
    for n in (1, 3, 5):
        people[n].transcripts = True
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
    lines = [
        Line(str(4001 + n), numbers.london(100 + n), name, target, sms=n not in (3, 4))
        for n, (name, target) in enumerate(targets)
    ]
    for person in people:
        person.cli = next((line.e164 for line in lines if line.target is person), lines[0].e164)
    return Account(people, groups, lines, _contacts(rng, contacts, people))


def _person(rng: random.Random, n: int, first: str, last: str) -> Person:
    return Person(
        id=FIRST_USER_ID + n,
        ext=str(FIRST_EXTENSION + n),
        first_name=first,
        last_name=last,
        email=f"{first.lower()}@example.com",
        password=f"{rng.choice(_WORDS)}-{rng.choice(_WORDS)}-{rng.randrange(1000, 10000)}",
        api_key=secret(rng),
        cli="",
        user_agent=_AGENTS[n % len(_AGENTS)],
        ring_time=rng.choice((15, 20, 25)),
        sip_endpoint_id=500001 + n,
    )


def _contacts(rng: random.Random, count: int, people: list[Person]) -> list[Record]:
    names = [(first, last) for first in _FIRST for last in _LAST]
    rng.shuffle(names)
    pool = [numbers.mobile(n) for n in range(0, 700, 3)]
    rng.shuffle(pool)
    landlines = [numbers.london(n) for n in range(300, 900, 3)]
    rng.shuffle(landlines)
    found = []
    for n in range(count):
        first, last = names[n]
        shared = rng.random() < 0.8
        company = rng.choice(_COMPANIES) if rng.random() < 0.7 else None
        both = rng.random()
        found.append(
            contact_record(
                id=610001 + n,
                type="C",
                first_name=first,
                last_name=last,
                company=company,
                email=f"{first}.{last}@example.org".lower(),
                mobile=pool[n] if both < 0.8 else None,
                tel=landlines[n] if both > 0.6 else None,
                group_name=rng.choice(("Customers", "Suppliers", "Partners", None)),
                user_id=None if shared else rng.choice(people).id,
                notes=rng.choice(
                    (None, None, "Prefers a call in the morning", "Ask for order number / account")
                ),
                created_at=OPENED,
            )
        )
        found[-1]["global"] = shared
    return found


CONTACT_DEFAULTS: Record = {
    "id": 0,
    "type": "C",
    "dialler_source_id": None,
    "outcome_id": None,
    "rel_user_id": None,
    "user_id": None,
    "group_name": None,
    "first_name": None,
    "last_name": None,
    "company": None,
    "email": None,
    "ext": None,
    "tel": None,
    "tel_1": None,
    "tel_2": None,
    "mobile": None,
    "mobile_1": None,
    "mobile_2": None,
    "notes": None,
    "nb_call_attempts": 0,
    "global": True,
    "internal": False,
    "last_call_at": None,
    "next_call_at": None,
    "created_at": OPENED,
}


def contact_record(**values: Any) -> Record:
    return {**CONTACT_DEFAULTS, **values}


def user_record(person: Person) -> Record:
    """A user as /users lists it: the short form of the specification and what is observed in the list."""
    return {
        "id": person.id,
        "ext": person.ext,
        "email": person.email,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "active": True,
        "is_initial": person.is_root,
        "is_root": person.is_root,
        "roles": ["ROLE_ADMIN"] if person.is_root else ["ROLE_USER"],
        "two_factor_auth": "E" if person.two_factor else "D",
        "visited_apps": ["dashboard"] if person.is_root else [],
        "customer": CUSTOMER_ID,
        "dnd": False,
        "nb_sip_locations": 1 if person.online else 0,
        "cli": person.cli,
        "created_at": OPENED,
    }


def user_item(person: Person, vm_new: int = 0, vm_old: int = 0) -> Record:
    """A user as /users/{id} answers: the full model of the specification."""
    listed = user_record(person)
    del listed["customer"]
    return {
        **listed,
        "customer_id_id": CUSTOMER_ID,
        "mobile_activated": False,
        "mobile": None,
        "esc_cli": None,
        "cc": "44",
        "area_code": "20",
        "ring_time": str(person.ring_time),
        "final_dst_type": "V",
        "final_dst_id": person.id,
        "vm_pin": f"{person.id % 10000:04d}",
        "vm_to_email": True,
        "vm_emails": [person.email],
        "vm_tts": "N",
        "vm_new": vm_new,
        "vm_old": vm_old,
        "cw": True,
        "rec_allowed": True,
        "rec_never_internal": True,
        "fm": False,
        "fm_only_direct": False,
        "fm_init_ring_time": 10,
        "fm_announcement_enabled": False,
        "fm_confirm_required": False,
        "fm_allowed": True,
        "fm_targets": [],
        "fm_ring_time": "20",
        "fm_strategy": "A",
        "fm_final_dst_type": "V",
        "fm_final_dst_id": person.id,
        "fm_cli": "R",
        "nun": None,
        "nun_only_direct": False,
        "nun_ring_time": 20,
        "monitor": person.monitor,
        "monitor_transcript": "Y" if person.transcripts else "D",
        "auto_answer_header": "N",
        "log_missed_calls": person.log_missed_calls,
        "language": "en",
        "cnam": False,
        "email_missed": "N",
        "call_barge_allowed": person.is_root,
        "transfer_cli": "R",
        "pickup_group_id": None,
        "location_id": None,
        "vm_announcement_id": None,
        "fm_announcement_id": None,
        "legacy_api_key": None,
    }


def me_record(person: Person) -> Record:
    return {
        "id": person.id,
        "customer_id": CUSTOMER_ID,
        "email": person.email,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "is_root": person.is_root,
        "language": "en",
        "currency_iso": "GBP",
        "balance": 48.2,
        "cc": "44",
        "cli": person.cli,
        "sip_password": f"invented-{person.ext}",
        "sip_domain": "switch.sip.example.net",
    }


def line_record(line: Line) -> Record:
    target_type = "U"
    if isinstance(line.target, Group):
        target_type = "R" if line.target.kind == "ringgroup" else "Q"
    return {
        "id": line.id,
        "e164": line.e164,
        "name": line.name,
        "info": "London, United Kingdom",
        "uri": None,
        "target_type": target_type,
        "target_id": line.target.id,
        "status": "A",
        "flag": "N",
        "channels": 10,
        "cli_prefix": 1,
        "cli_hide": False,
        "rate": 0.0,
        "sms_enabled": line.sms,
        "sms_email": None,
        "fax_enabled": False,
        "fax_email": None,
        "has_fax_password": False,
        "esc_enabled": False,
        "tel_verified": True,
        "created_at": OPENED,
    }


def group_record(group: Group) -> Record:
    """A ring group or queue as its collection lists it; its people are only in the item and with include."""
    if group.kind == "ringgroup":
        return {
            "id": group.id,
            "name": group.name,
            "number": group.number,
            "strategy": group.strategy,
            "ring_time": group.ring_time,
            "cli_prefix": group.cli_prefix,
            "moh_id": 1,
            "final_dst_type": group.final_dst_type,
            "final_dst_id": group.members[0].id if group.final_dst_type == "V" else None,
        }
    return {
        "id": group.id,
        "name": group.name,
        "number": group.number,
        "ring_strategy": group.strategy,
        "ring_time": group.ring_time,
        "retry": 5,
        "wrap_up_time": 10,
        "wrap_up_panel": False,
        "wrap_up_panel_timeout": 30,
        "skip_busy": True,
        "max_callers": 20,
        "max_wait_time": 300,
        "join_empty": True,
        "moh": 1,
        "monitor": 0,
        "ivr": None,
        "post_call_ivr_id": None,
        "language": "en",
        "caller_sounds": None,
        "cli_prefix": group.cli_prefix,
        "wait_time_prefix": False,
        "pos_ann": True,
        "hold_ann": False,
        "ann_freq": 60,
        "hash_to_exit": False,
        "liaf": False,
        "email_missed": "N",
        "final_dst_type": group.final_dst_type,
        "final_dst_id": None,
    }
