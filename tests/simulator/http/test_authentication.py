"""Logins, tokens, keys, Basic, rights of ordinary users, registrations and password resets."""

from __future__ import annotations

import base64

import pytest
import requests

from tests.support.simulator_client import Client, sample

NEW = {"email": "nia@example.org", "first_name": "Nia", "last_name": "New", "password": "not shown again"}


def post(client: Client, path: str, body: dict) -> requests.Response:
    """POST without credentials."""
    return requests.post(client.simulator.url + path, json=body, timeout=30)


def read_code(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.split()[-1]


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_a_token_of_a_login_is_accepted_in_both_headers(begin):
    client = begin()
    admin, url = client.simulator.admin, client.simulator.url
    response = post(client, "/login", {"email": admin.email, "password": admin.password})
    assert response.status_code == 200
    assert response.json().keys() == sample("response-login-200").keys()
    token = response.json()["user_token"]
    for headers in (
        {"X-Auth-Token": token},
        basic(f"{admin.id}:{token}"),
        basic(f"{admin.email}:{token}"),
        {"X-Auth-Token": token, **basic(f"{admin.id}:{token}")},
    ):
        assert requests.get(url + "/me", headers=headers).json()["data"]["id"] == admin.id
    pong = requests.get(url + "/ping", headers={"X-Auth-Token": token}).json()
    assert pong == {"message": "Pong", **sample("response-ping-200")}
    assert requests.post(url + "/logout", headers={"X-Auth-Token": token}).status_code == 200
    assert requests.get(url + "/me", headers={"X-Auth-Token": token}).status_code == 401


def test_invalid_credentials_get_the_response_of_the_platform(begin):
    client = begin()
    admin, url = client.simulator.admin, client.simulator.url
    wrong = requests.post(url + "/login", json={"email": admin.email, "password": "no"})
    assert (wrong.status_code, wrong.json()) == (400, sample("response-login-400"))
    no_colon = requests.get(
        url + "/me", headers={"Authorization": "Basic " + base64.b64encode(b"abc").decode()}
    )
    assert (no_colon.status_code, no_colon.json()) == (400, sample("response-auth-header-400"))
    for headers in ({}, basic("1:2"), basic(f"1000002:{admin.api_key}"), {"X-Auth-Token": "0" * 40}):
        assert requests.get(url + "/me", headers=headers).status_code == 401


def test_a_login_with_second_factor_gets_202_with_a_nonce_and_prints_the_code(begin, capsys):
    client = begin()
    person, url = client.simulator.two_factor_user, client.simulator.url
    response = requests.post(url + "/login", json={"email": person.email, "password": person.password})
    assert response.status_code == 202
    assert response.json().keys() == sample("response-login-202-2fa").keys()
    code = capsys.readouterr().err.split()[-1]
    nonce = response.json()["nonce"]
    assert requests.post(url + "/login2fa", json={"code": "no", "nonce": nonce}).status_code == 400
    token = requests.post(url + "/login2fa", json={"code": code, "nonce": nonce}).json()["user_token"]
    assert requests.get(url + "/me", headers={"X-Auth-Token": token}).json()["data"]["id"] == person.id


def test_an_unused_token_expires_and_each_use_extends_it(begin, movable_clock):
    client = begin(token_idle=100)
    admin, url = client.simulator.admin, client.simulator.url
    body = {"email": admin.email, "password": admin.password}
    token = post(client, "/login", body).json()["user_token"]
    for seconds, status in ((90, 200), (90, 200), (110, 401)):
        movable_clock.advance(seconds)
        assert requests.get(url + "/ping", headers={"X-Auth-Token": token}).status_code == status


@pytest.fixture(scope="module")
def ordinary(world: Client) -> Client:
    return Client(world.simulator, world.simulator.ordinary_user.api_key)


def test_an_ordinary_user_gets_only_their_own_records(world, ordinary):
    me = world.simulator.ordinary_user
    for name, owner in (("cdrs", "user_id"), ("monitors", "user_id"), ("sms", "user_id"), ("users", "id")):
        own = [row for row in world.rows(f"/{name}") if row[owner] == me.id]
        assert own
        assert ordinary.rows(f"/{name}") == own
    assert all(row["extension_id"] == me.id for row in ordinary.rows("/voicemessages"))
    contacts = ordinary.rows("/contacts")
    assert contacts == [row for row in world.rows("/contacts") if row["global"] or row["user_id"] == me.id]


def test_a_registration_is_confirmed_and_completed_with_a_number(begin):
    client = begin()
    url = client.simulator.url
    taken = post(client, "/registrations", {**NEW, "email": client.simulator.admin.email})
    assert (taken.status_code, taken.json()["errors"][0]["code"]) == (400, "CU1001")
    record = post(client, "/registrations", NEW).json()["data"]
    assert record["status"] == "new"
    assert "password" not in record
    own = f"{url}/registrations/{record['hash']}"
    number = requests.get(own + "/numbers/020", timeout=30).json()["data"][0]["e164"]
    assert requests.patch(own, json={"code": "1"}, timeout=30).json()["data"]["status"] == "confirmed"
    done = requests.patch(own, json={"number": number}, timeout=30).json()["data"]
    assert (done["status"], done["number"]) == ("completed", number)
    assert requests.get(own, timeout=30).status_code == 403


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
