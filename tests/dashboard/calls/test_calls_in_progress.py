"""Call buttons while somebody calls or talks to the party: others get a question, not a ban."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from integration.alerts import rules
from integration.alerts.evaluate import RuleEvaluator
from integration.alerts.rules import Rule
from integration.core import clock
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import running_app
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.harness import wait_for
from tests.support.held_platform import HeldPlatform
from tests.support.page_text import text
from tests.support.people import ALICE, Member

AS_SCRIPT = {"Accept": "application/json"}
GRETA = "447700900101"
CLARA = Member("clara@example.com", "agent", platform_user_id=100)
FINN = Member("finn@example.com", "agent", platform_user_id=101)
USERS = [
    {"id": 100, "first_name": "Clara", "last_name": "Whitfield", "ext": "1001", "email": "c@example.com"},
    {"id": 101, "first_name": "Finn", "last_name": "Gallagher", "ext": "1002", "email": "f@example.com"},
]
PAGES = (
    "/missed", "/calls/7", "/calls/7/beside", f"/contacts/of/{GRETA}", f"/messages?with={GRETA}",
    f"/dial?to=%2B{GRETA}", f"/palette?q=%2B{GRETA}",
)  # fmt: skip
"""Pages where a call to Greta can be started."""


def add_missed_caller(app) -> None:
    """Mirror the users, and add a missed call of Greta Lindqvist with its call-back item."""
    app.put("users", *USERS)
    app.call(7, ago(600), outcome="missed", party_name="Greta Lindqvist", talk_seconds=None, change_no=1)
    app.mirror_db.write(lambda tx: tx.announce("call", 0, {}))
    update_from_mirror(app.app_db, app.mirror_db)


@pytest.fixture
def app(app):
    add_missed_caller(app)
    return app


@pytest.fixture
def held(app) -> Iterator[HeldPlatform]:
    platform = HeldPlatform(app)
    yield platform
    platform.release.set()


def click(client, **fields: str) -> dict:
    """Click on a Call button; return the response for scripts."""
    response = client.post("/dial", headers=AS_SCRIPT, to=f"+{GRETA}", item="1", **fields)
    assert response.status_code == 200, response.text
    return response.json()


def confirm(client, question: dict) -> dict:
    """Click on the button of the question."""
    return click(client, **question["confirm"]["fields"])


def find_item(app) -> callbacks.CallbackItem:
    with app.app_db.read() as connection:
        return callbacks.list_items(connection)[0]


def find_owner(app) -> str | None:
    return find_item(app).owner


def buttons(client, path: str = "/missed") -> str:
    """Texts of a page with a Call button."""
    return text(client.get(path))


def test_from_the_click_to_the_response_a_colleague_gets_a_question(app, held):
    clara, finn = app.log_in(CLARA), app.log_in(FINN)
    rules.save(app.app_db, Rule(0, "Late", "not_called_back", 5, notice=True))
    RuleEvaluator(app.context, lambda: None).run()
    callbacks.record_action(app.app_db, find_item(app).id, FINN.email, "assign", CLARA.email)
    assert "Late : Greta Lindqvist (07700 900101) is waiting for a call back" in buttons(finn, "/calls")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(click, clara)
        wait_for(lambda: held.requests == 1, "the first click reaches the platform")
        for path in (*PAGES, "/calls", "/system/alerts"):
            assert "Clara Whitfield is calling them" in buttons(finn, path), path
        for path in ("/missed", "/notifications"):
            assert "You are calling them" in buttons(clara, path), path
        question = click(finn)
        assert question["message"] == "Clara Whitfield is calling them. Call anyway?"
        assert (question["done"], question["confirm"]["label"]) == (False, "Call anyway")
        assert held.requests == 1
        # Neither the client of the facade nor a second, deliberate click is refused.
        facade = pool.submit(
            app.client.post,
            "/v1.2/calls",
            json={"to": GRETA, "from": "101"},
            headers=app.add_key(scope="write"),
        )
        second = pool.submit(confirm, finn, question)
        wait_for(lambda: held.requests == 3, "the facade and the confirmed click reach the platform")
        held.release.set()
        assert facade.result().status_code == 201
        assert first.result()["done"]
        assert second.result()["done"]


def test_of_two_clicks_at_the_same_moment_one_gets_the_question(app, held, monkeypatch):
    release, waiting, submit = threading.Event(), set(), app.app_db.submit

    def submit_counted(work):
        waiting.add(threading.get_ident())
        return submit(work)

    clients = [app.log_in(CLARA), app.log_in(FINN)]
    submit(lambda _tx: release.wait(20))
    monkeypatch.setattr(app.app_db, "submit", submit_counted)
    held.release.set()
    with ThreadPoolExecutor() as pool:
        clicks = [pool.submit(click, client) for client in clients]
        wait_for(lambda: len(waiting) == 2, "both clicks wait for the writer")
        release.set()
        results = [one.result() for one in clicks]
    assert sorted(result["done"] for result in results) == [False, True]
    question = next(result for result in results if not result["done"])
    assert question["message"] == "A colleague is calling them. Call anyway?"
    assert held.requests == 1


@pytest.mark.parametrize("end", ["refused", "20 s", "own phone not answered"])
def test_a_placed_call_ends_without_a_conversation(app, held, end):
    clara, finn = app.log_in(CLARA), app.log_in(FINN)
    held.release.set()
    if end == "refused":
        held.status = 412
    click(clara)
    if end == "20 s":
        assert "Clara Whitfield is calling them" in buttons(finn)
        app.clock.advance(21)
    elif end == "own phone not answered":
        app.call(8, clock.utc_text(), direction="out", outcome="not_answered", user_id=100)
    assert "is calling them" not in buttons(finn)


@pytest.mark.parametrize(
    ("call", "description"),
    [
        ({"direction": "out", "state": "dialling"}, "Clara Whitfield is calling them"),
        ({"direction": "in", "state": "talking"}, "Clara Whitfield is talking to them"),
        ({"direction": "in", "state": "ringing", "user_name": None}, "They are calling now"),
        ({"direction": "out", "state": "talking", "unconfirmed": 1}, None),
        ({"direction": "out", "state": "ended", "outcome": "not_answered"}, None),
    ],
)
def test_a_confirmed_live_call_from_any_phone_gets_a_question(app, held, call, description):
    held.release.set()
    app.call(8, ago(12), **{"user_id": 100, "user_name": "Clara Whitfield", "outcome": None, **call})
    finn = app.log_in(FINN)
    assert (description or " Call ") in buttons(finn)
    for path in ("/calls/7/beside", "/calls/7", f"/contacts/of/{GRETA}"):
        notice = re.search(r'<p class="notice.*?</p>', finn.get(path).text, re.DOTALL)
        expected = f"{description}. Missed 1 time" if description else "not called back yet"
        assert expected in notice[0], path
        assert ('class="notice bad"' in notice[0]) == (description is None), path
    result = click(finn)
    if description is None:
        assert result["done"]
        return
    assert (result["message"], held.requests) == (f"{description}. Call anyway?", 0)
    assert confirm(finn, result)["done"]
    assert (held.requests, find_owner(app)) == (1, FINN.email)


def test_a_claimed_caller_changes_the_owner_only_with_a_yes(app, held):
    held.release.set()
    clara, finn = app.log_in(CLARA), app.log_in(FINN)
    assign = f"/missed/{find_item(app).id}/assign"
    clara.post(assign, owner="me", previous="")
    question = click(finn)
    assert question["message"] == "Clara Whitfield claimed this caller. Call anyway?"
    assert (held.requests, find_owner(app)) == (0, CLARA.email)
    # A third person has claimed the caller before the yes: the yes was about Clara.
    app.log_in(ALICE).post(assign, owner="me", previous=CLARA.email)
    assert confirm(finn, question)["done"]
    assert (held.requests, find_owner(app)) == (1, ALICE.email)
    app.clock.advance(21)
    assert confirm(finn, click(finn))["done"]
    assert find_owner(app) == FINN.email


def test_without_scripts_the_form_has_a_button_that_calls_anyway(app, held):
    held.release.set()
    app.call(8, ago(12), direction="out", state="talking", user_id=100, user_name="Clara Whitfield")
    response = app.log_in(FINN).post("/dial", to=f"+{GRETA}", follow=False)
    assert response.status_code == 409
    assert "Clara Whitfield is talking to them. Call anyway?" in text(response)
    assert '<input type="hidden" name="confirmed_owner" value="">' in response.text
    assert "Call anyway</button>" in response.text


def test_a_user_with_own_calls_only_reads_no_name(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        add_missed_caller(app)
        app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET user_id = 101"))
        app.call(8, ago(12), direction="out", state="talking", user_id=100, user_name="Clara Whitfield")
        finn = app.log_in(FINN)
        for path in set(PAGES) - {f"/messages?with={GRETA}"}:
            page = buttons(finn, path)
            assert "A colleague is talking to them" in page, path
            assert "Clara" not in page, path
