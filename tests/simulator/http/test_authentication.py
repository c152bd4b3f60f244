"""Authentication: logins, tokens, keys, Basic, and rights of ordinary users."""

from __future__ import annotations

import base64

import pytest
import requests

from tests.support.simulator_client import Client, sample


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def log_in(client: Client) -> str:
    admin = client.simulator.admin
    body = {"email": admin.email, "password": admin.password}
    return requests.post(client.simulator.url + "/login", json=body).json()["user_token"]


def test_a_token_of_a_login_is_accepted_in_both_headers(begin):
    client = begin()
    admin, url = client.simulator.admin, client.simulator.url
    response = requests.post(url + "/login", json={"email": admin.email, "password": admin.password})
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
    token = requests.post(url + "/login", json={"email": admin.email, "password": admin.password}).json()[
        "user_token"
    ]
    for seconds, status in ((90, 200), (90, 200), (110, 401)):
        movable_clock.advance(seconds)
        assert requests.get(url + "/ping", headers={"X-Auth-Token": token}).status_code == status


def test_api_tokens_can_be_created_listed_and_deleted(begin):
    client = begin()
    created = client.send("POST", "/apitokens", json={"name": "Example", "expiry": 604800})
    assert created.status_code == 201
    assert created.json()["data"].keys() == sample("response-apitokens-post-201")["data"].keys()
    token = created.json()["data"]["token"]
    assert client.send("POST", "/apitokens", json={"name": "Example"}).status_code == 400
    found = client.get("/apitokens", filter='[{"property":"name","operator":"eq","value":"Example"}]').json()
    assert [row["token"] for row in found["data"]] == [token]
    deleted = client.send("DELETE", f"/apitokens/{token}")
    assert (deleted.status_code, deleted.content) == (204, b"")


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


def test_records_of_others_are_403_and_unknown_records_404(world, ordinary):
    other = next(
        row
        for row in world.rows("/cdrs")
        if row["user_id"] not in (None, ordinary.simulator.ordinary_user.id)
    )
    assert ordinary.get(f"/cdrs/{other['id']}").status_code == 403
    assert ordinary.get("/cdrs/1").status_code == 404
    for path in ("/queues", "/ringgroups", "/ddis", "/users/1000001", "/queues/80101"):
        assert ordinary.get(path).status_code == 403, path
