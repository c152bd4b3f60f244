"""Timeline of a contact: every note is on the page of its call."""

from __future__ import annotations

import re
from html import unescape

from integration.dashboard.messages.contacts import TIMELINE_PAGE_SIZE
from integration.workspace import notes
from tests.dashboard.calls.test_live_and_missed import ago
from tests.support.application import Browser, TestApp
from tests.support.people import ALICE, CALLER

CALLS = TIMELINE_PAGE_SIZE + 4
"""Calls with ids from 1. The first pages have the highest ids."""


def read_pages(browser: Browser) -> list[str]:
    pages, path = [], f"/contacts/of/{CALLER}"
    while path:
        pages.append(browser.get(path).text)
        older = re.search(r'rel="next" href="([^"]+)"', pages[-1])
        path = f"/contacts/of/{CALLER}{unescape(older[1])}" if older else ""
    return pages


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
