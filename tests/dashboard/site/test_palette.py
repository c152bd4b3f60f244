"""Results of the search field while a user types."""

from __future__ import annotations

import re
from html import unescape

import pytest

from integration.core import clock
from integration.dashboard.site.palette import PAGES
from integration.sqlite.transaction import Transaction
from integration.workspace import notes
from tests.support.application import Browser, TestApp, running_app
from tests.support.people import BOB, CALLER, CAROL, DAVE


def fill(app: TestApp) -> None:
    now = clock.utc_text()
    app.put("users", {"id": 100, "first_name": "Carol", "last_name": "Greaves", "ext": "201", "active": True})
    app.put("ddis", {"id": 7, "e164": "442079460002", "name": "Greengate line"})
    app.put("contacts", {"id": 3, "first_name": "Greta", "last_name": "Lindqvist", "company": "Ice & Co",
                         "mobile": CALLER, "user_id": None, "global": True})  # fmt: skip
    app.call(8, now, party_name="Greta Lindqvist", user_id=100)
    app.call(9, now, party="447700900102", party_e164="+447700900102", user_id=101, recordings=1)
    app.leg(9)
    # A record that is mirrored would recompute the call.
    words = "The greenhouse was delivered without a door"
    app.insert("monitors", id=11, timestamp=now, live_id=9, user_id=101, transcript=words)
    app.put("sms", {"id": 41, "created_at": now, "from": CALLER, "to": "442079460002", "type": "I",
                    "message": "Is the greenhouse ready?", "from_name": ""})  # fmt: skip
    app.put("faxes", {"id": 51, "created_at": now, "from": CALLER, "to": "442079460002", "pages": 1})
    app.put("chats", {"id": 61, "created_at": now, "visitor_name": "Gregor Chat"})

    def note(tx: Transaction) -> None:
        notes.add_note(tx, 9, BOB.email, "Send a greenhouse door")

    app.app_db.write(note)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with running_app(tmp_path_factory.mktemp("data")) as app:
        fill(app)
        yield app


def find(client: Browser, text: str, more: str = "") -> dict[str, list[str]]:
    """Titles of the results by group."""
    page = client.get(f"/palette?q={text}&more={more}").text
    groups = re.findall(r'<div role="group" aria-label="([^"]*)">(.*?)</div>', page, re.DOTALL)
    return {
        label: [unescape(title) for title in re.findall(r"<span>(.*?)</span>", body)]
        for label, body in groups
    }


def test_each_kind_is_found_in_its_own_group(app):
    client = app.log_in(BOB)
    assert find(client, "gre") == {
        "People": ["Carol Greaves"],
        "Contacts": ["Greta Lindqvist"],
        "Numbers": ["020 7946 0002"],
        "Calls": ["Greta Lindqvist"],
        "Words in calls": ["07700 900102"],
        "Notes": ["Send a greenhouse door"],
    }
    assert find(client, "greenhouse", "1") == {"SMS": ["07700 900101"]}
    assert find(client, "gregor", "1") == {"Chats": ["Gregor Chat"]}
    assert find(client, "900101", "1") == {"SMS": ["07700 900101"], "Faxes": ["07700 900101"]}
    page = client.get("/palette?q=greenhouse").text
    assert "The greenhouse was delivered" in page
    assert "Answered · " in client.get("/palette?q=greta").text
    assert 'href="/calls/9"' in page


@pytest.mark.parametrize("written", ["07700 900101", "%2B447700900101", "0044 7700 900101"])
def test_a_number_offers_what_can_be_done_with_it(app, written):
    actions = find(app.log_in(CAROL), written)["Pages and actions"]
    assert actions == [
        "Call 07700 900101", "Send a message to 07700 900101", "Contact and history of 07700 900101",
    ]  # fmt: skip
    assert find(app.log_in(DAVE), written)["Pages and actions"] == ["Contact and history of 07700 900101"]
    assert find(app.log_in(DAVE), written)["Calls"] == ["Greta Lindqvist"]


def test_pages_are_found_by_rights(app):
    assert find(app.log_in(), "aud") == {"Pages and actions": ["Audit"]}
    assert find(app.log_in(BOB), "aud") == {}
    assert find(app.log_in(BOB), "rep")["Pages and actions"] == ["Reports"]
    assert "Pages and actions" not in find(app.log_in(CAROL), "rep")
    settings = re.findall(r'class="chip" href="(/settings/[^"]*)"', app.log_in().get("/settings/people").text)
    assert len(settings) > 5
    assert {path for _, path, _, _ in PAGES} >= set(settings)
    # Without a text the field offers pages.
    assert find(app.log_in(DAVE), "")["Pages and actions"][:2] == ["Live", "Missed"]


def test_spoken_words_are_found_only_with_permission_to_play_recordings(app):
    assert "Words in calls" in find(app.log_in(CAROL), "greenhouse")
    assert "Words in calls" not in find(app.log_in(DAVE), "greenhouse")


@pytest.mark.parametrize("text", ["%25", "'", '"', "<b>", "%00", "_", "a" * 300, "\\"])
def test_any_text_can_be_searched(app, text):
    client = app.log_in()
    assert "Greta" not in str(find(client, text))
    assert client.get(f"/palette?q={text}&more=1").status_code == 200


def test_results_are_limited_to_the_calls_of_the_user(tmp_path):
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        fill(app)
        own = app.log_in(CAROL)
        assert find(own, "gre")["Calls"] == ["Greta Lindqvist"]
        assert "Words in calls" not in find(own, "greenhouse")
        assert "Notes" not in find(own, "greenhouse")
        assert find(own, "greenhouse", "1") == {}
        other = app.log_in(CAROL.as_user(101))
        assert "Calls" not in find(other, "greta")
        assert find(other, "greenhouse")["Notes"] == ["Send a greenhouse door"]
