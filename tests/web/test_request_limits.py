"""Limits of threads that wait for request bodies or for slow readers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.exceptions import ServiceUnavailable

from integration.web import request_limits
from integration.web.request_limits import RequestLimits
from tests.support.harness import wait_for

MAX_WAITING = 3
"""Requests that may wait at a time, two of them from one address."""


class Sender:
    """A request body that arrives when `go` is set."""

    def __init__(self) -> None:
        self.is_read, self.go = threading.Event(), threading.Event()

    def read(self, _size: int = -1) -> bytes:
        self.is_read.set()
        self.go.wait(20)
        return b"body"


def echo(environ, start_response):
    start_response("200 OK", [])
    return [environ["wsgi.input"].read()]


def send(application, sender=None, address="192.0.2.1"):
    """Send a request. Returns status code and body."""
    started = []
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/login", "wsgi.input": sender, "REMOTE_ADDR": address}
    body = application(environ, lambda *arguments: started.append(arguments))
    return started[0][0].partition(" ")[0], body


def test_waiting_bodies_are_limited_per_address_and_in_total():
    application, slow, ready = RequestLimits(echo, MAX_WAITING), [Sender() for _ in range(3)], Sender()
    ready.go.set()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(send, application, sender) for sender in slow[:2]]
        assert all(sender.is_read.wait(10) for sender in slow[:2])
        with pytest.raises(ServiceUnavailable):
            send(application, ready)
        assert send(application, ready, "192.0.2.2") == ("200", [b"body"])
        waiting.append(pool.submit(send, application, slow[2], "192.0.2.2"))
        assert slow[2].is_read.wait(10)
        with pytest.raises(ServiceUnavailable):
            send(application, ready, "192.0.2.3")
        for sender in slow:
            sender.go.set()
        assert [one.result(10) for one in waiting] == [("200", [b"body"])] * 3
    assert send(application, ready) == ("200", [b"body"])


def test_two_clients_leave_slots_to_a_third():
    application, ready = RequestLimits(echo, 16), Sender()
    ready.go.set()
    slow = [Sender() for _ in range(32)]
    # All addresses of one IPv6 network are one client.
    addresses = ["192.0.2.1"] * 16 + [f"2001:db8::{number}" for number in range(16)]
    with ThreadPoolExecutor(32) as pool:
        sent = []
        for sender, address in zip(slow, addresses, strict=True):
            sent.append(pool.submit(send, application, sender, address))
            wait_for(lambda: slow[len(sent) - 1].is_read.is_set() or sent[-1].done(), "a slot or its refusal")
        assert [sender.is_read.is_set() for sender in slow].count(True) == 8 + 4
        for address in ("::ffff:192.0.2.1", "2001:db8::99"):
            with pytest.raises(ServiceUnavailable):
                send(application, ready, address)
        for address in ("192.0.2.3", "2001:db8:0:1::1"):
            assert send(application, ready, address) == ("200", [b"body"])
        for sender in slow:
            sender.go.set()


def test_a_slow_client_gets_two_slots(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_limits, "SLOW_CLIENT_SECONDS", 0.1)
    application, ready, slow = RequestLimits(echo, 16), Sender(), [Sender() for _ in range(4)]
    ready.go.set()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(send, application, slow[0])
        assert slow[0].is_read.wait(10)
        threading.Event().wait(0.1)
        slow[0].go.set()
        first.result(10)
        waiting = [pool.submit(send, application, sender) for sender in slow[1:3]]
        assert all(sender.is_read.wait(10) for sender in slow[1:3])
        with pytest.raises(ServiceUnavailable):
            send(application, ready)
        for _ in range(2):
            assert send(application, ready, "192.0.2.2") == ("200", [b"body"])
        monkeypatch.setattr(request_limits, "SLOW_CLIENT_WINDOW", 0.0)
        assert send(application, ready) == ("200", [b"body"])
        for sender in slow:
            sender.go.set()
        assert [one.result(10) for one in waiting] == [("200", [b"body"])] * 2


class ChunkedBody:
    """A response body of two chunks. Counts calls of `close`."""

    def __init__(self) -> None:
        self.closed = 0

    def __iter__(self):
        return iter([b"a", b"b"])

    def close(self) -> None:
        self.closed += 1


def respond_with(body, *headers):
    def application(_environ, start_response):
        start_response("200 OK", list(headers))
        return body

    return RequestLimits(application, MAX_WAITING)


def test_chunked_responses_are_limited_until_they_are_closed():
    chunked = ChunkedBody()
    application = respond_with(chunked)
    first, second = send(application)[1], send(application)[1]
    status, refused = send(application)
    assert (status, chunked.closed) == ("503", 1)
    assert b"errors" in refused[0]
    first.close()
    first.close()
    assert chunked.closed == 2
    status, third = send(application)
    assert (status, list(third)) == ("200", [b"a", b"b"])
    assert send(application)[0] == "503"
    second.close()
    assert send(application)[0] == "200"


def test_scripts_of_an_allowed_origin_can_read_the_refusal_of_a_large_response():
    allowed = [("Access-Control-Allow-Origin", "https://crm.example.com"), ("Vary", "Origin")]
    application = respond_with(ChunkedBody(), ("Content-Type", "text/csv"), *allowed)
    for _ in range(2):
        send(application)
    started = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.input": None, "REMOTE_ADDR": "192.0.2.1"}
    application(environ, lambda *arguments: started.append(arguments))
    ((status, headers),) = started
    assert status.startswith("503")
    assert headers == [*allowed, ("Content-Type", "application/json"), ("Retry-After", "5")]


def test_a_response_that_fails_is_closed():
    class Failing(ChunkedBody):
        def __iter__(self):
            yield b"a"
            raise OSError("the disk failed")

    failing = Failing()
    with pytest.raises(OSError, match="the disk failed"):
        send(respond_with(failing, ("Content-Length", "2")))
    assert failing.closed == 1
