"""Each kind of fault, seen from outside."""

from __future__ import annotations

import time

import pytest
import requests

from integration.simulator.http.faults import ActiveFaults, InvalidFaultSpec, parse


def path_of_a_recording(client) -> str:
    client.play("outbound", user="1002", talk_seconds=20)
    return f"/monitors/{client.rows('/monitors')[0]['id']}.mp3"


def fault(client, spec: str) -> None:
    assert "data" in client.control("POST", "/faults", json={"spec": spec})


def test_statuses_come_with_the_platforms_body_and_retry_after(begin):
    client = begin()
    fault(client, "status=503*1@/cdrs,status=429/7*1@/sms")
    refused = client.get("/cdrs")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert set(refused.json()) == {"message", "errors"}
    assert client.get("/cdrs").status_code == 200
    assert client.get("/sms").headers["Retry-After"] == "7"
    assert client.get("/me").status_code == 200


def test_a_hang_ends_without_an_answer(begin):
    client = begin(faults="hang=0.2@/cdrs")
    started = time.monotonic()
    with pytest.raises(requests.ConnectionError):
        client.get("/cdrs")
    assert time.monotonic() - started >= 0.2


def test_a_hang_outlasts_a_short_timeout(begin):
    client = begin(faults="hang=5@/cdrs")
    with pytest.raises(requests.Timeout):
        client.ask("GET", "/cdrs", timeout=0.2)


def test_slow_and_dripping_answers_arrive_whole(begin):
    client = begin(faults="slow=0.2@/me,drip=0.3@/users")
    for path, least in (("/me", 0.2), ("/users", 0.25)):
        started = time.monotonic()
        assert client.get(path).json()["data"]
        assert time.monotonic() - started >= least


def test_a_truncated_body_is_shorter_than_promised(begin):
    client = begin(cdrs=100, faults="truncate@/cdrs")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        client.get("/cdrs", limit=100)


def test_broken_json_and_broken_headers(begin):
    client = begin(faults="malformed*1@/cdrs,malformed=headers@/sms")
    with pytest.raises(requests.exceptions.JSONDecodeError):
        client.get("/cdrs").json()
    # urllib3 forgives what other clients refuse; no length can be read from such a block.
    try:
        assert "Content-Length" not in client.get("/sms").headers
    except requests.RequestException:
        pass


def test_html_with_200_and_an_empty_collection(begin):
    client = begin(cdrs=100, faults="html*1@/cdrs,empty@/monitors")
    page = client.get("/cdrs")
    assert (page.status_code, page.headers["Content-Type"].split(";")[0]) == (200, "text/html")
    assert client.get("/monitors").json() == {"data": [], "total": 0}


def test_a_row_comes_twice(begin):
    client = begin(faults="double-row@/users")
    rows = client.get("/users").json()["data"]
    assert rows[-1] == rows[-2]


def test_pages_are_short_with_the_right_total_and_with_a_wrong_one(begin):
    client = begin()
    whole = client.get("/users").json()
    half = whole["data"][: len(whole["data"]) // 2]
    fault(client, "short-page*1@/users")
    assert client.get("/users").json() == {**whole, "data": half}
    fault(client, "short-list*1@/users")
    assert client.get("/users").json() == {**whole, "data": half, "total": len(half)}


def test_a_list_comes_in_another_order_each_time(begin):
    client = begin(faults="shuffle@/users")
    orders = [[row["id"] for row in client.get("/users?sort=id&dir=ASC").json()["data"]] for _ in range(3)]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])


@pytest.mark.parametrize("what", ["short", "html", "zero"])
def test_a_wrong_mp3(begin, what):
    client = begin()
    path = path_of_a_recording(client)
    whole = client.get(path).content
    fault(client, f"wrong-file={what}@*.mp3")
    wrong = client.get(path)
    assert wrong.status_code == 200
    assert len(wrong.content) < len(whole)
    if what == "html":
        assert wrong.content.startswith(b"<!DOCTYPE")


