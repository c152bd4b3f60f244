"""Login, logout and other public requests, forwarded to the platform."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.application import TestApp
from tests.support.fake_exchange import ADMINISTRATOR, USER, read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


def test_login_is_passed_through_and_its_token_is_accepted_until_it_is_idle(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.platform.respond("/login", {"message": "ok", "user_token": ADMINISTRATOR, "user_id": 1000009})
    body = {"email": "root@example.com", "password": "invented"}
    response = app.client.post(f"{app.base}/login", json=body)
    assert response.json["user_token"] == ADMINISTRATOR
    sent = app.platform.requests[-1]
    assert sent.body == b'{"email": "root@example.com", "password": "invented"}'
    assert "X-Auth-Token" not in sent.headers
    assert "Authorization" not in sent.headers
    headers = {"X-Auth-Token": ADMINISTRATOR}
    assert app.get("/cdrs", headers).json["total"] == 1
    app.clock.advance(850)
    assert app.get("/cdrs", headers).status_code == 200
    app.clock.advance(850)
    assert app.get("/cdrs", headers).status_code == 200
    app.clock.advance(20)
    assert app.get("/cdrs", headers).status_code == 200, "a use that is not stored yet"
    app.clock.advance(890)
    assert app.get("/cdrs", headers).status_code == 200
    app.clock.advance(901)
    assert app.get("/cdrs", headers).status_code == 401
    assert app.get("/cdrs", headers).status_code == 401


def test_failed_logins_are_passed_through_and_limited(app: TestApp) -> None:
    app.platform.respond("/login", read_fixture("response-login-400"), 400)
    body = {"email": "ann@example.com", "password": "wrong"}
    responses = [app.client.post(f"{app.base}/login", json=body) for _ in range(11)]
    assert responses[0].json == read_fixture("response-login-400")
    assert [response.status_code for response in responses] == [400] * 10 + [429]
    assert app.platform.count("/login") == 10


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/login", {"password": "a guess"}),
        ("/login", {"password": "a guess", "email": ["ann@example.com"]}),
        ("/login", {"password": "a guess", "email": " "}),
        ("/login", {"data": {"email": "ann@example.com", "password": "a guess"}}),
        ("/login", "email=ann%40example.com&password=a+guess"),
        ("/login2fa", {"code": "123456"}),
        ("/reset", {"password": "new"}),
    ],
)
def test_logins_without_an_account_are_limited_together(
    app: TestApp, path: str, body: Any, status: int
) -> None:
    app.platform.respond(path, {"message": "text"}, status)
    sent = {"data": body} if isinstance(body, str) else {"json": body}
    statuses = [
        app.client.post(
            app.base + path, **sent, environ_overrides={"REMOTE_ADDR": f"192.0.2.{number}"}
        ).status_code
        for number in range(11)
    ]
    assert statuses == [status] * 10 + [429]
    # Logins with an account still work, from these addresses as well.
    app.platform.respond("/login", {"user_token": ADMINISTRATOR, "user_id": 1000009})
    body = {"email": "root@example.com", "password": "invented"}
    response = app.client.post(f"{app.base}/login", json=body, environ_overrides={"REMOTE_ADDR": "192.0.2.1"})
    assert response.status_code == 200


@pytest.mark.parametrize(("status", "left"), [(400, 1), (200, 0), (503, 0)])
def test_login_attempt_is_counted_before_the_request_to_the_platform(
    app: TestApp, status: int, left: int
) -> None:
    """Otherwise parallel guesses would pass the limit.

    An attempt that was no wrong guess is removed from the count after its response.
    """
    counted = []

    def count() -> int:
        with app.app_db.read() as connection:
            return int(connection.execute("SELECT count(*) FROM attempts").fetchone()[0])

    def respond(request: Any, reply: Any) -> None:
        counted.append(count())
        reply.json({"message": "text"}, status)

    app.platform.routes["/login"] = respond
    app.client.post(f"{app.base}/login", json={"email": "ann@example.com", "password": "a guess"})
    assert counted == [1]
    assert count() == left


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/registrations/abc"), ("POST", "/password"), ("POST", "/registrations")]
)
def test_public_requests_are_limited_without_blocking_logins(app: TestApp, method: str, path: str) -> None:
    app.platform.respond(path, {"message": "done"})
    responses = [
        app.client.open(app.base + path, method=method, json={} if method == "POST" else None).status_code
        for _ in range(12)
    ]
    assert responses == [200] * 10 + [429] * 2
    assert app.platform.count(path) == 10
    app.platform.respond("/login", {"user_token": ADMINISTRATOR, "user_id": 1000009})
    assert app.client.post(f"{app.base}/login", json={"email": "root@example.com"}).status_code == 200


def test_logout_ends_the_token_at_once(app: TestApp) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    app.platform.respond("/login", {"user_token": ADMINISTRATOR, "user_id": 1000009})
    assert app.client.post(f"{app.base}/login", json={"email": "root@example.com"}).status_code == 200
    assert app.get("/ping", headers).status_code == 200
    app.platform.respond("/logout", {"message": "Out of order", "errors": []}, 500)
    assert app.client.post(f"{app.base}/logout", headers=headers).status_code == 500
    assert app.get("/ping", headers).status_code == 401


@pytest.mark.parametrize("is_platform_broken", [False, True])
def test_an_api_key_stays_valid_after_a_logout(app: TestApp, is_platform_broken: bool) -> None:
    headers = {"X-Auth-Token": ADMINISTRATOR}
    assert app.get("/ping", headers).status_code == 200
    app.platform.respond("/logout", {"message": "Bye"}, 500 if is_platform_broken else 200)
    app.client.post(f"{app.base}/logout", headers=headers)
    assert app.get("/ping", headers).status_code == 200
    assert app.client.post(f"{app.base}/logout", headers=headers).status_code != 401


def test_deleted_api_token_is_rejected_at_once(app: TestApp) -> None:
    other = {"X-Auth-Token": USER}
    assert app.get("/ping", other).status_code == 200
    app.platform.routes[f"/apitokens/{USER}"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    done = app.client.delete(f"{app.base}/apitokens/{USER}", headers={"X-Auth-Token": ADMINISTRATOR})
    assert done.status_code == 204
    assert app.get("/ping", other).status_code == 401
    with app.app_db.read() as connection:
        for row in connection.execute("SELECT * FROM journal"):
            assert USER not in str(tuple(row))
