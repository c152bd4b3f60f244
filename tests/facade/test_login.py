"""Login, logout and other public requests, forwarded to the platform."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applications.facade_app import ADMIN, USER, Room, later, sample, says

__all__ = ["later"]

CDR = sample("response-cdrs-list-200")["data"][0]


def test_a_login_passes_through_and_its_token_is_known(room: Room, later: Any) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/login"] = says(
        {"message": "ok", "user_token": ADMIN, "user_id": 1000009}
    )
    body = {"email": "root@example.com", "password": "invented"}
    answer = room.client.post(f"{room.base}/login", json=body)
    assert answer.json["user_token"] == ADMIN
    sent = room.server.asked[-1]
    assert sent.body == b'{"email": "root@example.com", "password": "invented"}'
    assert "X-Auth-Token" not in sent.headers
    assert "Authorization" not in sent.headers
    headers = {"X-Auth-Token": ADMIN}
    assert room.get("/cdrs", headers).json["total"] == 1
    later(850)
    assert room.get("/cdrs", headers).status_code == 200
    later(850)
    assert room.get("/cdrs", headers).status_code == 200
    later(901)
    assert room.get("/cdrs", headers).status_code == 401
    assert room.get("/cdrs", headers).status_code == 401


def test_a_refused_login_is_passed_on_and_counted(room: Room) -> None:
    room.server.routes[f"{room.base}/login"] = says(sample("response-login-400"), 400)
    body = {"email": "ann@example.com", "password": "wrong"}
    answers = [room.client.post(f"{room.base}/login", json=body) for _ in range(11)]
    assert answers[0].json == sample("response-login-400")
    assert [answer.status_code for answer in answers] == [400] * 10 + [429]
    assert room.asked("/login") == 10


@pytest.mark.parametrize(("status", "left"), [(400, 1), (200, 0), (503, 0)])
def test_a_login_is_counted_before_the_platform_is_asked(room: Room, status: int, left: int) -> None:
    """Counted afterwards, as many guesses as there are threads would slip through side by side. What was no
    wrong guess is taken off the count again."""
    counted = []

    def count() -> int:
        with room.app_db.read() as connection:
            return int(connection.execute("SELECT count(*) FROM attempts").fetchone()[0])

    def answer(asked: Any, reply: Any) -> None:
        counted.append(count())
        reply.json({"message": "said"}, status)

    room.server.routes[f"{room.base}/login"] = answer
    room.client.post(f"{room.base}/login", json={"email": "ann@example.com", "password": "a guess"})
    assert counted == [1]
    assert count() == left


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/registrations/abc"), ("POST", "/password"), ("POST", "/registrations")]
)
def test_strangers_have_little_passed_on(room: Room, method: str, path: str) -> None:
    room.server.routes[room.base + path] = says({"message": "done"})
    answers = [
        room.client.open(room.base + path, method=method, json={} if method == "POST" else None).status_code
        for _ in range(12)
    ]
    assert answers == [200] * 10 + [429] * 2
    assert room.asked(path) == 10
    room.server.routes[f"{room.base}/login"] = says({"user_token": ADMIN, "user_id": 1000009})
    assert room.client.post(f"{room.base}/login", json={"email": "root@example.com"}).status_code == 200


def test_a_second_factor_is_asked_for_as_the_platform_does(room: Room) -> None:
    room.server.routes[f"{room.base}/login"] = says(sample("response-login-202-2fa"), 202)
    answer = room.client.post(f"{room.base}/login", json={"email": "a@example.com", "password": "x"})
    assert answer.status_code == 202
    assert answer.json == sample("response-login-202-2fa")


def test_logout_ends_the_token_at_once_even_if_the_platform_is_away(room: Room) -> None:
    headers = {"X-Auth-Token": ADMIN}
    assert room.get("/ping", headers).status_code == 200
    room.server.routes[f"{room.base}/logout"] = says({"message": "Bye"})
    assert room.client.post(f"{room.base}/logout", headers=headers).json == {"message": "Bye"}
    assert room.get("/ping", headers).status_code == 401


def test_a_deleted_api_token_ends_at_once(room: Room) -> None:
    other = {"X-Auth-Token": USER}
    assert room.get("/ping", other).status_code == 200
    room.server.routes[f"{room.base}/apitokens/{USER}"] = lambda asked, reply: reply.content(
        b"", "text/plain", 204
    )
    done = room.client.delete(f"{room.base}/apitokens/{USER}", headers={"X-Auth-Token": ADMIN})
    assert done.status_code == 204
    assert room.get("/ping", other).status_code == 401
    with room.app_db.read() as connection:
        for row in connection.execute("SELECT * FROM journal"):
            assert USER not in str(tuple(row))
