from __future__ import annotations

import base64
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core.errors import (
    CredentialsRefused,
    PlatformBroken,
    PlatformRefused,
    PlatformThrottled,
    PlatformUnreachable,
)
from integration.outbound import exchange
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.login import Credentials
from integration.platform_api.session import LARGE_BODY_BYTES, LargeBodyTurn

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def page(*ids: int) -> dict:
    return {"data": [{"id": number} for number in ids], "total": len(ids)}


def test_a_request_has_both_credential_headers_and_compact_filters(server, make):
    server.routes["/v1.2/cdrs"] = lambda request, reply: reply.json(page(1, 2))
    found = make().page("cdrs", filter=[("live_id", "in", [4278000101])], sort="id", dir="ASC", limit=50)
    assert [document.values["id"] for document in found.records] == [1, 2]
    assert found.total == 2
    request = server.requests[0]
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"1000001:" + b"a" * 40).decode()
    assert request.headers["X-Auth-Token"] == "a" * 40
    assert request.query == {
        "page": ["1"],
        "limit": ["50"],
        "sort": ["id"],
        "dir": ["ASC"],
        "filter": ['[{"property":"live_id","operator":"in","value":[4278000101]}]'],
    }


@pytest.mark.parametrize(("kind", "header"), [("basic", "Authorization"), ("token", "X-Auth-Token")])
def test_credentials_of_a_client_are_sent_in_their_own_header_only(server, make, kind, header):
    server.routes["*"] = lambda request, reply: reply.json({"message": "no", "errors": []}, 401)
    response = make().get("/me", credentials=Credentials("7", "invalid", kind), check=False)
    assert response.status == 401
    assert len(server.requests) == 1
    headers = server.requests[0].headers
    assert header in headers
    assert len({"Authorization", "X-Auth-Token"} & headers.keys()) == 1
    assert "a" * 40 not in json.dumps(headers)


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_get_is_retried_until_it_succeeds(server, make, status):
    def route(request, reply):
        if len(server.requests) < 3:
            reply.json({"message": "later", "errors": []}, status)
        else:
            reply.json(page(5))

    server.routes["*"] = route
    platform = make()
    assert platform.page("cdrs").total == 1
    assert len(server.requests) == 3
    assert platform.unreachable_since is None
    assert platform.budget.per_minute < 600


def test_a_get_fails_after_its_tries(server, make):
    server.routes["*"] = lambda request, reply: reply.json({"message": "down", "errors": []}, 503)
    platform = make()
    with pytest.raises(PlatformBroken, match="down") as caught:
        platform.get("/cdrs", tries=3)
    assert caught.value.status == 503
    assert len(server.requests) < 3 + 1
    before = len(server.requests)
    assert platform.unreachable_since is not None
    with pytest.raises(PlatformBroken):
        platform.get("/cdrs", tries=3)
    assert len(server.requests) == before + 1, "an unreachable platform gets one try"


def test_a_long_retry_after_is_an_error_and_pauses_background_requests(server, make):
    server.routes["*"] = lambda request, reply: reply.json({"message": "later"}, 429, {"Retry-After": "600"})
    platform = make()
    with pytest.raises(PlatformThrottled) as caught:
        platform.get("/cdrs")
    assert caught.value.retry_after == 600
    assert len(server.requests) == 1
    assert platform.budget.delay() > 590


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("31536000", 600),
        ("9" * 5000, 600),
        ("Tue, 01 Jan 2999 00:00:00 GMT", 600),
        ("Thu, 01 Jan 1998 00:00:00 GMT", 0),
        ("0", 0),
        ("-5", 0),
        ("soon", 0),
    ],
)
def test_a_retry_after_of_any_form_pauses_for_at_most_ten_minutes(server, make, value, seconds):
    server.routes["*"] = lambda request, reply: reply.json({"message": "later"}, 429, {"Retry-After": value})
    platform = make()
    with pytest.raises(PlatformThrottled) as caught:
        platform.get("/cdrs", tries=1)
    assert caught.value.retry_after in (seconds, seconds or None)
    assert seconds - 5 < platform.budget.state().rest <= seconds


