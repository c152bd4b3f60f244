"""Registrations, password resets, trusted devices and long sessions."""

from __future__ import annotations

import pytest
import requests

from tests.support.simulator_client import Client

NEW = {"email": "nia@example.org", "first_name": "Nia", "last_name": "New", "password": "not shown again"}


def post(client: Client, path: str, body: dict) -> requests.Response:
    """POST without credentials."""
    return requests.post(client.simulator.url + path, json=body, timeout=30)


def read_code(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.split()[-1]


def test_a_registration_is_confirmed_by_code_and_completed_with_a_number(begin, capsys):
    client = begin()
    url = client.simulator.url
    created = post(client, "/registrations", NEW)
    assert created.status_code == 200
    record = created.json()["data"]
    assert record["status"] == "new"
    assert "password" not in record
    code, own = read_code(capsys), f"{url}/registrations/{record['hash']}"
    assert requests.get(own, timeout=30).json()["data"] == record
    numbers = requests.get(own + "/numbers/020", timeout=30).json()["data"]
    assert all(entry["e164"].startswith("4420") for entry in numbers)
    number = numbers[0]["e164"]
    assert requests.patch(own, json={"number": number}, timeout=30).status_code == 400, "not confirmed yet"
    assert requests.patch(own, json={"code": "no"}, timeout=30).status_code == 400
    assert requests.patch(own, json={"code": code}, timeout=30).json()["data"]["status"] == "confirmed"
    done = requests.patch(own, json={"number": number}, timeout=30).json()["data"]
    assert (done["status"], done["number"]) == ("completed", number)
    assert requests.get(own, timeout=30).status_code == 403
    assert requests.get(own + "/numbers/020", timeout=30).status_code == 403


def test_a_code_can_be_sent_five_more_times(begin, capsys):
    client = begin()
    hash_ = post(client, "/registrations", NEW).json()["data"]["hash"]
    first = read_code(capsys)
    assert post(client, f"/registrations/{hash_}/resend", {}).status_code == 200
    second = read_code(capsys)
    own = f"{client.simulator.url}/registrations/{hash_}"
    assert first == second or requests.patch(own, json={"code": first}, timeout=30).status_code == 400
    assert requests.patch(own, json={"code": second}, timeout=30).status_code == 200
    statuses = [post(client, f"/registrations/{hash_}/resend", {}).status_code for _ in range(6)]
    assert statuses == [200] * 4 + [403] * 2


def test_invalid_registrations_are_refused(begin):
    client = begin()
    taken = post(client, "/registrations", {**NEW, "email": client.simulator.admin.email})
    assert (taken.status_code, taken.json()["errors"][0]["code"]) == (400, "CU1001")
    url = client.simulator.url
    assert requests.get(f"{url}/registrations/no-hash", timeout=30).status_code == 400
    assert requests.get(f"{url}/registrations/{'0' * 40}", timeout=30).status_code == 404
    hash_ = post(client, "/registrations", NEW).json()["data"]["hash"]
    assert requests.get(f"{url}/registrations/{hash_}/numbers/999", timeout=30).status_code == 404
    client.control("POST", "/faults", json={"spec": "status=500@/registrations"})
    assert requests.get(f"{url}/registrations/{hash_}", timeout=30).status_code == 500


def test_a_password_reset_ends_sessions_and_keeps_api_keys(begin, capsys):
    client = begin()
    ben = client.simulator.ordinary_user
    old = {"email": ben.email, "password": ben.password}
    session = post(client, "/login", old).json()["user_token"]
    assert post(client, "/password", {"email": ben.email}).status_code == 200
    token = read_code(capsys)
    assert post(client, "/reset", {"token": token, "password": "short"}).status_code == 400
    assert post(client, "/reset", {"token": token, "password": "long enough"}).status_code == 200
    assert post(client, "/reset", {"token": token, "password": "once only"}).status_code == 400
    assert post(client, "/login", old).status_code == 400
    assert post(client, "/login", {**old, "password": "long enough"}).status_code == 200
    assert Client(client.simulator, session).get("/me").status_code == 401
    assert Client(client.simulator, ben.api_key).get("/me").status_code == 200


def test_an_added_device_needs_no_second_factor(begin):
    client = begin()
    person = client.simulator.two_factor_user
    login = {"email": person.email, "password": person.password, "device_fingerprint": "abc"}
    nonce = post(client, "/login", login).json()["nonce"]
    code = client.simulator.context.login_service.codes[person.email]
    assert post(client, "/login2fa", {"nonce": nonce, "code": code, "add_device": True}).status_code == 200
    assert post(client, "/login2fa", {"nonce": nonce, "code": code}).status_code == 400, "once only"
    assert post(client, "/login", login).status_code == 200
    assert post(client, "/login", {**login, "device_fingerprint": "def"}).status_code == 202
    assert post(client, "/login", {"email": person.email, "password": person.password}).status_code == 202


def test_a_login_with_remember_me_outlives_the_idle_time(begin, movable_clock):
    client = begin(token_idle=100)
    admin = client.simulator.admin
    body = {"email": admin.email, "password": admin.password}
    short_token = post(client, "/login", body).json()["user_token"]
    long_token = post(client, "/login", {**body, "remember_me": True}).json()["user_token"]
    movable_clock.advance(5000)
    assert Client(client.simulator, short_token).get("/me").status_code == 401
    assert Client(client.simulator, long_token).get("/me").status_code == 200


def test_the_control_api_returns_the_last_code(begin):
    client = begin()
    person = client.simulator.two_factor_user
    post(client, "/login", {"email": person.email, "password": person.password})
    people = client.control("GET", "/account")["people"]
    shown = next(entry["code"] for entry in people if entry["id"] == person.id)
    assert shown == client.simulator.context.login_service.codes[person.email]
    assert len(shown) == 6


def test_the_control_api_changes_and_deletes_records(begin):
    client = begin()
    for name, key in (("sms/cannedresponses", 6501), ("conferences", 72001)):
        changed = client.control("PATCH", f"/records/{name}/{key}", json={"name": "Drifted"})
        assert changed["data"]["name"] == "Drifted"
        assert client.get(f"/{name}/{key}").json()["data"]["name"] == "Drifted"
        client.control("DELETE", f"/records/{name}/{key}")
        assert client.get(f"/{name}/{key}").status_code == 404
