"""Edit forms of account records, with the body fields of the catalogue."""

from __future__ import annotations

import json
import re

import pytest

from integration.dashboard.account.edit import EDIT_RULES, body_fields
from tests.dashboard.calls.test_actions import acting, logged_requests, simulator
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling
from tests.support.people import BOB, Member

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


@pytest.mark.parametrize("collection", EDIT_RULES)
def test_a_form_has_only_fields_that_the_platform_accepts(collection):
    assert set(EDIT_RULES[collection].fields) <= body_fields(collection).keys() | {"name", "color"}


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
    assert "for everyone?" in text(client.get(f"{path}?edit=1"))
    client.post(path, drop="1")
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


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("agent", "/account/ringgroups/1", 403),
        ("supervisor", "/account/users/1", 404),
        ("supervisor", "/account/ringgroups", 404),
        ("supervisor", "/account/queues/999", 404),
    ],
)
def test_only_supervisors_get_forms_and_only_for_editable_collections(app, role, path, status):
    client = app.log_in(Member("ann@example.com", role))
    assert client.post(path, name="x").status_code == status
    assert client.get(f"{path}?edit=1").status_code == status
