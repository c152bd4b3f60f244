"""The account's contacts: invented people and companies outside."""

from __future__ import annotations

import random
from typing import Any

from integration.simulator.records import numbers

Record = dict[str, Any]

ACCOUNT_CREATED_AT = "2025-01-13 09:00:00"
"""When the account, and all that is as old, was created."""


def _split(text: str, separator: str | None = None) -> list[str]:
    return text.split(separator)


_FIRST_NAMES = _split(
    "Amelia Noah Olivia Theo Freya Arthur Isla Oscar Maya Leo Zara Felix Nadia Ivan Rosa Samir Tess Viktor "
    "Yara Quentin Petra Omar Nina Milo Lena Karim Jade Ingrid Hassan Greta"
)
_LAST_NAMES = _split(
    "Hart Bennett Cole Dawson Ellis Farrow Grant Hale Ingram Jarvis Keane Lowe Mercer Nolan Oakley Pryce "
    "Quill Rowe Sutton Thorne Underhill Vance Walsh Yates Zeller Ashby Blake Crane Drummond Esposito"
)
_COMPANIES = _split(
    "Larkfield Bakery|Northgate Cycles|Harbour Dental|Pinecrest Joinery|Bluebell Florists|Ashdown Legal|"
    "Quarry Lane Surgery|Tidewater Chandlers|Fernhill Nursery|Copperfield Books|Redwood Lettings|"
    "Millstone Coffee|Summit Outdoor|Lantern Theatre|Greyfriars Hotel",
    "|",
)

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
    "created_at": ACCOUNT_CREATED_AT,
}


def contact_record(**values: Any) -> Record:
    return {**CONTACT_DEFAULTS, **values}


def make_contacts(rng: random.Random, count: int, user_ids: list[int]) -> list[Record]:
    """`count` contacts with mobile or landline or both; one in five belongs to one of `user_ids` alone."""
    names = [(first, last) for first in _FIRST_NAMES for last in _LAST_NAMES]
    rng.shuffle(names)
    mobiles = [numbers.make_mobile_number(n) for n in range(0, 700, 3)]
    rng.shuffle(mobiles)
    landlines = [numbers.make_london_number(n) for n in range(300, 900, 3)]
    rng.shuffle(landlines)
    contacts = []
    for n in range(count):
        first, last = names[n]
        is_shared = rng.random() < 0.8
        company = rng.choice(_COMPANIES) if rng.random() < 0.7 else None
        number_draw = rng.random()
        contacts.append(
            contact_record(
                id=610001 + n,
                type="C",
                first_name=first,
                last_name=last,
                company=company,
                email=f"{first}.{last}@example.org".lower(),
                mobile=mobiles[n] if number_draw < 0.8 else None,
                tel=landlines[n] if number_draw > 0.6 else None,
                group_name=rng.choice(("Customers", "Suppliers", "Partners", None)),
                user_id=None if is_shared else rng.choice(user_ids),
                notes=rng.choice(
                    (None, None, "Prefers a call in the morning", "Ask for order number / account")
                ),
                created_at=ACCOUNT_CREATED_AT,
            )
        )
        contacts[-1]["global"] = is_shared
    return contacts
