"""Visitors of the website: chats with users, and uses of the call-me-back widget."""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.records import numbers, words
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import Person
from integration.simulator.records.seeds import SEEDS

Record = dict[str, Any]

_VISITORS = SEEDS["visitors"]
_REFERERS = (None, "https://search.example.net/")


def add_chat(state: AccountState, rng: random.Random, operator: Person, started_at: float) -> Record:
    """Add an ended chat with its messages; return the chat.

    `started_at` is a Unix time.
    """
    chat_id = state.new_id("chats")
    question, answer = words.choose_sms_pair(rng)
    name, (city, place) = rng.choice(_VISITORS["names"]), rng.choice(_VISITORS["places"])
    lines = [
        ("visitor", question, rng.randrange(2, 10)),
        ("operator", f"Hello, {operator.first_name} here. {answer}", rng.randrange(15, 60)),
        ("visitor", "Thank you!", rng.randrange(10, 90)),
    ]
    sent_at = started_at
    for sender_kind, message, wait_seconds in lines:
        sent_at += wait_seconds
        state.create(
            "chatmsgs",
            **{"from": sender_kind},
            chat_id=chat_id,
            user_id=operator.id,
            name=name if sender_kind == "visitor" else operator.name,
            message=message,
            created_at=clock.utc_text(sent_at),
        )
    return state.create(
        "chats",
        id=chat_id,
        operator_id=operator.id,
        created_at=clock.utc_text(started_at),
        duration=int(sent_at) - int(started_at),
        operator_ua=_VISITORS["browsers"][0],
        visitor_id=f"v{rng.getrandbits(48):012x}",
        visitor_name=name,
        visitor_email=f"{name.lower()}@example.net",
        visitor_ip=f"198.51.100.{rng.randrange(1, 255)}",
        visitor_city=city,
        visitor_geo=place,
        visitor_referer=rng.choice(_REFERERS),
        visitor_ua=rng.choice(_VISITORS["browsers"]),
    )


def record_visit(state: AccountState, phone: str, visited_at: float) -> None:
    """Record a use of the widget by the visitor `phone`.

    An unknown number creates a visitor. `visited_at` is a Unix time.
    """
    visitors = state.collections["callmeback/visitors"].records.values()
    visitor = next((record for record in visitors if record["phone"] == phone), None)
    if visitor is None:
        rng, is_american = random.Random(f"visitor {phone}"), phone.startswith("1")
        visitor = state.create(
            "callmeback/visitors",
            phone=phone,
            country="US" if is_american else "GB",
            city="Boston" if is_american else rng.choice(_VISITORS["cities"]),
            ip=f"192.0.2.{rng.randrange(1, 255)}",
            ua=rng.choice(_VISITORS["browsers"]),
            landing_page="https://example.com" + rng.choice(_VISITORS["pages"]),
            referer=rng.choice(_REFERERS),
            created_at=clock.utc_text(visited_at),
        )
    visitor["nb_calls"] += 1
    visitor["last_seen_at"] = clock.utc_text(visited_at)


def choose_visitor_phone(rng: random.Random) -> str:
    """Choose the number of a website visitor.

    Other calls rarely use numbers of this range.
    """
    return numbers.make_mobile_number(rng.randrange(700, 1000))
