"""Contacts of the account: invented persons and companies."""

from __future__ import annotations

import random
from typing import Any

from integration.simulator.records import numbers
from integration.simulator.records.record_fields import make_record

Record = dict[str, Any]


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


def make_contacts(rng: random.Random, count: int, user_ids: list[int]) -> list[Record]:
    """Create `count` contacts with a mobile number, a landline number or both.

    About one in five is private to one of `user_ids`.
    """
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
            make_record(
                "contacts",
                id=610001 + n,
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
            )
        )
        contacts[-1]["global"] = is_shared
    return contacts
