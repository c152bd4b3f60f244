"""Contacts of the account: invented persons and companies."""

from __future__ import annotations

import random
from typing import Any

from integration.simulator.records import numbers
from integration.simulator.records.record_fields import make_record
from integration.simulator.records.seeds import SEEDS

Record = dict[str, Any]

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
