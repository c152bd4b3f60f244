"""Deadlines of connections whose clients send or read slowly, in `serve`."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from integration.access import passwords
from integration.server.slow_connections import Counts, Progress
from tests.support.certificates import write_certificate
from tests.support.child_processes import Running
from tests.support.harness import Client, Product, wait_for
from tests.trials.tools.traffic import SlowClients, create_access, log_in, occupy_places, prepare_login

PASSWORD = "quiet-lamp-seven-rivers"
SHORTENED = """
from integration.server import slow_connections
slow_connections.STALL_SECONDS = slow_connections.GRACE_SECONDS = 3.0
slow_connections.BYTES_PER_SECOND = 500
from integration.web import request_limits
request_limits.SLOW_CLIENT_SECONDS = 2.0
"""
SERVE = f"{SHORTENED}\nfrom integration.cli import main\nmain()"
SERVE_STUB = f"{SHORTENED}\nimport sys\nfrom tests.server.stub_product import main\nmain(*sys.argv[1:])"
HALF_LOGIN = (
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=alice"
)
LARGE_FILE = b"GET /static/app.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def log_in_slowly(client: Client, context: ssl.SSLContext | None, begun: threading.Event) -> bytes:
    """Log in with a form of 15 kB at 1.9 kB/s, for 8 s. Returns the status line."""
    form, headers = prepare_login(client, PASSWORD)
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    body = form + b"&padding=" + b"x" * 15_000
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Length: {len(body)}\r\n"
    connection = socket.create_connection(("127.0.0.1", client.port), timeout=60)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
    with connection:
        connection.sendall((head + "".join(lines) + "\r\n").encode())
        for start in range(0, len(body), 375):
            connection.sendall(body[start : start + 375])
            begun.set()
            threading.Event().wait(0.2)
        return connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_half_sent_bodies_of_many_addresses_stop_no_login(tmp_path: Path, scheme: str) -> None:
    context, settings = None, {}
    if scheme == "https":
        context = write_certificate(tmp_path, "127.0.0.1")
        settings = {f"server__tls_{name}": str(tmp_path / f"{name}.pem") for name in ("cert", "key")}
    create_access(tmp_path / "data", passwords.hash_password(PASSWORD))
    product = Product(tmp_path / "data", program=("-c", SERVE), context=context, **settings)
    begun, slow = threading.Event(), list[SlowClients]()

    def open_clients(address: str, count: int) -> None:
        has_drips = len(slow) % 2 == 0
        slow.append(
            SlowClients(
                product.port, [HALF_LOGIN], count, drips=has_drips, addresses=[address], context=context
            )
        )

    def log_in_again() -> int:
        return log_in(product.client, PASSWORD, "127.0.0.99")[0]

    try:
        with ThreadPoolExecutor(1) as pool:
            honest = pool.submit(log_in_slowly, product.client, context, begun)
            assert begun.wait(60)
            assert log_in_again() == 303
            webhook = HALF_LOGIN.replace(b"/login", product.webhook_path.encode())
            # A large response before a half-sent body does not delay the end of the body.
            slow.append(
                SlowClients(product.port, [LARGE_FILE + webhook, webhook], 40, drips=False, context=context)
            )
            assert occupy_places(open_clients, lambda: log_in_again() == 503)
            assert product.client.send("POST", product.webhook_path, b"{}")[0] == 200
            wait_for(lambda: log_in_again() == 303, "a login", 20)
            wait_for(lambda: not sum(one.count_open() for one in slow), "end of slow connections", 20)
            occupy_places(open_clients)
            assert {log_in_again() for _ in range(5)} == {303}
            assert honest.result(60) == b"HTTP/1.1 303 See Other"
    finally:
        for one in slow:
            one.close()
        product.stop()


def test_a_request_that_is_computed_keeps_its_connection(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    server = start("-c", SERVE_STUB, tmp_path / "data", 0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as computed:
        computed.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for((tmp_path / "data" / "requested").exists, "the request")
        later = SlowClients(server.port, [b""], 1, drips=False, addresses=["127.0.0.2"])
        wait_for(lambda: not later.count_open(), "end of an idle connection")
        server.signal(signal.SIGTERM)
        assert computed.recv(4096).startswith(b"HTTP/1.1 200 OK")
    later.close()
    assert server.ended() == 0


@pytest.mark.parametrize(("has_late_body", "seconds"), [(False, 600), (True, 30)])
def test_an_unread_response_may_wait_unless_a_body_of_its_address_is_late(
    has_late_body: bool, seconds: int
) -> None:
    unread = Counts(moved=500, written=200_000, unread=100_000)
    progress = Progress.begin(unread, 0.0)
    assert not progress.is_too_slow(unread, seconds - 1, has_late_body)
    assert progress.is_too_slow(unread, seconds, has_late_body)
