"""Call-me-back: websites with the widget, its settings and buttons, visitors, and calls.

The specification shows fields of settings only; the fields of websites, buttons, visitors and calls are
invented. A call of the widget is a CDR with destination `callmeback`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from integration.core import clock
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import make_record
from integration.simulator.records.store import make_owner_test

Record = dict[str, Any]

_PAGES = ("/", "/prices", "/contact", "/autumn")
_CITIES = ("London", "Leeds", "Bristol", "Cardiff", "York")
BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15",
)


def add_collections(state: AccountState) -> None:
    state.add_collection(
        "callmeback/buttons",
        records=[
            make_record(
                "callmeback/buttons",
                id=2001,
                name="Round, blue",
                data_online="Call me back",
                data_offline="Leave your number",
            )
        ],
    )
    state.add_collection(
        "callmeback/settings",
        records=[
            make_record(
                "callmeback/settings",
                id=1501,
                button_id=2001,
                name="Website widget",
                ddi=int(state.account.ddis[0].id),
                privacy_policy_url="https://example.com/privacy",
            )
        ],
    )
    state.add_collection(
        "callmeback/websites",
        records=[
            make_record(
                "callmeback/websites", id=1601, name="Shop", url="https://example.com/", setting_id=1501
            )
        ],
    )
    state.add_collection("callmeback/visitors")
    state.add_collection(
        "callmeback/cdrs",
        read_test=make_owner_test("user_id"),
        derive=lambda: _iterate_calls(state),
    )


def _iterate_calls(state: AccountState) -> Iterator[Record]:
    website = next(iter(state.collections["callmeback/websites"].records.values()))
    for cdr in state.collections["cdrs"].records.values():
        if cdr["destination"] == "callmeback" and not cdr["is_root"]:
            yield {
                "id": cdr["id"],
                "cdr_id": cdr["id"],
                "live_id": cdr["live_id"],
                "user_id": cdr["user_id"],
                "setting_id": website["setting_id"],
                "website_id": website["id"],
                "calldate": cdr["calldate"],
                "from": cdr["src"],
                "to": cdr["dst"],
                "duration": cdr["duration"],
                "billsec": cdr["billsec"],
                "disposition": cdr["disposition"],
            }


def record_visit(state: AccountState, phone: str, visited_at: float) -> Record:
    """Record a use of the widget by the visitor `phone`.

    An unknown number creates a visitor. `visited_at` is a Unix time.
    """
    visitors = state.collections["callmeback/visitors"]
    visitor = next((record for record in visitors.records.values() if record["phone"] == phone), None)
    if visitor is None:
        rng = random.Random(f"visitor {phone}")
        visitor = visitors.add(
            {
                "id": state.new_id("callmeback/visitors"),
                "website_id": 1601,
                "phone": phone,
                "country": "US" if phone.startswith("1") else "GB",
                "city": "Boston" if phone.startswith("1") else rng.choice(_CITIES),
                "ip": f"192.0.2.{rng.randrange(1, 255)}",
                "ua": rng.choice(BROWSERS),
                "landing_page": "https://example.com" + rng.choice(_PAGES),
                "referer": rng.choice((None, "https://search.example.net/")),
                "nb_calls": 0,
                "created_at": clock.utc_text(visited_at),
                "last_seen_at": clock.utc_text(visited_at),
            }
        )
    visitor["nb_calls"] += 1
    visitor["last_seen_at"] = clock.utc_text(visited_at)
    return visitor


def choose_visitor_phone(rng: random.Random) -> str:
    """Choose the number of a website visitor.

    Other calls rarely use numbers of this range.
    """
    return numbers.make_mobile_number(rng.randrange(700, 1000))
