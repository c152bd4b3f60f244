"""The bell, the page of notifications, and the start page."""

from __future__ import annotations

import re

import pytest

from integration.core import clock
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import Browser, TestApp, running_app
from tests.support.clock import ago
from tests.support.downloads import add_download, finish_download
from tests.support.page_text import text
from tests.support.people import BOB, CALLER, CAROL, DAVE, ERIN


def count(client: Browser) -> str:
    """The number at the bell."""
    found = re.search(r'data-count="news">(\d*)<', client.get("/live").text)
    assert found
    return found[1]


@pytest.fixture
def office(shared_app: TestApp) -> TestApp:
    """Voicemail of Carol and of another user, a missed call and a finished export of Bob."""
    app = shared_app
    app.clock.advance(-3600)
    for member in (CAROL, BOB, DAVE):
        app.add(member)
    app.clock.restore()
    app.put("users", {"id": 100, "first_name": "Carol", "ext": "201", "active": True},
            {"id": 101, "first_name": "Other", "ext": "202", "active": True})  # fmt: skip
    app.put("voicemessages",
            {"id": 1, "origtime": ago(seconds=30), "extension_id": 201, "caller": CALLER, "duration": 12},
            {"id": 2, "origtime": ago(seconds=20), "extension_id": 202, "caller": "447700900102"},
            {"id": 3, "origtime": ago(days=20), "extension_id": 201, "caller": "447700900103"})  # fmt: skip
    app.call(8, ago(seconds=600), outcome="missed", party_name="Greta Lindqvist", change_no=1)
    app.mirror_db.write(lambda tx: tx.announce("call", 8, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    return app


def open_item(app: TestApp) -> int:
    with app.app_db.read() as connection:
        return callbacks.list_items(connection)[0].id


def test_the_bell_counts_what_happened_for_the_user_since_the_last_look(office):
    app = office
    carol, dave = app.log_in(CAROL), app.log_in(DAVE)
    assert (count(carol), count(dave)) == ("1", "")
    callbacks.record_action(app.app_db, open_item(app), BOB.email, "assign", CAROL.email)
    assert count(carol) == "2"
    page = text(carol.get("/notifications"))
    assert "Voicemail from 07700 900101 0:12" in page
    assert "Call-back assigned to you: Greta Lindqvist by Bob" in page
    assert "900102" not in page
    assert "900103" not in page
    carol.post("/notifications/seen", until=clock.utc_text())
    assert count(carol) == ""
    assert "Greta Lindqvist" in text(carol.get("/notifications"))
    # A call-back that a user claims is no news for this user.
    callbacks.record_action(app.app_db, open_item(app), CAROL.email, "assign", CAROL.email)
    assert count(carol) == ""


def test_a_finished_export_is_a_notification_of_its_owner(office):
    app = office
    bob = app.add(BOB)
    download = add_download(app.app_db, bob, 9)
    client = app.log_in(BOB)
    assert count(client) == ""
    finish_download(app.app_db, download, 9, 100)
    assert count(client) == "1"
    assert "Export ready: Call detail records 9 rows" in text(client.get("/notifications"))
    assert count(app.log_in(DAVE)) == ""


def test_an_assignment_outside_of_the_visibility_is_not_shown(tmp_path):
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        app.call(8, ago(seconds=600), outcome="missed", user_id=12, party_name="Secret Caller", change_no=1)
        app.mirror_db.write(lambda tx: tx.announce("call", 8, {}))
        update_from_mirror(app.app_db, app.mirror_db)
        callbacks.record_action(app.app_db, open_item(app), BOB.email, "assign", CAROL.email)
        assert "Secret" not in app.log_in(CAROL).get("/notifications").text


def test_the_start_page_is_chosen_by_rights(office):
    client = office.log_in(DAVE)
    page = client.get("/profile")
    assert '<option value="/missed"' in page.text
    assert '<option value="/reports"' not in page.text
    assert client.post("/profile/start-page", start_page="/reports").status_code == 400
    assert client.post("/profile/start-page", start_page="https://evil.example/").status_code == 400
    assert "Saved." in text(client.post("/profile/start-page", start_page="/missed"))
    assert '<option value="/missed" selected' in client.get("/profile").text


def test_a_login_opens_the_start_page(site, visitor):
    site.log_in(ERIN).post("/profile/start-page", start_page="/missed")
    answer = visitor.log_in(ERIN.email)
    assert answer.headers["Location"] == "/missed"
