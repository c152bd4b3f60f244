"""Chats of website visitors with users, and their messages.

The specification does not show the fields of chat messages; they are invented. So is the `state` of a chat:
2 (ended) or 1 (open).
"""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.records import words
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import CUSTOMER_ID, Person
from integration.simulator.records.store import make_owner_test
from integration.simulator.records.widgets import BROWSERS

Record = dict[str, Any]

_PLACES = (("London", "51.51,-0.13"), ("Leeds", "53.80,-1.55"), ("Cardiff", "51.48,-3.18"))
_NAMES = ("Sam", "Alex", "Robin", "Jo", "Charlie", "Morgan", "Kim", "Lee")


def add_collections(state: AccountState) -> None:
    state.add_collection("chats", read_test=make_owner_test("operator_id"))
    state.add_collection("chatmsgs", read_test=make_owner_test("user_id"))


def add_chat(state: AccountState, rng: random.Random, operator: Person, started_at: float) -> Record:
    """Add an ended chat with its messages; return the chat.

    `started_at` is a Unix time.
    """
    chat_id = state.new_id("chats")
    question, answer = words.choose_sms_pair(rng)
    name, (city, place) = rng.choice(_NAMES), rng.choice(_PLACES)
    lines = [
        ("visitor", question, rng.randrange(2, 10)),
        ("operator", f"Hello, {operator.first_name} here. {answer}", rng.randrange(15, 60)),
        ("visitor", "Thank you!", rng.randrange(10, 90)),
    ]
    messages, sent_at = state.collections["chatmsgs"], started_at
    for sender_kind, message, wait_seconds in lines:
        sent_at += wait_seconds
        messages.add(
            {
                "id": state.new_id("chatmsgs"),
                "chat_id": chat_id,
                "user_id": operator.id,
                "from": sender_kind,
                "name": name if sender_kind == "visitor" else operator.name,
                "message": message,
                "created_at": clock.utc_text(sent_at),
            }
        )
    return state.collections["chats"].add(
        {
            "id": chat_id,
            "customer_id": CUSTOMER_ID,
            "website_id": 1601,
            "operator_id": operator.id,
            "state": 2,
            "created_at": clock.utc_text(started_at),
            "duration": int(sent_at) - int(started_at),
            "operator_ua": BROWSERS[0],
            "visitor_id": f"v{rng.getrandbits(48):012x}",
            "visitor_name": name,
            "visitor_email": f"{name.lower()}@example.net",
            "visitor_ip": f"198.51.100.{rng.randrange(1, 255)}",
            "visitor_city": city,
            "visitor_country": "GB",
            "visitor_geo": place,
            "visitor_referer": rng.choice((None, "https://search.example.net/")),
            "visitor_ua": rng.choice(BROWSERS),
        }
    )
