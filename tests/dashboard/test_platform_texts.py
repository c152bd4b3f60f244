"""Notes, chat messages and announcements of the platform on pages and in the search of calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.application import TestApp
from tests.support.people import ALICE, CALLER, DAVE

NOTE = {
    "id": 41,
    "user_id": 7,
    "text": "Wants <script>alert(1)</script> a refund",
    "created_at": "2026-07-01 09:05:00",
}


def read_below(app: TestApp, path: str, data: Any) -> None:
    """Have the mirror read the records below a record, as a client of the facade does."""
    app.platform.respond(
        path, {"data": data, "total": len(data)} if isinstance(data, list) else {"data": data}
    )
    assert app.get(path).status_code == 200
    app.platform.fail()


@pytest.fixture
def office(app: TestApp) -> TestApp:
    """Two calls of one caller, the first with a note; a chat with messages."""
    app.put("users", {"id": 7, "first_name": "Ann", "last_name": "Example"})
    app.put("contacts", {"id": 5, "first_name": "Cleo", "last_name": "Caller", "tel": CALLER, "global": True})
    app.put("chats", {"id": 3, "operator_id": 7, "visitor_name": "Zoe", "created_at": "2026-07-01 10:00:00"})
    for leg, at in ((101, "2026-07-01 09:00:00"), (102, "2026-07-01 11:00:00")):
        app.event("call.hangup", leg, at)
    app.put(
        "cdrs",
        {"id": 11, "live_id": 101, "user_id": 7, "calldate": "2026-07-01 09:00:00", "type": "I",
         "src": CALLER, "dst": "442079460002", "duration": 9, "billsec": 5, "nb_notes": 1},
        {"id": 12, "live_id": 102, "user_id": 7, "calldate": "2026-07-01 11:00:00", "type": "I",
         "src": CALLER, "dst": "442079460002", "duration": 9, "billsec": 5, "nb_notes": 0},
    )  # fmt: skip
    read_below(app, "/cdrs/11/notes", [NOTE])
    return app


def test_a_note_of_the_platform_is_on_the_pages_of_its_call_and_contact(office: TestApp) -> None:
    browser = office.log_in(ALICE)
    for path in ("/calls/101", "/contacts/5"):
        page = browser.get(path)
        assert page.status_code == 200
        assert "Wants &lt;script&gt;alert(1)&lt;/script&gt; a refund" in page.text, path
        assert "<script>alert" not in page.text
        assert "Ann Example" in page.text
    assert "refund" not in browser.get("/calls/102").text


def test_the_search_of_calls_finds_notes(office: TestApp) -> None:
    def search(text: str) -> list[int]:
        page = office.log_in(ALICE).get(f"/calls?range=all&q={text}").text
        return [number for number in (101, 102) if f"/calls/{number}" in page]

    assert search("refund") == [101]
    office.put("cdrs", {"id": 11, "live_id": 101, "calldate": "2026-07-01 09:00:00", "nb_notes": 2})
    read_below(office, "/cdrs/11/notes", [NOTE, {"id": 42, "text": "Complaint"}])
    assert search("complaint") == [101]
    office.put("cdrs", {"id": 11, "live_id": 101, "calldate": "2026-07-01 09:00:00", "nb_notes": 1})
    read_below(office, "/cdrs/11/notes", [{"id": 43, "text": "Solved"}])
    assert search("refund") == []


def test_chat_messages_are_on_the_pages_of_their_chat_and_user(office: TestApp) -> None:
    messages = [
        {"id": 51, "chat_id": 3, "user_id": 7, "from": "visitor", "message": "Is <i>this</i> in stock?",
         "created_at": "2026-07-01 10:00:00"},
        {"id": 52, "chat_id": 4, "user_id": 7, "from": "operator", "message": "Good morning",
         "created_at": "2026-07-01 10:01:00"},
    ]  # fmt: skip
    read_below(office, "/users/7/chatmsgs", messages)
    browser = office.log_in(ALICE)
    chat, user = browser.get("/account/chats/3").text, browser.get("/account/users/7").text
    assert "Is &lt;i&gt;this&lt;/i&gt; in stock?" in chat
    assert "Good morning" not in chat
    assert "Is &lt;i&gt;this&lt;/i&gt; in stock?" in user
    assert "Good morning" in user
    assert "Zoe" in browser.get("/account/chats?q=stock").text
    assert "Zoe" not in browser.get("/account/chats?q=morning").text
    assert "in stock" not in office.log_in(DAVE).get("/account/users/7").text


def test_announcements_are_on_the_page_of_their_user(office: TestApp) -> None:
    read_below(office, "/users/7/audio", {"user_id": 7, "title": "Holiday <greeting>", "vm_pin": "4711"})
    page = office.log_in(ALICE).get("/account/users/7").text
    assert "Holiday &lt;greeting&gt;" in page
    assert "4711" not in page
    assert "Holiday" not in office.log_in(DAVE).get("/account/users/7").text
