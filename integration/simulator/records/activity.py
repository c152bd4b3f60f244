"""Activity beside calls: texts, faxes, notes and chats.

The specification shows no fields of notes; they are invented.
"""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import SEEDS, Record


def make_conversation(rng: random.Random, agent: str, seconds: int) -> dict[str, Any]:
    """Make transcript, summary and ratings of a recording, by field of its record."""
    topic, question, answer, closing = rng.choice(SEEDS["words"]["topics"])
    lines = [
        ("Agent", f"Good morning, {agent} speaking, how can I help?"),
        ("Caller", question),
        ("Agent", answer),
        ("Caller", closing),
    ]
    score = rng.choices(range(1, 11), weights=(1, 1, 2, 2, 3, 4, 6, 7, 5, 3))[0]
    timeline = [
        {"at": round(seconds * n / len(lines), 1), "speaker": speaker.lower()}
        for n, (speaker, _) in enumerate(lines)
    ]
    return {
        "transcript": " ".join(text for _, text in lines),
        "transcript_speakers": "\n".join(f"{speaker}: {text}" for speaker, text in lines),
        "summary": f"The caller asked about {topic}. {agent} answered.",
        "sentiment": "negative" if score <= 3 else "neutral" if score <= 6 else "positive",
        "cx_score": score,
        "metadata": {"timeline": timeline},
    }


def add_fax(state: AccountState, rng: random.Random, created_at: float) -> Record:
    """Add a fax at Unix time `created_at`; three in four are inbound."""
    own_number = next(line["e164"] for line in state.ddis if line["fax_enabled"])
    outside_number = numbers.make_london_number(rng.randrange(900, 1000))
    inbound = rng.random() < 0.75
    sender, receiver = (outside_number, own_number) if inbound else (own_number, outside_number)
    pages = rng.choices((1, 2, 3, 6), weights=(6, 3, 2, 1))[0]
    time_text = clock.utc_text(created_at).translate(str.maketrans("", "", "-: "))
    return state.create(
        "faxes",
        **{"from": sender, "to": receiver},
        created_at=clock.utc_text(created_at),
        filename=f"fax-to-{receiver}-from-{sender}-at-{time_text}.pdf",
        pages=pages,
        status=2 if rng.random() < 0.05 else 1,
        type=1 if inbound else 2,
        charge=0.0 if inbound else round(0.05 * pages, 2),
    )


def add_note(
    state: AccountState, cdr: Record, user_id: int | None, note_text: str, created_at: float
) -> Record:
    """Add a note to `cdr` and count the note in its `nb_notes`."""
    cdr["nb_notes"] += 1
    stamp = clock.utc_text(created_at)
    return state.create("cdrs/notes", cdr_id=cdr["id"], user_id=user_id, text=note_text, created_at=stamp)


def seed_notes(state: AccountState) -> None:
    """Add random notes and labels to the last 1,000 CDRs."""
    rng = random.Random(f"notes {state.seed}")
    labels = [label["name"] for label in state.collections["calllabels"].records.values()][:3]
    connected_cdrs = [
        cdr
        for cdr in list(state.collections["cdrs"].records.values())[-1000:]
        if cdr["billsec"] and cdr["user_id"]
    ]
    for cdr in connected_cdrs:
        draw = rng.random()
        if draw < 0.05:
            cdr["labels"] = rng.sample(labels, rng.choice((1, 1, 2)))
        if 0.03 < draw < 0.06:
            call_started = clock.parse_utc(cdr["calldate"])
            assert call_started is not None
            noted_at = call_started.timestamp() + cdr["duration"] + 40
            add_note(state, cdr, cdr["user_id"], rng.choice(SEEDS["words"]["notes"]), noted_at)


_VISITORS = SEEDS["visitors"]
_REFERERS = (None, "https://search.example.net/")


def add_chat(state: AccountState, rng: random.Random, operator: Person, started_at: float) -> Record:
    """Add an ended chat with its messages; return the chat.

    `started_at` is a Unix time.
    """
    chat_id = state.new_id("chats")
    question, answer = rng.choice(SEEDS["words"]["sms_pairs"])
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


def choose_visitor_phone(rng: random.Random) -> str:
    """Choose the number of a website visitor.

    Other calls rarely use numbers of this range.
    """
    return numbers.make_mobile_number(rng.randrange(700, 1000))
