from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core import clock
from integration.core.errors import CredentialsRefused, PlatformBroken, PlatformError, PlatformUnreachable


class Door:
    """A platform's login: hands out tokens, and lets them die."""

    def __init__(self, server):
        self.server = server
        self.alive: set[str] = set()
        self.given = 0
        self.lock = threading.Lock()
        server.routes["/v1.2/login"] = self.log_in
        server.routes["*"] = self.serve

    def log_in(self, request, reply):
        assert json.loads(request.body) == {"email": "ann@example.com", "password": "secret"}
        assert "Authorization" not in request.headers
        with self.lock:
            self.given += 1
            token = f"{self.given:040x}"
            self.alive.add(token)
        reply.json({"message": "Login success", "user_token": token, "user_id": 1000001})

    def serve(self, request, reply):
        if request.headers.get("X-Auth-Token") in self.alive:
            reply.json({"data": [], "total": 0})
        else:
            reply.json({"message": "Unauthorized", "errors": []}, 401)

    def expire(self):
        self.alive.clear()


@pytest.fixture
def door(server):
    return Door(server)


def test_twenty_threads_that_meet_a_dead_token_log_in_once(door, login):
    platform = login(max_concurrency=20)
    platform.get("/cdrs")
    assert door.given == 1
    for expiry in range(2, 5):
        door.expire()
        barrier = threading.Barrier(20)

        def ask(_, barrier=barrier):
            barrier.wait()
            return platform.get("/cdrs", priority="people").status

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(ask, range(20))) == [200] * 20
        assert door.given == expiry


def test_a_write_that_met_a_dead_token_is_sent_after_the_login(door, login):
    platform = login()
    platform.get("/me")
    door.expire()
    assert platform.send("POST", "/calls", {"to": "1001"}).status == 200
    assert door.given == 2


def test_a_login_needs_no_slot_of_its_own(door, login):
    assert login(max_concurrency=1).get("/cdrs").status == 200


def test_a_wrong_password_is_tried_three_times_then_logins_pause_and_it_shows(server, login, monkeypatch):
    server.routes["/v1.2/login"] = lambda request, reply: reply.json(
        {"message": "Invalid email and/or password.", "errors": []}, 400
    )
    platform = login()
    now = clock.monotonic()
    for _ in range(8):
        now += 1000
        monkeypatch.setattr("integration.core.clock.monotonic", lambda now=now: now)
        for _ in range(3):
            with pytest.raises(CredentialsRefused, match="Invalid email"):
                platform.get("/cdrs")
    assert server.count("/v1.2/login") == 3
    assert "paused" in platform.problem
    assert not platform.keep_alive()


def test_a_second_factor_pauses_at_once_and_says_what_to_do(server, login):
    server.routes["/v1.2/login"] = lambda request, reply: reply.json(
        {"message": "Two factor authentication required.", "nonce": "invented-nonce-0001"}, 202
    )
    platform = login()
    for _ in range(5):
        with pytest.raises(CredentialsRefused, match="second factor"):
            platform.get("/cdrs")
    assert server.count("/v1.2/login") == 1
    assert "platform.api_key" in platform.problem


@pytest.mark.parametrize(
    ("status", "body"), [(500, {"message": "x"}), (200, {"message": "Login success"}), (200, [])]
)
def test_a_login_that_fails_otherwise_is_tried_again_later_without_end(
    server, door, login, monkeypatch, status, body
):
    server.routes["/v1.2/login"] = lambda request, reply: reply.json(body, status)
    platform = login()
    now = clock.monotonic()
    for _ in range(6):
        now += 1000
        monkeypatch.setattr("integration.core.clock.monotonic", lambda now=now: now)
        with pytest.raises(PlatformBroken):
            platform.get("/cdrs", tries=1)
    assert server.count("/v1.2/login") == 6
    server.routes["/v1.2/login"] = door.log_in
    monkeypatch.setattr("integration.core.clock.monotonic", lambda: now + 1000)
    assert platform.get("/cdrs").status == 200
    assert platform.problem is None


def test_a_token_refused_as_soon_as_given_out_does_not_cause_a_storm_of_logins(server, door, login):
    server.routes["*"] = lambda request, reply: reply.json({"message": "Unauthorized"}, 401)
    platform = login()
    for _ in range(10):
        with pytest.raises(PlatformError):
            platform.get("/cdrs", tries=1)
    assert door.given <= 2


def test_a_callers_dead_token_causes_no_login_of_ours(door, login):
    platform = login()
    platform.get("/me")
    assert platform.get("/me", credentials=("7", "theirs", "token"), check=False).status == 401
    assert door.given == 1


def test_a_platform_that_is_away_at_login_is_unreachable(server, login):
    server.routes["/v1.2/login"] = lambda request, reply: reply.raw(b"", close=True)
    with pytest.raises(PlatformUnreachable) as raised:
        login().get("/cdrs", tries=1)
    assert raised.value.__cause__ is not raised.value