def test_a_truncated_mp3(begin):
    client = begin()
    path = path_of_a_recording(client)
    fault(client, "truncate=0.9@GET /monitors/*.mp3")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        client.get(path)


def test_a_body_whose_length_nobody_tells(begin):
    client = begin()
    path = path_of_a_recording(client)
    whole = client.get(path).content
    fault(client, "no-length*1@*.mp3")
    half = client.get(path)
    assert "Content-Length" not in half.headers
    assert half.content == whole[: len(whole) // 2]
    fault(client, "no-length=1@*.mp3")
    assert client.get(path).content == whole


def test_a_token_expires_in_the_middle_of_its_life(begin):
    client = begin()
    admin = client.simulator.admin
    login = {"email": admin.email, "password": admin.password}
    client.token = client.ask("POST", "/login", json=login).json()["user_token"]
    fault(client, "expire-token*1@/cdrs")
    assert client.get("/me").status_code == 200
    assert client.get("/cdrs").status_code == 401
    assert client.get("/me").status_code == 401


def test_an_outage_cuts_every_connection_until_it_is_over(begin):
    client = begin()
    client.control("POST", "/outage", json={"seconds": 60})
    with pytest.raises(requests.ConnectionError):
        client.get("/me")
    client.control("POST", "/outage", json={"seconds": 0})
    assert client.get("/me").status_code == 200


def test_webhooks_are_dropped_doubled_delayed_and_reordered(begin, receiver):
    client = begin(webhook=receiver.url, faults="webhook-drop@call.initial,webhook-duplicate@call.hangup")
    client.play("plain_answered", hold=False, wait=8, user="1003")
    told = [event["event_name"] for event in receiver.wait_for(4)]
    assert sorted(told) == ["call.connected", "call.hangup", "call.hangup", "call.ringing"]
    client.control("DELETE", "/faults")
    fault(client, "webhook-delay=1.5@call.ringing,webhook-reorder@call.initial")
    client.play("plain_answered", hold=False, wait=8, user="1003")
    later = [event["event_name"] for event in receiver.wait_for(8)][4:]
    assert later[:2] == ["call.connected", "call.hangup"]


def test_faults_can_be_seen_and_cleared_while_running(begin):
    client = begin()
    fault(client, "status=500:1*3@/cdrs")
    client.get("/cdrs")
    (entry,) = client.control("GET", "/faults")["data"]
    assert entry == {"fault": "status=500:1*3@/cdrs", "happened": 1, "left": 2}
    client.control("DELETE", "/faults")
    assert client.get("/cdrs").status_code == 200


def test_the_same_seed_meets_the_same_faults():
    def draws(seed: int) -> list[bool]:
        faults = ActiveFaults(seed, "status=500:0.3")
        return [bool(faults.draw_for_request("GET", "/cdrs")) for _ in range(200)]

    assert draws(1) == draws(1) != draws(2)
    assert 30 < sum(draws(1)) < 90


@pytest.mark.parametrize(
    "spec", ["nothing", "status", "status=abc", "hang=1:2", "malformed=xml", "status=500:x", "wrong-file=ogg"]
)
def test_a_specification_that_makes_no_sense_is_refused(begin, spec):
    with pytest.raises(InvalidFaultSpec):
        parse(spec)
    client = begin()
    assert "message" in client.control("POST", "/faults", json={"spec": spec})
    assert client.control("GET", "/faults")["data"] == []


def test_every_request_is_kept_in_the_log(begin):
    client = begin(faults="status=500@/sms")
    client.get("/cdrs", limit=3)
    client.get("/sms")
    seen = client.control("GET", "/log")["data"]
    assert [(e["method"], e["path"], e["query"], e["status"]) for e in seen] == [
        ("GET", "/cdrs", "limit=3", 200),
        ("GET", "/sms", "", 500),
    ]
    assert seen[1]["faults"] == ["status"]
    assert seen[0]["user_id"] == 1000001
