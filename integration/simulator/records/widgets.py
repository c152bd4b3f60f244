"""Call-me-back: websites with the widget, its settings and buttons, visitors, and the calls they asked for.

Of websites, buttons, visitors and calls the specification shows no fields of their own; all but those of
settings are invented. A call of the widget is a CDR with destination `callmeback`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from integration.core import clock
from integration.simulator.http.bodies import Form, filled, flag, named, number, text, url, whole
from integration.simulator.records import numbers
from integration.simulator.records.contacts import OPENED
from integration.simulator.records.store import owned_by

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
    found = whole(value)
    if found not in _POSITIONS.values():
        raise ValueError
    return found


def _countries(value: Any) -> str:
    """A list of country codes, or their text with commas."""
    return ",".join(text(entry) for entry in value) if isinstance(value, list) else text(value)


FORM = Form(
    {
        "button_id": whole,
        "name": filled,
        "position": _position,
        "floating_icon": flag,
        "culture": text,
        "allowed_countries": _countries,
        "show_to_allowed_countries_only": flag,
        "welcome_screen_msg": text,
        "privacy_policy_url": url,
        "ddi_e164": whole,
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
        "created_at": clock.stamp(),
        **values,
    }


def kept(world: World, body: Record) -> Record:
    """The fields of a setting's record that a checked body sets. Raises ValueError for an unknown number."""
    found = {name: value for name, value in body.items() if name not in ("ddi_e164", "culture")}
    if body.get("ddi_e164") is not None:
        line = world.collections["ddis"].records.get(str(body["ddi_e164"]))
        if line is None:
            raise ValueError("ddi_e164")
        found["ddi"] = int(line["id"])
    button = found.get("button_id")
    if button is not None and button not in world.collections["callmeback/buttons"].records:
        raise ValueError("button_id")
    return found


def lay_out(world: World) -> None:
    world.collect(
        "callmeback/buttons",
        fields=("id", "name", "data_online", "data_offline", "created_at"),
        records=[
            {
                "id": 2001,
                "name": "Round, blue",
                "data_online": "Call me back",
                "data_offline": "Leave your number",
                "created_at": OPENED,
            }
        ],
    )
    world.collect(
        "callmeback/settings",
        records=[
            setting_record(
                1501,
                button_id=2001,
                name="Website widget",
                ddi=int(world.account.lines[0].id),
                privacy_policy_url="https://example.com/privacy",
                created_at=OPENED,
            )
        ],
    )
    world.collect(
        "callmeback/websites",
        fields=("id", "name", "url", "setting_id", "created_at"),
        records=[
            {
                "id": 1601,
                "name": "Shop",
                "url": "https://example.com/",
                "setting_id": 1501,
                "created_at": OPENED,
            }
        ],
    )
    world.collect("callmeback/visitors", fields=_VISITOR_FIELDS)
    world.collect(
        "callmeback/cdrs",
        fields=_CDR_FIELDS,
        mine=owned_by("user_id"),
        derive=lambda: _calls(world),
    )


_VISITOR_FIELDS = named(
    "id website_id phone country city ip ua landing_page referer nb_calls created_at last_seen_at"
)
_CDR_FIELDS = named(
    "id cdr_id live_id user_id setting_id website_id calldate from to duration billsec disposition"
)


def _calls(world: World) -> Iterator[Record]:
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


def visit(world: World, phone: str, at: float) -> Record:
    """Somebody at `phone` uses the widget: a new visitor, or one seen before."""
    visitors = world.collections["callmeback/visitors"]
    found = next((record for record in visitors.records.values() if record["phone"] == phone), None)
    if found is None:
        rng = random.Random(f"visitor {phone}")
        found = visitors.add(
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
                "created_at": clock.stamp(at),
                "last_seen_at": clock.stamp(at),
            }
        )
    found["nb_calls"] += 1
    found["last_seen_at"] = clock.stamp(at)
    return found


def visitor_phone(rng: random.Random) -> str:
    """The number of somebody who wants to be called, never one that calls of other kinds use much."""
    return numbers.mobile(rng.randrange(700, 1000))
