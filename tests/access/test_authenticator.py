"""Authentication of clients by local keys and platform credentials."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from integration.access import authenticator, keys
from tests.support.applications.facade_app import (
    ADMIN,
    OTHER,
    UNTOLD,
    USER,
    Room,
    basic,
    later,
    sample,
    says,
)

__all__ = ["later"]

CDR = sample("response-cdrs-list-200")["data"][0]


def test_a_local_key_is_good_as_basic_and_as_token(room: Room) -> None:
    user, secret = keys.add(room.app_db, "both", "read")
    assert room.get("/ping", basic(user, secret)).json["data"] == {"response": "Pong"}
    assert room.get("/ping", {"X-Auth-Token": secret}).json["message"] == "Pong"
    assert room.get("/ping", basic(user + 1, secret)).status_code == 401
    keys.revoke(room.app_db, "both")
    assert room.get("/ping", basic(user, secret)).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer " + ADMIN}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 400),
        ({"Authorization": "Basic ###"}, 400),
        ({"Authorization": "Basic \xe9"}, 400),
        ({"X-Auth-Token": "f" * 40}, 401),
        (basic(1000009, "f" * 40), 401),
    ],
)
def test_anything_else_is_refused_in_the_platforms_words(
    room: Room, headers: dict[str, str], status: int
) -> None:
    answer = room.get("/cdrs", headers)
    assert answer.status_code == status
    assert answer.json["errors"] == []
    if status == 400:
        assert answer.json == sample("response-auth-header-400")


def test_credentials_are_checked_before_a_body_is_read(room: Room) -> None:
    class Untouchable:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        readline = readlines = __iter__ = read

    unread = {"wsgi.input": Untouchable(), "CONTENT_LENGTH": "100000"}
    answer = room.client.post(f"{room.base}/sms", environ_overrides=unread)
    assert answer.status_code == 401


def test_an_administrator_reads_the_mirror_and_is_asked_about_once(room: Room) -> None:
    room.put("cdrs", CDR)
    room.put("me", sample("response-me-200")["data"])
    for headers in ({"X-Auth-Token": ADMIN}, basic(1000009, ADMIN), basic("root@example.com", ADMIN)):
        assert room.get("/cdrs", headers).json["total"] == 1
    assert room.asked("/me") == 1
    assert room.asked("/cdrs") == 0


@pytest.mark.parametrize("mirrored", [True, False])
def test_another_customers_administrator_reads_and_writes_nothing_here(room: Room, mirrored: bool) -> None:
    room.put("cdrs", CDR)
    if mirrored:
        room.put("me", sample("response-me-200")["data"])
    for _ in range(2):
        assert room.get("/cdrs", {"X-Auth-Token": OTHER}).status_code == 403
    assert room.client.post(f"{room.base}/sms", headers={"X-Auth-Token": OTHER}, json={}).status_code == 403
    assert room.asked("/cdrs") == room.asked("/sms") == 0


def test_an_administrator_of_nobody_knows_whom_reads_the_mirror_once_they_are_one_of_our_users(
    room: Room,
) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    assert room.get("/cdrs", {"X-Auth-Token": UNTOLD}).json["total"] == 0
    room.put("users", {"id": 1000056, "email": "una@example.com"})
    assert room.get("/cdrs", {"X-Auth-Token": UNTOLD}).json["total"] == 1


def test_a_known_secret_is_no_good_under_another_name(room: Room) -> None:
    assert room.get("/ping", basic(1000009, ADMIN)).status_code == 200
    assert room.get("/ping", basic(1000002, ADMIN)).status_code == 401
    assert room.get("/ping", basic("bob@example.com", ADMIN)).status_code == 401
    assert room.get("/ping", basic(1000009, ADMIN)).status_code == 200


def test_the_configured_account_is_an_administrator(room: Room) -> None:
    room.put("cdrs", CDR)
    assert room.get("/cdrs", basic(1000001, "a" * 40)).headers["X-Mirror-Complete"] == "true"


def test_another_users_requests_are_passed_through_with_their_own_credentials(room: Room) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    answer = room.get("/cdrs?limit=5", basic(1000002, USER))
    assert answer.json == {"data": [], "total": 0}
    assert "X-Mirror-Age" not in answer.headers
    sent = room.server.asked[-1].headers
    assert sent["Authorization"] == basic(1000002, USER)["Authorization"]
    assert "X-Auth-Token" not in sent


def test_a_credential_in_use_is_checked_every_five_minutes_by_ping(room: Room, later: Any) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    for _ in range(3):
        later(120)
        assert room.get("/cdrs", headers).status_code == 200
    assert room.asked("/ping") == 0
    later(120)
    assert room.get("/cdrs", headers).status_code == 200
    assert room.get("/cdrs", headers).status_code == 200
    assert room.asked("/ping") == 1
    room.server.routes[f"{room.base}/ping"] = says({"message": "no", "errors": []}, 401)
    room.server.routes[f"{room.base}/me"] = says({"message": "no", "errors": []}, 401)
    later(301)
    assert room.get("/cdrs", headers).status_code == 401
    assert room.get("/cdrs", headers).status_code == 401


def test_who_is_no_administrator_any_more_reads_the_mirror_for_a_quarter_of_an_hour_at_most(
    room: Room, later: Any
) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    assert room.get("/cdrs", headers).json["total"] == 1
    now = {"id": 1000009, "customer_id": 100001, "email": "root@example.com", "is_root": False}
    room.server.routes[f"{room.base}/me"] = says({"data": now, "links": {}})
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    totals = []
    for _ in range(3):
        later(authenticator.RECHECK_SECONDS + 1)
        totals.append(room.get("/cdrs", headers).json["total"])
    assert totals == [1, 1, 0]
    assert room.asked("/ping") == 2


def test_a_checked_credential_reads_on_while_the_platform_is_away_but_writes_nothing(
    room: Room, later: Any
) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    assert room.get("/cdrs", headers).status_code == 200
    room.away()
    later(3600)
    assert room.get("/cdrs", headers).status_code == 200
    assert room.client.post(f"{room.base}/sms", json={}, headers=headers).status_code == 502
    later(86400)
    assert room.get("/cdrs", headers).status_code == 502


def test_unknown_credentials_are_502_while_the_platform_is_away(room: Room) -> None:
    room.away()
    for _ in range(15):
        assert room.get("/cdrs", {"X-Auth-Token": ADMIN}).status_code == 502


def test_guesses_are_counted_and_stopped(room: Room) -> None:
    answers = [room.get("/cdrs", basic(1000009, f"{n:040x}")).status_code for n in range(12)]
    assert answers == [401] * 10 + [429] * 2
    stopped = room.get("/cdrs", basic(1000009, ADMIN))
    assert stopped.status_code == 429
    assert int(stopped.headers["Retry-After"]) >= 1


def test_secrets_are_stored_hashed(room: Room) -> None:
    room.get("/ping", {"X-Auth-Token": ADMIN})
    with room.app_db.read() as connection:
        for row in connection.execute("SELECT * FROM remembered"):
            assert ADMIN not in str(tuple(row))


class TestWithoutPlatformCredentials:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings["facade"]["platform_credentials"] = False
        return settings

    def test_only_local_keys_are_good(self, room: Room) -> None:
        assert room.get("/ping", {"X-Auth-Token": ADMIN}).status_code == 401
        assert room.get("/ping").status_code == 200
        assert room.asked("/me") == 0


class TestShorterTimes:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings["facade"] |= {"offline_grace": 1000, "session_idle": 60}
        return settings

    def test_reads_go_on_for_the_grace_that_is_set(self, room: Room, later: Any) -> None:
        headers = {"X-Auth-Token": ADMIN}
        room.put("cdrs", CDR)
        assert room.get("/cdrs", headers).status_code == 200
        room.away()
        later(950)
        assert room.get("/cdrs", headers).status_code == 200
        later(100)
        assert room.get("/cdrs", headers).status_code == 502

    def test_a_login_ends_after_the_idle_time_that_is_set(self, room: Room, later: Any) -> None:
        room.put("cdrs", CDR)
        room.server.routes[f"{room.base}/login"] = says({"user_token": ADMIN, "user_id": 1000009})
        room.client.post(f"{room.base}/login", json={"email": "root@example.com", "password": "invented"})
        headers = {"X-Auth-Token": ADMIN}
        later(50)
        assert room.get("/cdrs", headers).status_code == 200
        later(61)
        assert room.get("/cdrs", headers).status_code == 401


def test_guesses_from_an_address_do_not_lock_good_credentials_out(room: Room) -> None:
    assert room.get("/me", {"X-Auth-Token": ADMIN}).status_code == 200
    statuses = [room.get("/ping", {"X-Auth-Token": f"{n:040x}"}).status_code for n in range(12)]
    assert set(statuses) == {401, 429}
    assert statuses[-1] == 429
    assert room.get("/ping").status_code == 200
    assert room.get("/ping", {"X-Auth-Token": ADMIN}).status_code == 200
