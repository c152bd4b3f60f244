"""Call-me-back: websites with the widget, its settings and buttons, visitors, and the calls they asked for.

Of websites, buttons, visitors and calls the specification shows no fields of their own; all but those of
settings are invented. A call of the widget is a CDR with destination `callmeback`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from integration.core import clock
from integration.simulator.http.bodies import (
    Form,
    boolean,
    integer,
    non_empty_text,
    number,
    split_names,
    text,
    url,
)
from integration.simulator.records import numbers
from integration.simulator.records.contacts import ACCOUNT_CREATED_AT
from integration.simulator.records.store import make_owner_test

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]

_POSITIONS = {"left": 1, "right": 2}
_PAGES = ("/", "/prices", "/contact", "/autumn")
_CITIES = ("London", "Leeds", "Bristol", "Cardiff", "York")
BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15",
)


def _position(value: Any) -> int:
    """'left', 'right' or the number that records show for them."""
    if isinstance(value, str) and value in _POSITIONS:
        return _POSITIONS[value]
    position = integer(value)
    if position not in _POSITIONS.values():
        raise ValueError
    return position


def _countries(value: Any) -> str:
    """A list of country codes, or their text with commas."""
    return ",".join(text(entry) for entry in value) if isinstance(value, list) else text(value)


FORM = Form(
    {
        "button_id": integer,
        "name": non_empty_text,
        "position": _position,
        "floating_icon": boolean,
        "culture": text,
        "allowed_countries": _countries,
        "show_to_allowed_countries_only": boolean,
        "welcome_screen_msg": text,
        "privacy_policy_url": url,
        "ddi_e164": integer,
        "max_call_rate": number,
    },
    ("name",),
)


def setting_record(setting_id: int, **values: Any) -> Record:
    """`culture` is 0 (English), the one value seen; the rate has its observed default (observed.md §4)."""
    return {
        "id": setting_id,
        "button_id": None,
        "name": "",
        "culture": 0,
        "ddi": None,
        "position": 2,
        "allowed_countries": "GB,IE",
        "floating_icon": True,
        "show_to_allowed_countries_only": False,
        "privacy_policy_url": None,
        "title": "Shall we call you?",
        "welcome_screen_msg": "Leave your number, we ring in 30 seconds.",
        "max_call_rate": 0.15,
        "created_at": clock.utc_text(),
        **values,
    }


def make_record_fields(world: World, body: Record) -> Record:
    """The fields of a setting's record that a checked body sets. Raises ValueError for an unknown number."""
    record_fields = {name: value for name, value in body.items() if name not in ("ddi_e164", "culture")}
    if body.get("ddi_e164") is not None:
        ddi = world.collections["ddis"].records.get(str(body["ddi_e164"]))
        if ddi is None:
            raise ValueError("ddi_e164")
        record_fields["ddi"] = int(ddi["id"])
    button = record_fields.get("button_id")
    if button is not None and button not in world.collections["callmeback/buttons"].records:
        raise ValueError("button_id")
    return record_fields


def add_collections(world: World) -> None:
    world.add_collection(
        "callmeback/buttons",
        fields=("id", "name", "data_online", "data_offline", "created_at"),
        records=[
            {
                "id": 2001,
                "name": "Round, blue",
                "data_online": "Call me back",
                "data_offline": "Leave your number",
                "created_at": ACCOUNT_CREATED_AT,
            }
        ],
    )
    world.add_collection(
        "callmeback/settings",
        records=[
            setting_record(
                1501,
                button_id=2001,
                name="Website widget",
                ddi=int(world.account.ddis[0].id),
                privacy_policy_url="https://example.com/privacy",
                created_at=ACCOUNT_CREATED_AT,
            )
        ],
    )
    world.add_collection(
        "callmeback/websites",
        fields=("id", "name", "url", "setting_id", "created_at"),
        records=[
            {
                "id": 1601,
                "name": "Shop",
                "url": "https://example.com/",
                "setting_id": 1501,
                "created_at": ACCOUNT_CREATED_AT,
            }
        ],
    )
    world.add_collection("callmeback/visitors", fields=_VISITOR_FIELDS)
    world.add_collection(
        "callmeback/cdrs",
        fields=_CDR_FIELDS,
        mine=make_owner_test("user_id"),
        derive=lambda: _iterate_calls(world),
    )


_VISITOR_FIELDS = split_names(
    "id website_id phone country city ip ua landing_page referer nb_calls created_at last_seen_at"
)
_CDR_FIELDS = split_names(
    "id cdr_id live_id user_id setting_id website_id calldate from to duration billsec disposition"
)


def _iterate_calls(world: World) -> Iterator[Record]:
    website = next(iter(world.collections["callmeback/websites"].records.values()))
    for cdr in world.collections["cdrs"].records.values():
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


def record_visit(world: World, phone: str, visited_at: float) -> Record:
    """Somebody at `phone` uses the widget: a new visitor, or one seen before."""
    visitors = world.collections["callmeback/visitors"]
    visitor = next((record for record in visitors.records.values() if record["phone"] == phone), None)
    if visitor is None:
        rng = random.Random(f"visitor {phone}")
        visitor = visitors.add(
            {
                "id": world.new_id("callmeback/visitors"),
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
    """The number of somebody who wants to be called, never one that calls of other kinds use much."""
    return numbers.make_mobile_number(rng.randrange(700, 1000))
