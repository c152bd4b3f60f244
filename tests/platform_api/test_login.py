from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core.errors import CredentialsRefused, PlatformBroken, PlatformError, PlatformUnreachable
from integration.platform_api.login import Credentials


class LoginEndpoint:
    """Login of the platform: issues tokens and revokes them."""

    def __init__(self, server):
        self.server = server
        self.valid_tokens: set[str] = set()
        self.login_count = 0
        self.lock = threading.Lock()
        server.routes["/v1.2/login"] = self.log_in
        server.routes["*"] = self.serve

    def log_in(self, request, reply):
        assert json.loads(request.body) == {"email": "ann@example.com", "password": "secret"}
        assert "Authorization" not in request.headers
        with self.lock:
            self.login_count += 1
            token = f"{self.login_count:040x}"
            self.valid_tokens.add(token)
        reply.json({"message": "Login success", "user_token": token, "user_id": 1000001})

    def serve(self, request, reply):
        if request.headers.get("X-Auth-Token") in self.valid_tokens:
            reply.json({"data": [], "total": 0})
        else:
            reply.json({"message": "Unauthorized", "errors": []}, 401)

    def expire(self):
        self.valid_tokens.clear()


@pytest.fixture
def login_endpoint(server):
    return LoginEndpoint(server)


def test_twenty_threads_with_an_expired_token_log_in_once(login_endpoint, login):
    platform = login(max_concurrency=20)
    platform.get("/cdrs")
    assert login_endpoint.login_count == 1
    for expiry in range(2, 5):
        login_endpoint.expire()
        barrier = threading.Barrier(20)

        def send_request(_, barrier=barrier):
            barrier.wait()
            return platform.get("/cdrs", priority="people").status

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(send_request, range(20))) == [200] * 20
        assert login_endpoint.login_count == expiry


def test_logins_pause_after_three_tries_with_a_wrong_password(server, login, movable_clock):
    server.routes["/v1.2/login"] = lambda request, reply: reply.json(
        {"message": "Invalid email and/or password.", "errors": []}, 400
    )
    platform = login()
    for _ in range(8):
        movable_clock.advance(1000)
        for _ in range(3):
            with pytest.raises(CredentialsRefused, match="Invalid email"):
                platform.get("/cdrs")
    assert server.count("/v1.2/login") == 3
    assert "paused" in platform.problem
    assert not platform.keep_alive()


def test_a_required_second_factor_pauses_logins_and_names_the_setting(server, login):
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
def test_a_login_with_another_failure_is_retried_without_limit(
    server, login_endpoint, login, movable_clock, status, body
):
    server.routes["/v1.2/login"] = lambda request, reply: reply.json(body, status)
    platform = login()
    for _ in range(6):
        movable_clock.advance(1000)
        with pytest.raises(PlatformBroken):
            platform.get("/cdrs", tries=1)
    assert server.count("/v1.2/login") == 6
    server.routes["/v1.2/login"] = login_endpoint.log_in
    movable_clock.advance(1000)
    assert platform.get("/cdrs").status == 200
    assert platform.problem is None


def test_new_tokens_that_are_refused_cause_at_most_two_logins(server, login_endpoint, login):
    server.routes["*"] = lambda request, reply: reply.json({"message": "Unauthorized"}, 401)
    platform = login()
    for _ in range(10):
        with pytest.raises(PlatformError):
            platform.get("/cdrs", tries=1)
    assert login_endpoint.login_count <= 2


def test_an_invalid_token_of_a_client_causes_no_login(login_endpoint, login):
    platform = login()
    platform.get("/me")
    assert platform.get("/me", credentials=Credentials("7", "invalid", "token"), check=False).status == 401
    assert login_endpoint.login_count == 1


def test_a_login_without_a_response_is_an_unreachable_platform(server, login):
    server.routes["/v1.2/login"] = lambda request, reply: reply.raw(b"", close=True)
    with pytest.raises(PlatformUnreachable) as raised:
        login().get("/cdrs", tries=1)
    assert raised.value.__cause__ is not raised.value