def test_large_bodies_are_read_one_at_a_time_and_the_wait_is_not_the_platforms_time(server, make):
    text = "x" * (LARGE_BODY_BYTES // 4)
    records = [{"id": number, "text": text} for number in range(5)]
    server.respond("/v1.2/contacts", {"data": records, "total": 5})
    server.respond("/v1.2/users", {"data": records[:1], "total": 1})
    platform = make(timeout=1)
    with ThreadPoolExecutor(2) as pool:
        with LargeBodyTurn() as turn:
            turn.wait()
            reads = [pool.submit(platform.page, "contacts", tries=1) for _ in range(2)]
            with pytest.raises(TimeoutError):
                reads[0].result(2)
            assert platform.page("users", tries=1).total == 1, "a small body needs no turn"
        assert [len(read.result(30).records) for read in reads] == [5, 5]
    assert platform.unreachable_since is None


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_write_is_never_retried(server, make, method):
    server.routes["/v1.2/calls"] = lambda request, reply: reply.json({"message": "oops"}, 503)
    server.routes["/v1.2/cut"] = lambda request, reply: reply.raw(b"", close=True)
    platform = make()
    with pytest.raises(PlatformBroken):
        platform.send(method, "/calls", {"to": "442079460001"})
    with pytest.raises(PlatformUnreachable):
        platform.send(method, "/cut", {"to": "442079460001"})
    assert len(server.requests) == 2


def test_status_301_is_success_for_patch_and_an_error_for_get(server, make):
    server.routes["/v1.2/calls/7"] = lambda request, reply: reply.json(
        {"data": {"id": 7}}, 301, {"Location": f"{server.url}/elsewhere"}
    )
    platform = make()
    assert platform.send("PATCH", "/calls/7", {"dst": "1001"}).status == 301
    with pytest.raises(PlatformRefused, match="redirect"):
        platform.get("/calls/7")
    assert {request.path for request in server.requests} == {"/v1.2/calls/7"}


@pytest.mark.parametrize("entry", [{"code": "SF0010", "message": "Not valid."}, "Not valid."])
def test_a_refusal_has_the_message_of_the_platform_and_is_not_retried(server, make, entry):
    server.routes["*"] = lambda request, reply: reply.json(
        {"message": "Validation error", "errors": [entry]}, 400
    )
    with pytest.raises(PlatformRefused, match="Validation error – Not valid") as caught:
        make().get("/cdrs")
    assert (caught.value.status, caught.value.errors) == (400, [entry])
    assert len(server.requests) == 1


BROKEN = {
    "html": (b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>", PlatformBroken),
    "malformed JSON": (OK + b'Content-Length: 12\r\n\r\n{"data":[{]}', PlatformBroken),
    "no list": (OK + b'Content-Length: 8\r\n\r\n{"a": 1}', PlatformBroken),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", PlatformBroken),
    "short of its length": (OK + b'Content-Length: 99\r\n\r\n{"data":[],"total":0}', PlatformBroken),
    "chunks cut": (OK + b'Transfer-Encoding: chunked\r\n\r\n15\r\n{"data":[],', PlatformBroken),
    "early end without a length": (OK + b'Connection: close\r\n\r\n{"data":[{"id":1}', PlatformBroken),
    "not gzip": (OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", PlatformBroken),
    "no HTTP at all": (b"Rate limit exceeded, slow down\r\n\r\n", PlatformThrottled),
    "malformed header": (OK + b"slow down please\r\nContent-Length: 2\r\n\r\n{}", PlatformThrottled),
    "nothing": (b"", PlatformUnreachable),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_an_invalid_response_raises_the_matching_error(server, make, fault):
    data, error = BROKEN[fault]
    server.routes["*"] = lambda request, reply: reply.raw(data, close=True)
    platform = make()
    with pytest.raises(error):
        platform.page("cdrs", tries=1)
    assert platform.budget.per_minute <= 300
    assert len(server.requests) in (1, 4)
    server.routes["*"] = lambda request, reply: reply.json(page(1))
    assert platform.page("cdrs").total == 1


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_slow_response_ends_at_the_deadline_of_the_request(server, make, part):
    def drip(request, reply):
        reply.raw(OK + (b"Content-Length: 100000\r\n\r\n" if part == "body" else b"X-Slow: "), close=True)
        for _ in range(1000):
            if server.stopping.wait(0.05):
                return
            reply.raw(b" " if part == "body" else b"x")

    server.routes["*"] = drip
    platform = make(timeout=0.6)
    begin = time.monotonic()
    with pytest.raises(PlatformUnreachable, match="in time"):
        platform.get("/cdrs", tries=1)
    assert 0.5 < time.monotonic() - begin < 20


def test_a_refused_connection_is_reported(make):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(PlatformUnreachable, match="refuses connections"):
            make(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}").get("/cdrs", tries=1)


def test_concurrent_requests_are_limited_to_max_concurrency(server, make):
    active, most, lock = 0, 0, threading.Lock()
    gate = threading.Event()

    def route(request, reply):
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
            if most == 3:
                gate.set()
        gate.wait(30)
        with lock:
            active -= 1
        reply.json(page())

    server.routes["*"] = route
    platform = make(max_concurrency=3)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: platform.page("cdrs", priority=INTERACTIVE), range(10)))
    assert most == 3


def test_an_invalid_key_is_reported_and_sent_once(server, make):
    server.routes["*"] = lambda request, reply: reply.json({"message": "Unauthorized", "errors": []}, 401)
    platform = make()
    for _ in range(3):
        with pytest.raises(CredentialsRefused, match="api_key"):
            platform.get("/me")
    assert len(server.requests) == 1
    assert "platform.api_key" in platform.problem


def test_a_ping_is_sent_after_five_minutes_without_requests(server, make, movable_clock):
    server.routes["*"] = lambda request, reply: reply.json({"data": {"response": "Pong"}})
    platform = make()
    assert not platform.keep_alive()
    movable_clock.advance(301)
    assert platform.keep_alive()
    assert not platform.keep_alive()
    assert [request.path for request in server.requests] == ["/v1.2/ping"]


@pytest.mark.parametrize("headers_come", ["before", "after"])
def test_closing_cancels_a_running_request(server, make, headers_come):
    begun, closed = threading.Event(), threading.Event()

    def hang(request, reply):
        if headers_come == "after":
            begun.set()
            closed.wait(30)
        reply.raw(OK + b"Content-Length: 10\r\n\r\n")
        begun.set()
        server.stopping.wait(30)

    server.routes["*"] = hang
    platform = make(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(platform.get, "/cdrs")
        assert begun.wait(30)
        platform.close()
        closed.set()
        with pytest.raises((PlatformUnreachable, PlatformBroken)):
            request.result(30)
    with pytest.raises(PlatformUnreachable, match="stopping"):
        platform.get("/cdrs")


def test_errors_and_representations_contain_no_credential(server, make):
    server.routes["*"] = lambda request, reply: reply.json({"message": "no"}, 403)
    platform = make()
    with pytest.raises(PlatformRefused) as caught:
        platform.get("/cdrs", {"filter": "x"})
    for text in (
        str(caught.value),
        repr(caught.value),
        repr(platform.credential_source.current()),
        repr(vars(platform)),
    ):
        assert "a" * 40 not in text


def test_a_path_cannot_change_the_host():
    transport = exchange.Exchange("http://127.0.0.1:9/v1.2", 1)
    with pytest.raises(ValueError, match="slash"), transport.send("GET", "@example.com/", {}, None, 1):
        pass
