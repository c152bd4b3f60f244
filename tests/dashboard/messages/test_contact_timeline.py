"""Page of a contact: calls in a sentence, details before the form, notes beside their call."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

from integration.dashboard.messages.contacts import TIMELINE_PAGE_SIZE
from integration.workspace import notes
from tests.support.application import Browser, TestApp
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import ALICE, CALLER, CAROL

CALLS = TIMELINE_PAGE_SIZE + 4
"""Calls with ids from 1. The first pages have the highest ids."""


def read_pages(browser: Browser) -> list[str]:
    pages, path = [], f"/contacts/of/{CALLER}"
    while path:
        pages.append(browser.get(path).text)
        older = re.search(r'rel="next" href="([^"]+)"', pages[-1])
        path = f"/contacts/of/{CALLER}{unescape(older[1])}" if older else ""
    return pages


def test_a_contact_is_read_first_and_edited_second(app: TestApp) -> None:
    client = app.log_in(ALICE)
    app.put("users", {"id": 11, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    numbers = {"mobile": CALLER, "tel": "442079460123"}
    app.put("contacts", {"id": 3, "first_name": "Nora", "last_name": "Lind", "notes": "Likes tea", **numbers})
    page = client.get("/contacts/3").text
    assert 'class="basis"' not in page
    assert re.search(r"<dt>Notes</dt><dd[^>]*>Likes tea</dd>", page)
    assert re.search(r'<details class="sure block under-list"><summary class="button">Edit</summary>', page)
    assert page.index("Likes tea") < page.index('name="first_name"')
    landline = {"party": "442079460123", "party_e164": "+442079460123"}
    for number, days, user, words in (
        (1, 40, {"user_id": 11}, "1 call, with Ann Example, last on {}."),
        (2, 30, {"user_id": 11, **landline}, "2 calls, all with Ann Example, last on {}."),
        (3, 20, {"user_id": 12, "user_name": "Ben Example"}, "3 calls, mostly with Ann Example, last on {}."),
        (
            4,
            1,
            {"user_id": 12, "user_name": "Ben Example"},
            "4 calls, most often with Ann Example, last yesterday.",
        ),
        (5, 0, {"outcome": "missed"}, "5 calls, most often with Ann Example, last today."),
    ):
        at = datetime.now(ZoneInfo("Europe/London")) - timedelta(days=days)
        app.call(number, at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"), **user)
        day = f"{at:%A} {at.day} {at:%B}" + (f" {at.year}" if at.year != datetime.now().year else "")
        assert words.format(day) in text(client.get("/contacts/3")), words
    app.call(9, ago(100), party="447700900109", party_e164="+447700900109", user_id=11)
    assert "1 call, with Ann Example, last" in text(client.get("/contacts/of/447700900109"))


def test_agents_limited_to_own_calls_read_the_number_of_their_calls(own_calls_only: TestApp) -> None:
    app = own_calls_only
    app.put("contacts", {"id": 3, "first_name": "Nora", "mobile": CALLER, "global": True})
    for number, user_id in ((1, 11), (2, 12), (3, 12)):
        app.call(number, ago(60), user_id=user_id, user_name=f"User {user_id}")
    page = text(app.log_in(CAROL.as_user(11)).get("/contacts/3"))
    assert "1 call with you, last" in page
    assert "User 12" not in page


def test_a_note_is_on_the_page_of_its_call_whenever_it_was_written(app: TestApp) -> None:
    for number in range(1, CALLS + 1):
        app.call(number, ago(86400 - 60 * number))
        app.leg(number)
    written = {1: "oldest", CALLS - TIMELINE_PAGE_SIZE: "last on page two", CALLS: "newest"}
    for number, words in written.items():
        app.app_db.write(
            lambda tx, number=number, words=words: notes.add_note(tx, number, "a", f"The {words}.")
        )
    app.platform.respond(
        "/cdrs/11/notes", {"data": [{"id": 41, "text": "The remote.", "created_at": ago(0)}]}
    )
    app.insert("cdrs", id=11, live_id=2)
    assert app.get("/cdrs/11/notes").status_code == 200
    pages = read_pages(app.log_in(ALICE))
    assert len(pages) == 2
    places = {
        words: [number for number, page in enumerate(pages) if f"The {words}." in page]
        for words in (*written.values(), "remote")
    }
    assert places == {"oldest": [1], "last on page two": [1], "newest": [0], "remote": [1]}
