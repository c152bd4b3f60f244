"""Call-backs of several agents: claims, calls in progress, and responses in place."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, ERIN

AS_SCRIPT = {"Accept": "application/json"}
GRETA = "447700900101"


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


def test_scripts_get_results_in_place_and_an_action_to_undo(app, item):
    client = app.log_in(ERIN)
    for action, fields, message in (
        ("assign", {"owner": "me"}, "Greta Lindqvist claimed."),
        ("assign", {}, "Greta Lindqvist released."),
        ("note", {"note": "Asks for a date"}, "Note saved."),
        ("close", {}, "Greta Lindqvist marked as done."),
        ("reopen", {}, "Greta Lindqvist is back on the list."),
    ):
        response = client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields)
        result = response.json()
        assert (response.status_code, result["done"], result["message"]) == (200, True, message)
        expected = {"action": f"/missed/{item}/reopen", "label": "Undo"} if action == "close" else None
        assert result.get("undo") == expected
    assert (find(app, item).state, find(app, item).note) == ("open", "Asks for a date")


def test_without_scripts_every_action_returns_to_the_row(app, item):
    client = app.log_in(ERIN)

    def location(action: str, **fields: str) -> str:
        return client.post(f"/missed/{item}/{action}", follow=False, **fields).headers["Location"]

    assert location("assign", owner="me") == f"/missed#item-{item}"
    assert location("note", note="x", mine="1") == f"/missed?mine=1#item-{item}"
    assert location("close") == f"/missed?done={item}"
    assert location("reopen", state="closed") == f"/missed?state=closed#item-{item}"
    assert f'id="item-{item}"' in client.get("/missed").text


def test_a_claim_that_another_agent_made_since_is_refused(app, item):
    first, second = app.log_in(ERIN), app.log_in(BOB)
    first.post(f"/missed/{item}/assign", owner="me", previous="")
    refused = second.post(f"/missed/{item}/assign", owner="me", previous="", headers=AS_SCRIPT)
    assert refused.json()["message"] == "Erin claimed this caller first."
    assert find(app, item).owner == ERIN.email
    second.post(f"/missed/{item}/assign", owner="me", previous=ERIN.email)
    assert find(app, item).owner == BOB.email


@pytest.mark.parametrize(
    ("action", "field", "value", "message"),
    [
        ("assign", "owner", BOB.email, "Carol claimed this caller first."),
        ("assign", "owner", "", "Carol claimed this caller first."),
        (
            "note",
            "note",
            "Wednesday",
            "Not saved: the note is now “Tuesday”. Reload the page, then change it.",
        ),
        ("note", "note", "", "Not saved: the note is now “Tuesday”. Reload the page, then change it."),
    ],
)
def test_an_owner_or_note_that_a_colleague_changed_since_is_kept(app, item, action, field, value, message):
    client, colleague, _ = app.log_in(ERIN), app.log_in(CAROL), app.log_in(BOB)
    client.post(f"/missed/{item}/assign", owner="me", previous="")
    client.post(f"/missed/{item}/note", note="Monday", previous="")
    shown = shown_value(client.get("/missed").text, item, action, field)
    assert shown == {"owner": ERIN.email, "note": "Monday"}[field]
    colleague.post(f"/missed/{item}/assign", owner="me", previous=ERIN.email)
    colleague.post(f"/missed/{item}/note", note="Tuesday", previous="Monday")
    fields = {field: value, "previous": shown}
    assert client.post(f"/missed/{item}/{action}", **fields).status_code == 409
    refused = client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields).json()
    assert (refused["done"], refused["message"]) == (False, message)
    assert (find(app, item).owner, find(app, item).note) == (CAROL.email, "Tuesday")
    fields["previous"] = shown_value(client.get("/missed").text, item, action, field)
    assert client.post(f"/missed/{item}/{action}", headers=AS_SCRIPT, **fields).json()["done"]
    assert getattr(find(app, item), field) == (value or None)


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


def test_of_two_simultaneous_claims_one_is_refused_with_the_owner(app, item, monkeypatch):
    release, waiting, submit = threading.Event(), set(), app.app_db.submit

    def submit_counted(work):
        waiting.add(threading.get_ident())
        return submit(work)

    def claim(client):
        return client.post(f"/missed/{item}/assign", owner="me", previous="", headers=AS_SCRIPT).json()

    clients = [app.log_in(ERIN), app.log_in(BOB)]
    submit(lambda _tx: release.wait(10))
    monkeypatch.setattr(app.app_db, "submit", submit_counted)
    with ThreadPoolExecutor(2) as pool:
        claims = [pool.submit(claim, client) for client in clients]
        wait_for(lambda: len(waiting) == 2, "both claims wait for the writer")
        release.set()
        results = [claim.result() for claim in claims]
    owner = find(app, item).owner
    winner, loser = (0, 1) if owner == ERIN.email else (1, 0)
    assert results[winner]["message"] == "Greta Lindqvist claimed."
    assert (results[loser]["done"], results[loser]["message"]) == (
        False,
        f"{owner.partition('@')[0].title()} claimed this caller first.",
    )
    with app.app_db.read() as connection:
        assert [row[0] for row in connection.execute("SELECT who FROM callback_deeds")] == [owner]
