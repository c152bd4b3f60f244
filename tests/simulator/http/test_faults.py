"""Faults of the simulator, as an HTTP client receives them."""

from __future__ import annotations

import time

import pytest
import requests


def create_recording(client) -> str:
    client.play("outbound", user="1002", talk_seconds=20)
    return f"/monitors/{client.rows('/monitors')[0]['id']}.mp3"


def set_faults(client, spec: str) -> None:
    assert "data" in client.control("POST", "/faults", json={"spec": spec})


def test_a_status_fault_has_an_error_body_and_retry_after(begin):
    client = begin()
    set_faults(client, "status=503:1*2@/cdrs,status=429/7@/sms")
    refused = client.get("/cdrs")
    (first, _) = client.control("GET", "/faults")["data"]
    assert first == {"fault": "status=503:1*2@/cdrs", "happened": 1, "left": 1}
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert set(refused.json()) == {"message", "errors"}
    assert client.get("/cdrs").status_code == 503
    assert client.get("/cdrs").status_code == 200
    assert client.get("/sms").headers["Retry-After"] == "7"
    assert client.get("/me").status_code == 200
    client.control("DELETE", "/faults")
    assert client.get("/sms").status_code == 200


def test_a_hang_ends_without_a_response(begin):
    client = begin(faults="hang=0.2@/cdrs")
    started = time.monotonic()
    with pytest.raises(requests.ConnectionError):
        client.get("/cdrs")
    assert time.monotonic() - started >= 0.2
    client.control("DELETE", "/faults")
    set_faults(client, "hang=5@/cdrs")
    with pytest.raises(requests.Timeout):
        client.send("GET", "/cdrs", timeout=0.2)


def test_broken_json_and_broken_headers(begin):
    client = begin(faults="malformed*1@/cdrs,malformed=headers@/sms")
    with pytest.raises(requests.exceptions.JSONDecodeError):
        client.get("/cdrs").json()
    # urllib3 accepts malformed headers that other clients refuse, but finds no length in them.
    try:
        assert "Content-Length" not in client.get("/sms").headers
    except requests.RequestException:
        pass


def test_pages_lose_repeat_and_move_records(begin):
    client = begin()
    complete = client.get("/users").json()
    half = complete["data"][: len(complete["data"]) // 2]
    set_faults(client, "short-page*1@/users")
    assert client.get("/users").json() == {**complete, "data": half}
    set_faults(client, "double-row*1@/users")
    assert client.get("/users").json()["data"] == [*complete["data"], complete["data"][-1]]
    set_faults(client, "shuffle@/users")
    orders = [client.get("/users?sort=id&dir=ASC").json()["data"] for _ in range(3)]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    for order in orders:
        assert sorted(order, key=lambda row: row["id"]) == complete["data"]


@pytest.mark.parametrize("what", ["short", "html", "zero"])
def test_a_wrong_file_is_shorter_and_has_status_200(begin, what):
    client = begin()
    path = create_recording(client)
    complete = client.get(path).content
    set_faults(client, f"wrong-file={what}@*.mp3")
    wrong = client.get(path)
    assert wrong.status_code == 200
    assert len(wrong.content) < len(complete)
    if what == "html":
        assert wrong.content.startswith(b"<!DOCTYPE")


def test_bodies_are_truncated_with_and_without_a_content_length(begin):
    client = begin()
    path = create_recording(client)
    complete = client.get(path).content
    set_faults(client, "no-length*1@*.mp3")
    half = client.get(path)
    assert "Content-Length" not in half.headers
    assert half.content == complete[: len(complete) // 2]
    set_faults(client, "no-length=1@*.mp3")
    assert client.get(path).content == complete
    client.control("DELETE", "/faults")
    set_faults(client, "truncate=0.9@GET /monitors/*.mp3,truncate@/users")
    for truncated in (path, "/users"):
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            client.get(truncated)


def test_expire_token_revokes_the_token_of_the_request(begin):
    client = begin()
    admin = client.simulator.admin
    login = {"email": admin.email, "password": admin.password}
    client.token = client.send("POST", "/login", json=login).json()["user_token"]
    set_faults(client, "expire-token*1@/cdrs")
    assert client.get("/me").status_code == 200
    assert client.get("/cdrs").status_code == 401
    assert client.get("/me").status_code == 401


def test_an_outage_closes_every_connection_until_its_end(begin):
    client = begin()
    client.control("POST", "/outage", json={"seconds": 60})
    with pytest.raises(requests.ConnectionError):
        client.get("/me")
    client.control("POST", "/outage", json={"seconds": 0})
    assert client.get("/me").status_code == 200


def test_webhooks_are_dropped_duplicated_and_reordered(begin, receiver):
    client = begin(webhook=receiver.url, faults="webhook-drop@call.initial,webhook-duplicate@call.hangup")
    client.play("plain_answered", hold=False, wait=8, user="1003")
    first = [event["event_name"] for event in receiver.wait_for(4)]
    assert sorted(first) == ["call.connected", "call.hangup", "call.hangup", "call.ringing"]
    client.control("DELETE", "/faults")
    set_faults(client, "webhook-reorder@call.initial")
    client.play("plain_answered", hold=False, wait=8, user="1003")
    later = [event["event_name"] for event in receiver.wait_for(8)][4:]
    assert later[0] == "call.ringing"


@pytest.mark.parametrize(
    "spec", ["nothing", "status", "status=abc", "hang=1:2", "malformed=xml", "status=500:x", "wrong-file=ogg"]
)
def test_an_invalid_specification_is_refused(begin, spec):
    client = begin()
    assert "message" in client.control("POST", "/faults", json={"spec": spec})
    assert client.control("GET", "/faults")["data"] == []


def test_every_request_is_logged(begin):
    client = begin(faults="status=500@/sms")
    client.get("/cdrs", limit=3)
    client.get("/sms")
    logged = client.control("GET", "/log")["data"]
    assert [(e["method"], e["path"], e["query"], e["status"]) for e in logged] == [
        ("GET", "/cdrs", "limit=3", 200),
        ("GET", "/sms", "", 500),
    ]
    assert logged[1]["faults"] == ["status"]
    assert logged[0]["user_id"] == 1000001
