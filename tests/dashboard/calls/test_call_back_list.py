"""Call-backs of several agents: claims, calls in progress, and responses in place."""

from __future__ import annotations

import re

import pytest

from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, ERIN

AS_SCRIPT = {"Accept": "application/json"}
FIELDS = (("assign", "owner"), ("note", "note"))
"""Action of a form and its field."""
REFUSALS = {
    "owner": "Carol claimed this caller first.",
    "note": "Not saved: the note is now “Tuesday”. Reload the page, then change it.",
}


def update_list(app) -> None:
    app.mirror_db.write(lambda tx: tx.announce("call", 0, {}))
    update_from_mirror(app.app_db, app.mirror_db)


@pytest.fixture
def item(app) -> int:
    """Open item of Greta Lindqvist, missed ten minutes ago."""
    app.call(7, ago(600), outcome="missed", party_name="Greta Lindqvist", talk_seconds=None, change_no=1)
    update_list(app)
    with app.app_db.read() as connection:
        return callbacks.list_items(connection)[0].id


def find(app, item_id: int) -> callbacks.CallbackItem:
    with app.app_db.read() as connection:
        return callbacks.find_item(connection, item_id)


def row_text(client, path: str = "/missed") -> str:
    page = text(client.get(path))
    start = page.index("Greta", page.index("Actions"))
    return page[start : page.index("Keyboard shortcuts")]


def call_out(app, number: int, **values) -> None:
    app.call(number, ago(12), direction="out", user_name="Finn Gallagher", change_no=number, **values)


def test_attempts_after_the_missed_call_are_shown_until_one_reaches_the_caller(app, item):
    client = app.log_in(ERIN)
    app.call(6, ago(900), direction="out", user_name="Finn Gallagher", outcome="not_answered")
    assert "Finn Gallagher" not in row_text(client), "the call was before the missed one"
    call_out(app, 8, outcome="not_answered", talk_seconds=None)
    update_list(app)
    shown = row_text(client)
    assert "No answer called by Finn Gallagher," in shown
    assert "Calling now" not in shown
    call_out(app, 9, state="dialling", outcome=None, talk_seconds=None)
    shown = row_text(client)
    assert re.search(r"Calling now Finn Gallagher, 0:[12]\d ", shown)
    assert "Missed" not in shown
    call_out(app, 10, outcome="answered", talk_seconds=40)
    update_list(app)
    assert find(app, item).state == "closed"
    assert "Reached" in row_text(client, "/missed?state=closed")


def test_every_action_returns_a_result_to_scripts_and_others_to_the_row(app, item):
    client = app.log_in(ERIN)
    for action, fields, message, location in (
        ("assign", {"owner": "me"}, "Greta Lindqvist claimed.", f"/missed#item-{item}"),
        ("assign", {}, "Greta Lindqvist released.", f"/missed#item-{item}"),
        ("note", {"note": "x", "mine": "1"}, "Note saved.", f"/missed?mine=1#item-{item}"),
        ("close", {}, "Greta Lindqvist marked as done.", f"/missed?done={item}"),
        (
            "reopen",
            {"state": "closed"},
            "Greta Lindqvist is back on the list.",
            f"/missed?state=closed#item-{item}",
        ),
    ):
        response = client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields)
        result = response.json()
        assert (response.status_code, result["done"], result["message"]) == (200, True, message)
        expected = {"action": f"/missed/{item}/reopen", "label": "Undo"} if action == "close" else None
        assert result.get("undo") == expected
        redirect = client.post(f"/missed/{item}/{action}", follow=False, **fields)
        assert redirect.headers["Location"] == location
    assert (find(app, item).state, find(app, item).note) == ("open", "x")


@pytest.mark.parametrize("value", ["", "other"])
def test_an_owner_or_note_that_a_colleague_changed_since_is_kept(app, item, value):
    client, colleague, _ = app.log_in(ERIN), app.log_in(CAROL), app.log_in(BOB)
    client.post(f"/missed/{item}/assign", owner="me", previous="")
    client.post(f"/missed/{item}/note", note="Monday", previous="")
    page = client.get("/missed").text
    shown = {field: shown_value(page, item, action, field) for action, field in FIELDS}
    assert shown == {"owner": ERIN.email, "note": "Monday"}
    colleague.post(f"/missed/{item}/assign", owner="me", previous=ERIN.email)
    colleague.post(f"/missed/{item}/note", note="Tuesday", previous="Monday")
    entered = {"owner": value and BOB.email, "note": value and "Wednesday"}
    for action, field in FIELDS:
        fields = {field: entered[field], "previous": shown[field]}
        assert client.post(f"/missed/{item}/{action}", **fields).status_code == 409
        refused = client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields).json()
        assert (refused["done"], refused["message"]) == (False, REFUSALS[field])
    assert (find(app, item).owner, find(app, item).note) == (CAROL.email, "Tuesday")
    page = client.get("/missed").text
    for action, field in FIELDS:
        fields = {field: entered[field], "previous": shown_value(page, item, action, field)}
        assert client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields).json()["done"]
        assert getattr(find(app, item), field) == (entered[field] or None)


def shown_value(page: str, item: int, action: str, field: str) -> str:
    """Return the owner or note that the last form of this action sends as shown."""
    *_, form = re.findall(rf'<form[^>]*action="/missed/{item}/{action}".*?</form>', page, re.DOTALL)
    return re.search(r'name="previous" value="([^"]*)"', form)[1]


def test_a_note_that_a_page_sends_twice_is_stored_once(app, item):
    client = app.log_in(ERIN)
    for words in ("Asks for a date", "Asks for a date", "Wednesday"):
        client.post("/calls/7/notes", text=words)
    with app.app_db.read() as connection:
        assert [row[0] for row in connection.execute("SELECT text FROM notes")] == [
            "Asks for a date",
            "Wednesday",
        ]
