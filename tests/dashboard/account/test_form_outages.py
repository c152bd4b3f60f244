"""Forms of the account: unusual responses of the platform, refused and long entries, roles."""

from __future__ import annotations

import json
import threading
from html import unescape

import pytest

from integration.access import people
from integration.dashboard.account import form
from tests.dashboard.account.test_forms import form_values
from tests.support import people as people_support
from tests.support.application import make_app
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling
from tests.support.people import Member
from tests.support.scripted_server import Reply, Request

ADMIN = Member("root@example.com", "admin")
EMAILS = [f"reader-{number}@example.com" for number in range(250)]
SCHEDULE = {
    "id": 3,
    "name": "Weekly " * 400,
    "description": "One\r\nTwo\rThree " + "x" * 250_000,
    "emails": ",".join(EMAILS),
}
CONTACT = {
    "id": 5,
    "first_name": "Cora",
    "last_name": "Sample",
    "company": "Example\nLtd " * 300,
    "tel": "442079460123",
    "notes": "One\r\nTwo " * 700,
}
SCHEDULE_FORM, CONTACT_FORM = "/account/reportschedules/3", "/contacts/5"
ROOM = {"id": 7, "name": "Board", "confno": 901, "ann_join_leave": 1, "monitor": 0, "pin": "1234"}


@pytest.fixture
def app(app):
    Filling(app)("conferences", ROOM)
    return app


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


@pytest.fixture
def long_values(app):
    """A report schedule and a contact with values above the limits of entries."""
    app.platform.respond("GET /reportschedules/{id}", {"data": SCHEDULE})
    app.platform.respond("PATCH /reportschedules/{id}", {"data": SCHEDULE})
    app.platform.respond("PATCH /contacts/{id}", {"data": CONTACT})
    Filling(app)("reportschedules", SCHEDULE)
    Filling(app)("contacts", CONTACT)


def read_entries(page: str) -> dict[str, list[str]]:
    """Entries of the form as a browser sends them: lines end with CR LF."""
    texts = ("description", "emails", "notes")
    return {
        name: ["\r\n".join(one.splitlines()) if name in texts else one.replace("\n", "") for one in entries]
        for name, entries in form_values(page).items()
    }


@pytest.mark.parametrize(
    ("path", "change"),
    [(SCHEDULE_FORM, {"format": "csv"}), (CONTACT_FORM, {"last_name": "Moss"})],
)
def test_untouched_long_values_are_not_sent(app, long_values, path, change):
    client = app.log_in(ADMIN)
    entries = read_entries(client.get(f"{path}?edit=1").text)
    client.post(path, **entries | change)
    assert bodies(app, "PATCH") == [change]


@pytest.mark.parametrize(
    ("path", "name", "entry", "message"),
    [
        (SCHEDULE_FORM, "name", "N" * 2001, "has 2,001 characters. Shorten it to at most 2,000."),
        (SCHEDULE_FORM, "description", "D" * 200_001,
         "Description has 200,001 characters. Shorten it to at most 200,000."),
        (SCHEDULE_FORM, "emails", "\r\n".join(EMAILS[:201]), "has 201 entries. Remove all but 200."),
        (SCHEDULE_FORM, "emails", "e" * 2001, "has 2,001 characters. Shorten it to at most 2,000."),
        ("/contacts", "email", "e" * 2001, "E-mail has 2,001 characters. Shorten it to at most 2,000."),
    ],
)  # fmt: skip
def test_an_entry_that_is_too_long_is_refused_at_its_field_and_kept(
    app, long_values, path, name, entry, message
):
    client, change = app.log_in(ADMIN), {"first_name": "Cora"}
    shown = read_entries(client.get(f"{path}?edit=1").text) if path[-1].isdigit() else {}
    refused = client.post(path, **shown | change | {name: entry})
    assert refused.status_code == 400
    assert f"{message}</span>" in refused.text
    assert entry.replace("\r\n", "\n") in unescape(refused.text).replace("\r\n", "\n")
    assert bodies(app, "PATCH") + bodies(app, "POST") == []


def test_a_form_omits_missing_users_and_keeps_members_without_a_record(app):
    group = {"id": 4, "name": "Sales", "users": [7]}
    app.platform.respond("GET /ringgroups/{id}", {"data": group})
    Filling(app)("ringgroups", group)
    Filling(app)("users", {"id": 999, "first_name": "Former"})
    Filling(app).mark_missing("users", 999)
    page = app.log_in(ADMIN).get("/account/ringgroups/4?edit=1").text
    assert 'name="users" value="7" checked' in page
    assert 'value="999"' not in page


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("agent", "/account/ringgroups/1", 403),
        ("supervisor", "/account/users/1", 403),
        ("agent", "/account/conferences", 403),
        ("admin", "/account/pickupgroups/1", 404),
        ("admin", "/account/cdrs", 404),
        ("supervisor", "/account/queues/999", 404),
    ],
)
def test_forms_need_the_role_of_their_collection_and_an_operation_of_the_platform(app, role, path, status):
    client = app.log_in(Member("ann@example.com", role))
    assert client.post(path, name="x").status_code == status
    assert client.get(f"{path}?edit=1").status_code == status


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
