"""SMS: events and records are neither duplicated nor merged (promise P8)."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from html import unescape

import pytest

from integration.core import clock
from integration.mirror.page_queries import messages
from integration.mirror.records import change_log
from integration.sync.writing import write_log
from tests.support.page_text import text
from tests.support.people import BOB, CAROL

SENDER, RECEIVER = "447700900101", "442079460002"


@dataclass
class Event:
    event_id: str
    event_time: str
    text: str = "Hello"
    user_id: int | None = None
    sender: str = SENDER
    receiver: str = RECEIVER
    doc: str = "{}"


def add_events(app, *events: Event) -> None:
    for event in events:
        app.mirror_db.write(lambda tx, event=event: messages.add_event(tx, event))


def add_record(app, number: int, at: str, message: str = "Hello", sender: str = SENDER) -> None:
    app.put(
        "sms",
        {"id": number, "created_at": at, "from": sender, "to": RECEIVER, "message": message, "type": "I"},
    )
    app.mirror_db.write(messages.match_events)


def count_messages(app) -> int:
    with app.mirror_db.read() as connection:
        return len(messages.list_messages(connection, SENDER).rows)


TIMES = ("09:00:01", "09:00:04", "09:00:09")


def steps(events: int, records: int):
    return [("event", n) for n in range(events)] + [("record", n) for n in range(records)]


@pytest.mark.parametrize(("events", "records"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (0, 2), (2, 0)])
def test_equal_texts_count_as_the_larger_number_of_events_or_records(app, events, records):
    for order in itertools.permutations(steps(events, records)):
        app.mirror_db.write(lambda tx: (tx.execute("DELETE FROM sms"), tx.execute("DELETE FROM _sms_events")))
        for kind, n in order:
            if kind == "event":
                add_events(app, Event(f"e{n}", f"2026-09-02 {TIMES[n]}"))
            else:
                add_record(app, n + 1, f"2026-09-02 {TIMES[n]}")
        assert count_messages(app) == max(events, records), order


DAY = "2026-09-02"


@pytest.mark.parametrize(
    ("events", "records", "count"),
    [
        # Nearest first would match one.
        ([("a", f"{DAY} 09:00:00"), ("b", f"{DAY} 09:09:00")], [f"{DAY} 09:08:00", f"{DAY} 09:17:00"], 2),
        ([("new", f"{DAY} 09:00:01", "Yes")], [("2026-03-01 12:00:00", "Yes")], 2),
        ([("same", f"{DAY} 09:00:01"), ("same", f"{DAY} 09:00:01")], [], 1),
        ([("plus", f"{DAY} 09:00:01")], [(f"{DAY} 09:00:02", "Hello", f"+{SENDER}")], 1),
        (
            [("a", f"{DAY} 09:00:01", "One"), ("b", f"{DAY} 09:00:01", "Two")],
            [(f"{DAY} 09:00:01", "Three")],
            3,
        ),
    ],
)
def test_an_event_matches_a_record_of_its_text_number_and_time(app, events, records, count):
    add_events(app, *(Event(*event) for event in events))
    for number, record in enumerate(records, 1):
        add_record(app, number, *([record] if isinstance(record, str) else record))
    assert count_messages(app) == count


def test_timeline_paging_shows_all_messages_of_one_second(app, client):
    begun = int(clock.unix()) - 3600
    moments = [clock.utc_text(begun - min(number, 58)) for number in range(64)]
    rows = [(number, at, SENDER, f"Text {number};") for number, at in enumerate(moments)]
    app.mirror_db.write(
        lambda tx: tx.executemany(
            'INSERT INTO sms (_doc, _first_seen, _last_seen, _source, id, created_at, "from", message, type)'
            " VALUES ('{}', '', '', 'sync', ?, ?, ?, ?, 'I')",
            rows,
        )
    )
    seen, path = "", f"/contacts/of/{SENDER}"
    while path:
        page = client.get(path).text
        seen += page
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/contacts/of/{SENDER}{unescape(older[1])}" if older else ""
    assert [number for number in range(64) if f"Text {number};" not in seen] == []


def test_a_thread_shows_both_directions_oldest_first_with_its_contact(app, client):
    app.put("contacts", {"id": 1, "first_name": "Greta", "last_name": "Lindqvist", "tel": SENDER})
    add_events(app, Event("e", "2026-09-02 09:00:01", "Is my order ready? <b>"))
    app.put(
        "sms",
        {
            "id": 2,
            "created_at": "2026-09-02 09:05:00",
            "from": RECEIVER,
            "to": SENDER,
            "message": "Yes, it is.",
            "type": "O",
            "result": "Delivered",
        },
    )
    answer = client.get(f"/messages?with={SENDER}")
    page = text(answer)
    assert page.index("Is my order ready? <b>") < page.rindex("Yes, it is.")
    assert "Greta Lindqvist" in page
    assert "Delivered" in page
    assert "10:05" in page
    assert "<b>" not in answer.text


def test_a_sent_message_states_who_sent_it(app, client):
    app.add(BOB)
    app.put("users", {"id": 7, "first_name": "Ann", "last_name": "Example"})
    body = {"from": RECEIVER, "to": f"+{SENDER}", "message": "Yes, it is."}
    entry = write_log.begin(
        app.app_db, who=BOB.email, address="", method="POST", path="/sms", body=json.dumps(body).encode()
    )
    write_log.finish(app.app_db, entry, status=201, result="", seconds=0.1)
    sent = {"from": RECEIVER, "to": SENDER, "type": "O", "user_id": 7}
    app.put(
        "sms", {**sent, "id": 1, "created_at": clock.utc_text(clock.unix() + 9), "message": "Yes, it is."}
    )
    app.put("sms", {**sent, "id": 2, "created_at": clock.utc_text(), "message": "From the app"})
    page = text(client.get(f"/messages?with={SENDER}"))
    assert re.search(r"Yes, it is\. \d+:\d+ · by Bob · 020 7946 0002", page)
    assert re.search(r"From the app \d+:\d+ · by Ann Example · 020 7946 0002", page)


def test_each_new_message_is_one_event_for_programs(app):
    add_record(app, 1, clock.utc_text(clock.unix() - 3600), "before the mirror")
    app.clock.advance(hours=13)
    add_record(app, 9, clock.utc_text(clock.unix() - 12.5 * 3600), "older than 12 hours")
    at = clock.utc_text()
    add_events(app, Event("by webhook", at))
    add_record(app, 2, at)
    add_record(app, 3, at, "without webhook")
    add_events(app, Event("after the record", at, "without webhook"))
    app.put("sms", {"id": 4, "created_at": at, "from": RECEIVER, "to": SENDER, "message": "Yes", "type": "O"})
    changes = change_log.since(app.mirror_db, 0)
    assert [(change.key, change.data["event"]) for change in changes if "event" in change.data] == [
        ("2", "message.received"),
        ("3", "message.received"),
        ("4", "message.sent"),
    ]


def test_thread_paging_has_no_gaps_or_duplicates_at_equal_times(app, client):
    sms = {"created_at": "2026-09-02 09:00:00", "message": "x", "type": "I", "to": RECEIVER}
    for number in range(1, 121):
        app.put("sms", {**sms, "id": number, "from": f"4477009{number:05}"})
    found, path = [], "/messages"
    while path:
        page = client.get(path).text
        found += re.findall(r'href="/messages\?with=(\d+)"', page)
        older = re.search(r'href="([^"]+)">Older conversations', page)
        path = unescape(older[1]) if older else ""
    assert len(found) == len(set(found)) == 120


def test_a_national_number_is_found_by_its_international_forms(app):
    app.restart(dashboard__country="GB")
    at, client = clock.utc_text(), app.log_in(BOB)
    app.put("sms", {"id": 1, "created_at": at, "from": "07700900153", "to": RECEIVER, "message": "Hi"})
    app.put("faxes", {"id": 2, "created_at": at, "from": "07700900153", "to": RECEIVER, "pages": 1})
    for find in ("+447700900153", "0044 7700 900153", "07700 900153"):
        for path in ("/messages", "/messages/faxes"):
            assert "07700 900153" in text(client.get(path, params={"find": find})), (path, find)
        palette = client.get("/palette", params={"q": find, "more": "1"}).text
        assert "/messages?with=07700900153" in palette
        assert "/messages/faxes?find=07700900153" in palette
        for collection in ("sms", "faxes"):
            page = client.get(f"/account/{collection}", params={"q": find})
            assert "07700 900153" in text(page), collection


def test_a_search_ignores_case_and_accents(app):
    at, client = clock.utc_text(), app.log_in(BOB)
    app.put("sms", {"id": 1, "created_at": at, "from": "Ünïcödé", "to": RECEIVER, "message": "Hi"})
    app.put("sms", {"id": 2, "created_at": at, "from": SENDER, "to": RECEIVER, "message": "Hallo Ünïtas"})
    app.put("contacts", {"id": 1, "first_name": "Ünï", "last_name": "Lindqvist", "tel": "447700900103"})
    app.put("faxes", {"id": 2, "created_at": at, "from": "447700900103", "to": RECEIVER, "pages": 1})
    for find in ("ünï", "ÜNÏ", "UNI"):
        found = client.get("/messages", params={"find": find}).text
        assert "Ünïcödé" in found
        assert "Hallo Ünïtas" in found
        assert "Lindqvist" in client.get("/contacts", params={"find": find}).text
        assert "07700 900103" in text(client.get("/messages/faxes", params={"find": find}))


def test_agents_limited_to_own_calls_see_no_messages(own_calls_only):
    assert own_calls_only.log_in(CAROL.as_user(1)).get("/messages").status_code == 403
    assert own_calls_only.log_in(BOB).get("/messages").status_code == 200


@pytest.mark.parametrize("country", ["GB", ""])
@pytest.mark.parametrize(
    ("sender", "shown", "search", "number"),
    [
        ("ACME Bank", "ACME Bank", "acme", None),
        ("A&B #1?", "A&B #1?", "b #1", None),
        ("60300", "60300", "603", None),
        ("07700900153", "07700 900153", "07700 9001", "447700900153"),
        ("+447700900153", "07700 900153", "+44 7700 900153", "447700900153"),
    ],
)
def test_a_sender_is_shown_as_sent_and_found(app, country, sender, shown, search, number):
    if not country:
        # Without a country a national number is a text, and an international one is shown with its code.
        number, shown = (None, sender) if not sender.startswith("+") else (number, "+44 7700 900153")
    app.restart(dashboard__country=country)
    at = clock.utc_text()
    app.put("sms", {"id": 1, "created_at": at, "from": sender, "to": RECEIVER, "message": "Hi", "type": "I"})
    app.put("faxes", {"id": 2, "created_at": at, "from": sender, "to": RECEIVER, "pages": 1})
    client = app.log_in(BOB)
    listed = client.get("/messages", params={"find": search})
    (path,) = {unescape(found) for found in re.findall(r'href="(/messages\?with=[^"]*)"', listed.text)}
    thread = client.get(path.split("&find")[0])
    palette = client.get("/palette", params={"q": search, "more": "1"})
    for page in (listed, thread, palette, client.get("/messages/faxes", params={"find": search})):
        assert shown in unescape(page.text), page.url
        assert f"+{sender.lstrip('+')[:5]}" not in text(page)
    for target in re.findall(r'href="(/(?:messages|contacts)[^"]*)"', thread.text + palette.text):
        assert client.get(unescape(target)).status_code == 200, target
    assert ("/contacts/of/" in thread.text) == (number is not None)
    assert "Hi" in thread.text
    assert number is None or f"/contacts/of/{number}" in thread.text
    if number is not None:
        assert "Hi" in text(client.get(f"/contacts/of/{number}"))
    can_reply = any(character.isdigit() for character in sender) and "#" not in sender
    assert ("you cannot reply" in thread.text) != can_reply
