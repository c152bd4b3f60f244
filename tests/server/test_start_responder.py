"""Responses while a worker opens the databases, over real sockets."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.server import port, start_responder
from integration.server.start_responder import StartResponder
from integration.settings.model import Server
from tests.support.certificates import write_certificate

BODY = b'{"id": "uk003.6a97e243493e03.77053295", "event_name": "call.ringing"}'


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(start_responder, "PATIENCE_SECONDS", 0.0)
    with port.listen("127.0.0.1", 0) as made:
        yield made


def connect(listener: socket.socket) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=10)


def test_a_webhook_during_a_long_start_gets_503_and_the_time_of_a_retry(listener: socket.socket) -> None:
    with StartResponder(listener, Server()):
        client = connect(listener)
        client.request("POST", "/webhooks/0123456789", BODY)
        response = client.getresponse()
        assert (response.status, response.getheader("Retry-After")) == (503, "5")
        assert json.loads(response.read()) == {
            "message": "Switchroom is starting. Send the request again in 5 seconds.",
            "errors": [],
        }


def test_a_long_start_is_logged_as_information(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), StartResponder(listener, Server()):
        client = connect(listener)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 503
    messages = [re.sub(r"[\d.]+ s", "N s", one.getMessage()) for one in caplog.records]
    assert messages == [
        "still starting, N s after the start of the worker; requests get 503 until it is ready",
        "ready; requests got 503 for N s",
    ]
    assert {one.levelname for one in caplog.records} == {"INFO"}


def test_a_body_of_the_largest_accepted_size_gets_the_response(listener: socket.socket) -> None:
    with StartResponder(listener, Server()):
        client = connect(listener)
        client.request("POST", "/webhooks/0123456789", b"x" * 256 * 1024)
        assert client.getresponse().status == 503


def test_head_gets_no_body(listener: socket.socket) -> None:
    with StartResponder(listener, Server()), socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b"".join(iter(lambda: client.recv(65536), b""))
        assert received.startswith(b"HTTP/1.1 503 ")
        assert received.endswith(b"\r\n\r\n")


def test_slow_clients_do_not_delay_others(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_responder, "REQUEST_SECONDS", 0.3)
    slow = [socket.create_connection(listener.getsockname()) for _ in range(2 * start_responder.THREADS)]
    for one in slow:
        one.sendall(b"POST /webhooks/0123456789 HTTP/1.1\r\n")
    with StartResponder(listener, Server()):
        client = connect(listener)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 503
        # The slow ones are closed without a response.
        assert [one.recv(100) for one in slow] == [b""] * len(slow)
    for one in slow:
        one.close()


def test_a_connection_after_the_start_waits_for_the_server(listener: socket.socket) -> None:
    with StartResponder(listener, Server()):
        pass
    client = connect(listener)
    client.request("GET", "/healthz")
    listener.setblocking(True)
    accepted, _ = listener.accept()
    with accepted:
        assert accepted.recv(100).startswith(b"GET /healthz ")


def test_a_short_start_refuses_nothing(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_responder, "PATIENCE_SECONDS", 60.0)
    client = connect(listener)
    with StartResponder(listener, Server()):
        client.request("GET", "/healthz")
    listener.setblocking(True)
    accepted, _ = listener.accept()
    with accepted:
        assert accepted.recv(100).startswith(b"GET /healthz ")
    assert not [one for one in threading.enumerate() if one.name == "start responder"]


def test_the_response_is_encrypted_where_the_server_is(listener: socket.socket, tmp_path: Path) -> None:
    context = write_certificate(tmp_path, "127.0.0.1")
    server = Server(tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    with StartResponder(listener, server):
        address = listener.getsockname()
        client = http.client.HTTPSConnection("127.0.0.1", address[1], timeout=10, context=context)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 503
