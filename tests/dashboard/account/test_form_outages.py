"""Forms of the account while the platform does not respond, or responds in unusual forms."""

from __future__ import annotations

import json
import threading

import pytest

from integration.access import people
from integration.dashboard.account import form
from tests.support import people as people_support
from tests.support.application import make_app
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import FakeExchange
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling
from tests.support.people import Member
from tests.support.scripted_server import Reply, Request

ADMIN = Member("root@example.com", "admin")
ROOM = {"id": 7, "name": "Board", "confno": 901, "ann_join_leave": 1, "monitor": 0, "pin": "1234"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    app = SharedApp(tmp_path_factory.mktemp("forms") / "data", FakeExchange())
    yield app
    app.close()


@pytest.fixture
def app(shared):
    shared.clear()
    Filling(shared)("conferences", ROOM)
    return shared


def bodies(app, method: str) -> list:
    return [json.loads(one.body) for one in app.platform.requests if one.method == method]


def test_an_unreachable_platform_is_named_and_the_entries_stay(app):
    app.platform.routes.clear()
    client = app.log_in(ADMIN)
    page = client.get("/account/conferences/7?edit=1")
    assert "The values shown are from the last sync." in text(page)
    assert 'value="Board"' in page.text
    failed = client.post("/account/conferences/7", name="Board room", monitor="1")
    assert failed.status_code == 502
    assert "The phone system did not respond (" in text(failed)
    assert 'value="Board room"' in failed.text
    assert '<option value="1" selected>Yes</option>' in failed.text
    failed = client.post("/account/usergroups", name="Drivers", color="#112233")
    assert (failed.status_code, 'value="Drivers"' in failed.text) == (502, True)


def test_numbers_in_place_of_booleans_are_not_changes(app):
    app.platform.respond("GET /conferences/{id}", {"data": ROOM})
    client = app.log_in(ADMIN)
    client.post("/account/conferences/7", name="Board", ann_join_leave="1", monitor="0", pin="")
    assert bodies(app, "PATCH") == []
    app.platform.respond("PATCH /conferences/{id}", {"data": {**ROOM, "name": "Board 2"}})
    client.post("/account/conferences/7", name="Board 2", ann_join_leave="1", monitor="0", pin="")
    assert bodies(app, "PATCH") == [{"name": "Board 2"}]


def test_the_page_shows_what_the_platform_returned_instead_of_what_was_entered(app):
    app.platform.respond("GET /conferences/{id}", {"data": ROOM})
    app.platform.respond("PATCH /conferences/{id}", {"data": {**ROOM, "name": "BOARD (2)"}})
    client = app.log_in(ADMIN)
    saved = client.post("/account/conferences/7", name="board 2", ann_join_leave="1", monitor="0")
    assert saved.url.endswith("/account/conferences/7")
    assert "BOARD (2)" in text(saved)
    assert "BOARD (2)" in text(client.get("/account/conferences"))


def test_field_errors_as_objects_and_as_texts_are_shown(app):
    app.platform.respond("GET /conferences/{id}", {"data": ROOM})
    error = {"code": "SF0010", "field": "name", "message": "This value is already used."}
    app.platform.respond("PATCH /conferences/{id}", {"message": "Validation error", "errors": [error]}, 400)
    client = app.log_in(ADMIN)
    refused = client.post("/account/conferences/7", name="Taken", ann_join_leave="1", monitor="0")
    assert refused.status_code == 400
    assert '<input name="name" value="Taken"' in refused.text
    assert '<span class="error">This value is already used.</span>' in refused.text
    app.platform.respond(
        "PATCH /conferences/{id}", {"message": "Validation error", "errors": ["name is taken"]}, 400
    )
    refused = client.post("/account/conferences/7", name="Taken", ann_join_leave="1", monitor="0")
    assert "name is taken" in text(refused)


def test_a_change_of_another_user_is_named_before_it_is_overwritten(app):
    app.platform.respond("GET /conferences/{id}", {"data": ROOM})
    client = app.log_in(ADMIN)
    page = client.get("/account/conferences/7?edit=1").text
    version = page.split('name="version" value="')[1].split('"')[0]
    app.platform.respond("GET /conferences/{id}", {"data": {**ROOM, "monitor": 1}})
    entries = {"name": "Board", "ann_join_leave": "0", "monitor": "0", "version": version}
    app.platform.respond("PATCH /conferences/{id}", {"data": ROOM})
    client.post("/account/conferences/7", **entries)
    # The user did not touch the recording: their change is sent, the other change stays.
    assert bodies(app, "PATCH") == [{"ann_join_leave": False}]
    app.platform.respond("GET /conferences/{id}", {"data": {**ROOM, "name": "Boardroom"}})
    refused = client.post("/account/conferences/7", **{**entries, "name": "Round table"})
    assert refused.status_code == 409
    assert "Now saved: “Boardroom”" in text(refused)
    assert len(bodies(app, "PATCH")) == 1


def test_every_write_is_in_the_write_log_without_the_pin(app):
    app.platform.respond("GET /conferences/{id}", {"data": ROOM})
    app.platform.respond("PATCH /conferences/{id}", {"data": ROOM})
    app.log_in(ADMIN).post("/account/conferences/7", name="Board", pin="9876")
    with app.app_db.read() as connection:
        row = connection.execute("SELECT who, method, path, body, status FROM journal").fetchone()
    assert tuple(row) == (ADMIN.email, "PATCH", "/conferences/7", '{"pin":"***"}', 200)
    assert bodies(app, "PATCH") == [{"pin": "9876"}]


def test_a_supervisor_without_the_right_recordings_gets_no_form_of_a_recording(app):
    Filling(app)("monitors", {"id": 5, "transcript": "secret words", "caller": "447700900100"})
    sue = Member("sue@example.com", "supervisor")
    people.change(app.app_db, people_support.add(app.app_db, sue).email, rights={"recordings": False})
    client = app.log_in(sue)
    assert client.get("/account/monitors/5?edit=1").status_code == 403
    assert client.post("/account/monitors/5", transcript="x").status_code == 403


def test_a_form_larger_than_the_limit_of_uploads_is_refused(app):
    client = app.log_in(ADMIN)
    too_large = client.post(
        "/account/vmannouncements", files={"data": ("a.wav", b"RIFF" + bytes(6 * 1024**2))}
    )
    assert too_large.status_code == 413
    large = client.post("/account/vmannouncements", files={"data": ("a.wav", b"RIFF" + bytes(5 * 1024**2))})
    assert large.status_code == 400
    assert "Audio file is larger than 5 MB." in text(large)
    assert client.post("/contacts", notes="x" * (2 * 1024**2)).status_code == 413
    assert bodies(app, "POST") == []


def test_a_form_does_not_wait_for_a_phone_system_that_hangs(
    tmp_path, wired_platform, movable_clock, monkeypatch
):
    monkeypatch.setattr(form, "READ_SECONDS", 0.2)
    released = threading.Event()

    def hang(request: Request, reply: Reply) -> None:
        released.wait(5)  # Without the limit of the form its response arrives.
        reply.json({"data": ROOM})

    wired_platform.routes["GET /conferences/{id}"] = hang
    app = make_app(tmp_path, platform=wired_platform, clock=movable_clock, platform__timeout="20")
    try:
        Filling(app)("conferences", ROOM)
        page = app.log_in(ADMIN).get("/account/conferences/7?edit=1")
        assert "The values shown are from the last sync." in text(page)
        assert 'value="Board"' in page.text
    finally:
        released.set()
        app.close()
