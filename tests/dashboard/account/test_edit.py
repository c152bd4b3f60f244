"""Edit forms of account records, with the body fields of the catalogue."""

from __future__ import annotations

import pytest

from tests.dashboard.calls.test_actions import acting, logged_requests, simulator
from tests.support.page_text import text
from tests.support.people import BOB, Member

__all__ = ["acting", "simulator"]


@pytest.fixture
def group(acting):
    record = acting.context.platform.page("ringgroups").records[0].values
    acting.put("ringgroups", record)
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
    assert "for everybody?" in text(client.get(f"{path}?edit=1"))
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
    assert "is a whole number" in answer.text
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
