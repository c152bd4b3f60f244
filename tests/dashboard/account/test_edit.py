"""Edit forms of account records, with the body fields of the catalogue."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from tests.dashboard.calls.test_actions import acting, logged_requests, simulator
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling
from tests.support.people import BOB, ERIN, Member

__all__ = ["acting", "simulator"]


@pytest.fixture
def group(acting):
    record = acting.context.platform.page("ringgroups").records[0].values
    acting.put("ringgroups", record)
    return record["id"]


def record_of(acting, collection, number):
    return acting.context.platform.item(f"/{collection}/{number}?include=users").values


def members(record) -> set[int]:
    return {user["id"] if isinstance(user, dict) else user for user in record["users"]}


def test_a_ring_group_form_ticks_members_and_sends_only_ticked_users(acting, simulator, group):
    client = acting.log_in(BOB)
    before = members(record_of(acting, "ringgroups", group))
    page = client.get(f"/account/ringgroups/{group}?edit=1")
    ticked = re.findall(r'name="users" value="(\d+)" checked', page.text)
    assert {int(user) for user in ticked} == before
    removed = min(before)
    kept = sorted(before - {removed})
    fields = {"name": record_of(acting, "ringgroups", group)["name"], "users": [str(user) for user in kept]}
    record = record_of(acting, "ringgroups", group)
    fields |= {"strategy": record["strategy"], "ring_time": str(record["ring_time"])}
    fields |= {"cli_prefix": "1" if record["cli_prefix"] else ""}
    client.post(f"/account/ringgroups/{group}", **fields)
    assert members(record_of(acting, "ringgroups", group)) == set(kept)
    assert logged_requests(simulator, "PATCH", f"/ringgroups/{group}")[-1]["status"] == 200
    with acting.mirror_db.read() as connection:
        row = connection.execute("SELECT _item, _doc FROM ringgroups WHERE id = ?", (group,)).fetchone()
    assert json.loads(row["_item"])["users"] == kept


def test_a_form_omits_missing_users_and_keeps_members_without_a_record(acting, group):
    member, *_ = sorted(members(record_of(acting, "ringgroups", group)))
    acting.mirror_db.write(lambda tx: tx.execute("DELETE FROM users WHERE id = ?", (member,)))
    acting.put("users", {"id": 999, "first_name": "Former"}, complete=False)
    Filling(acting).mark_missing("users", 999)
    page = acting.log_in(BOB).get(f"/account/ringgroups/{group}?edit=1").text
    assert f'name="users" value="{member}" checked' in page
    assert 'value="999"' not in page


def test_an_agent_is_logged_out_of_a_queue_and_stays_a_member(acting):
    client = acting.log_in(BOB)
    number = acting.context.platform.page("queues").records[0].values["id"]
    users = members(record_of(acting, "queues", number))
    page = client.get(f"/account/queues/{number}?edit=1")
    assert "logged out" in page.text
    out = min(users)
    client.post(
        f"/account/queues/{number}", **{f"users {user}": "out" if user == out else "in" for user in users}
    )
    states = {user["id"]: user["status"] for user in record_of(acting, "queues", number)["users"]}
    assert states.keys() == users
    assert not states[out]
    assert sum(map(bool, states.values())) == len(users) - 1


def test_a_canned_response_is_created_changed_offered_and_deleted(acting):
    client = acting.log_in(BOB)
    answer = client.post("/account/sms/cannedresponses", name="Late", text="We are running late.")
    path = answer.url.removeprefix(acting.url)
    assert "We are running late." in client.get("/messages?new=1").text
    client.post(path, name="Late", text="Ten minutes late.")
    assert "Ten minutes late." in client.get("/messages?new=1").text
    assert "Type Late to confirm" in text(client.get(f"{path}?edit=1"))
    client.post(path, drop="1", confirm="late ")
    assert "Ten minutes late." not in client.get("/messages?new=1").text


def test_a_refused_form_marks_the_field_and_keeps_the_entered_text(acting):
    answer = acting.log_in(BOB).post("/account/sms/cannedresponses", name="", text="Kept words")
    assert answer.status_code == 400
    assert "Kept words" in answer.text
    assert 'aria-invalid="true"' in answer.text


def test_text_in_a_number_field_gets_400_and_sends_no_request(acting, simulator, group):
    sent = len(logged_requests(simulator, "PATCH", f"/ringgroups/{group}"))
    answer = acting.log_in(BOB).post(f"/account/ringgroups/{group}", name="x", ring_time="soon")
    assert answer.status_code == 400
    assert "must be a whole number" in answer.text
    assert len(logged_requests(simulator, "PATCH", f"/ringgroups/{group}")) == sent


def parse_form(page: str) -> dict[str, str]:
    """Return the text fields of the edit form."""
    form = next(form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if 'name="version"' in form)
    inputs = re.findall(r'<input(?: type="hidden")? name="(\w+)" value="([^"]*)"', form)
    areas = re.findall(r'<textarea name="(\w+)"[^>]*>(.*?)</textarea>', form, re.DOTALL)
    return {name: unescape(value) for name, value in inputs} | {
        name: unescape(value).replace("\n", "\r\n") for name, value in areas
    }


def read_form(client, url: str) -> dict[str, str]:
    return parse_form(client.get(url).text)


@pytest.fixture
def contact(acting):
    """URL of a contact on the platform."""
    fields = {"first_name": "Cora", "last_name": "Sample", "tel": "020 7946 0123", "notes": "One\r\nTwo"}
    return acting.log_in(BOB).post("/contacts", **fields).url.removeprefix(acting.url)


@pytest.fixture
def canned_response(acting):
    """URL of the edit form of a canned response on the platform."""
    answer = acting.log_in(BOB).post("/account/sms/cannedresponses", name="Late", text="One\r\nTwo")
    return answer.url.removeprefix(acting.url)


def test_of_two_users_who_edit_a_contact_the_later_sees_both_values(acting, contact):
    first, second = acting.log_in(BOB), acting.log_in(ERIN)
    form_of_first, form_of_second = read_form(first, contact), read_form(second, contact)
    first.post(contact, **form_of_first | {"last_name": "Lind", "company": "Example Ltd"})
    refused = second.post(contact, **form_of_second | {"last_name": "Moss", "email": "cora@example.com"})
    assert refused.status_code == 409
    assert "another user changed this while you were editing" in text(refused)
    assert "Now saved: “Lind”" in text(refused)
    for kept in ('value="Moss"', 'value="cora@example.com"', 'value="Example Ltd"'):
        assert kept in refused.text
    assert read_form(first, contact)["last_name"] == "Lind"
    second.post(contact, **parse_form(refused.text))
    saved = read_form(first, contact)
    assert [saved[name] for name in ("first_name", "last_name", "company", "email")] == [
        "Cora", "Moss", "Example Ltd", "cora@example.com",
    ]  # fmt: skip


def test_changes_of_different_fields_of_a_contact_are_both_saved(acting, simulator, contact):
    first, second = acting.log_in(BOB), acting.log_in(ERIN)
    form_of_first, form_of_second = read_form(first, contact), read_form(second, contact)
    first.post(contact, **form_of_first | {"last_name": "Lind"})
    second.post(contact, **form_of_second | {"company": "Example Ltd"})
    saved = read_form(first, contact)
    assert (saved["last_name"], saved["company"], saved["notes"]) == ("Lind", "Example Ltd", "One\r\nTwo")
    sent = logged_requests(simulator, "PATCH", contact)
    second.post(contact, **read_form(second, contact))
    assert logged_requests(simulator, "PATCH", contact) == sent


def test_of_two_users_who_edit_a_record_the_later_sees_both_values(acting, canned_response):
    url = f"{canned_response}?edit=1"
    first, second = acting.log_in(BOB), acting.log_in(BOB)
    form_of_first, form_of_second = read_form(first, url), read_form(second, url)
    first.post(canned_response, **form_of_first | {"text": "Ten minutes late.", "name": "Delay"})
    refused = second.post(canned_response, **form_of_second | {"text": "An hour late."})
    assert refused.status_code == 409
    assert "Now saved: “Ten minutes late.”" in text(refused)
    assert ">An hour late.</textarea>" in refused.text
    assert 'value="Delay"' in refused.text
    assert read_form(first, url)["text"] == "Ten minutes late."


def test_members_added_by_another_user_are_shown_and_not_removed(acting, group):
    url = f"/account/ringgroups/{group}"
    with acting.mirror_db.read() as connection:
        users = [str(row[0]) for row in connection.execute("SELECT id FROM users ORDER BY id LIMIT 3")]
    first, second = acting.log_in(BOB), acting.log_in(BOB)
    record = record_of(acting, "ringgroups", group)
    fields = {
        "name": record["name"], "strategy": record["strategy"], "ring_time": str(record["ring_time"]),
        "cli_prefix": "1" if record["cli_prefix"] else "",
    }  # fmt: skip
    version = read_form(second, f"{url}?edit=1")["version"]
    first.post(url, **fields, users=users[:2], version=version)
    refused = second.post(url, **fields, users=users[2:], version=version)
    assert refused.status_code == 409
    assert "Now saved: “" in text(refused)
    assert members(record_of(acting, "ringgroups", group)) == {int(user) for user in users[:2]}
    second.post(url, **fields | {"name": "Front desk"}, users=users[:2], version=version)
    assert record_of(acting, "ringgroups", group)["name"] == "Front desk"


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("agent", "/account/ringgroups/1", 403),
        ("supervisor", "/account/users/1", 403),
        ("supervisor", "/account/ivrs", 403),
        ("agent", "/account/conferences", 403),
        ("admin", "/account/pickupgroups/1", 404),
        ("admin", "/account/cdrs", 404),
        ("admin", "/account/ivrs/1", 404),
        ("supervisor", "/account/queues/999", 404),
    ],
)
def test_forms_need_the_role_of_their_collection_and_an_operation_of_the_platform(app, role, path, status):
    client = app.log_in(Member("ann@example.com", role))
    assert client.post(path, name="x").status_code == status
    assert client.get(f"{path}?edit=1").status_code == status
