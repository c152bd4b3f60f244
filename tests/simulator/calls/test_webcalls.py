"""Web calls, call-backs and changed live calls, with the resulting records."""

from __future__ import annotations

import pytest

from tests.support.simulator_client import sample


def test_a_web_call_dials_both_numbers_and_has_a_charge(begin):
    client = begin()
    played = client.play(
        "web_call", caller="447700900321", dial="447700900654", talk_seconds=60, answered=True
    )
    (record,) = client.rows("/webcalls")
    cdrs = client.rows("/cdrs")
    assert [cdr["id"] for cdr in cdrs] == sorted(played["cdr_ids"])
    assert {cdr["destination"] for cdr in cdrs} == {"webcall"}
    assert (record["from"], record["to"]) == ("447700900321", "447700900654")
    by_dst = {cdr["dst"]: cdr["billsec"] for cdr in cdrs}
    assert record["from_duration"] == by_dst[record["from"]] > record["to_duration"] == by_dst[record["to"]]
    assert record["charge"] > 0


def test_a_posted_web_call_starts_and_sends_webhooks(begin, receiver):
    client = begin(webhook=receiver.url, speed=100)
    response = client.send("POST", "/webcalls", json={"from": "+447700900321", "to": "1002"})
    assert response.status_code == 201
    assert client.rows("/webcalls")[0]["id"] == response.json()["data"]["id"]
    first = receiver.wait_for(1)[0]
    assert (first["event_name"], first["dst"], first["destination"]) == (
        "call.initial", "447700900321", "webcall",
    )  # fmt: skip


def test_a_web_call_to_a_premium_number_is_refused(begin):
    response = begin().send("POST", "/webcalls", json={"from": "447700900101", "to": "999000111222"})
    expected = sample("response-webcalls-post-400")
    assert response.status_code == 400
    assert response.json()["message"] == expected["message"].replace("447700900101", "999000111222")


def test_a_lead_call_needs_a_number_of_the_account_and_is_a_live_call(begin):
    client = begin()
    for caller_id in ({}, {"caller_id": "anonymous"}, {"caller_id": "447700900001"}):
        body = {"to": "447700900321", "tts": "Hello", **caller_id}
        refused = client.send("POST", "/leadcalls", json=body)
        assert (refused.status_code, refused.json()) == (400, sample("response-leadcalls-post-400"))
    body = {"caller_id": "442079460101", "to": "+447700900321"}
    call = client.send("POST", "/leadcalls", json=body).json()["data"]
    assert client.get(f"/calls/{call['id']}").json()["data"]["dst"] == "447700900321"


def test_a_started_recording_and_labels_of_a_live_call_reach_its_records(begin):
    client = begin()
    leg = client.play("plain_answered", until="connected", user="1001", recorded=None)["leg_ids"][0]
    assert client.get(f"/calls/{leg}").json()["data"]["monitor_state"] is None
    assert [call["id"] for call in client.rows("/users/1000001/calls")] == [leg]
    assert client.rows("/users/1000002/calls") == []
    changed = client.send("PATCH", f"/calls/{leg}", json={"monitor_state": "start", "labels": ["Order"]})
    assert changed.json()["data"]["monitor_state"] == "A"
    paused = client.send("PATCH", f"/calls/{leg}", json={"monitor_state": "pause"})
    assert paused.json()["data"]["monitor_state"] == "P"
    assert client.get(f"/calls/{leg}/monitors").json() == {"data": [], "total": 0}
    client.send("DELETE", f"/calls/{leg}")
    (cdr,) = client.rows("/cdrs")
    assert cdr["labels"] == ["Order"]
    assert [row["live_id"] for row in client.rows(f"/calls/{leg}/monitors")] == [leg]
    assert client.get("/calls/5/monitors").status_code == 404


def test_a_queue_script_without_agents_is_refused(begin):
    client = begin()
    for group in (80101, 80102):
        client.send("PATCH", f"/queues/{group}", json={"users": []})
    refused = client.session.post(client.simulator.control_url + "/calls", json={"script": "queue_answered"})
    assert refused.status_code == 400
    assert "queue" in refused.json()["message"]


@pytest.mark.exhaustive
def test_live_traffic_creates_faxes_chats_and_web_calls(begin, receiver):
    client = begin(live=True, speed=300, webhook=receiver.url)
    names = ("/faxes", "/chats", "/webcalls")
    with receiver.changed:
        assert receiver.changed.wait_for(lambda: all(client.rows(name) for name in names), 60)
    assert client.simulator.context.traffic.error is None


def test_an_sms_thread_has_only_messages_between_its_two_numbers(begin):
    client = begin()
    own_number, partner = "442079460100", "447700900321"
    for to in (partner, "447700900654"):
        client.send("POST", "/sms", json={"to": to, "from": own_number, "message": "Hello"})
    admin = client.simulator.admin.id
    client.control("POST", "/sms", json={"from": partner, "to": own_number, "user": admin, "message": "Hi"})
    client.control(
        "POST", "/sms", json={"from": partner, "to": own_number, "user": 1000002, "message": "Ben?"}
    )
    thread = client.rows(f"/users/{admin}/smsthreads/{partner}/{own_number}")
    assert [row["message"] for row in thread] == ["Hello", "Hi"]
