"""Exchange: defaults of requests and urllib3 that must have no effect."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from integration.core.errors import PlatformBroken, PlatformUnreachable
from integration.outbound.exchange import Exchange
from tests.support.harness import wait_for
from tests.support.scripted_server import Server

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Recorder:
    """Raw server that stores the head of each request.

    `respond(connection, request)` returns the response, or None to close the connection. Both numbers count
    from 1; requests are counted per connection.
    """

    def __init__(self, respond: Callable[[int, int], bytes | None]) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = 0
        self._respond = respond
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client, self.connections), daemon=True).start()

    def _serve(self, client: socket.socket, connection: int) -> None:
        received, count = b"", 0
        with client, suppress(ConnectionResetError):
            while data := client.recv(65536):
                received += data
                while b"\r\n\r\n" in received:
                    head, _, received = received.partition(b"\r\n\r\n")
                    self.heads.append(head)
                    count += 1
                    response = self._respond(connection, count)
                    if response is None:
                        return
                    client.sendall(response)
        self.ended += 1

    @property
    def targets(self) -> list[str]:
        return [head.split(b" ", 2)[1].decode() for head in self.heads]

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def record(stack: ExitStack) -> Callable[..., Recorder]:
    def record(
        respond: Callable[[int, int], bytes | None] = lambda _connection, _count: RESPONSE,
    ) -> Recorder:
        recorder = Recorder(respond)
        stack.callback(recorder.close)
        return recorder

    return record


@pytest.fixture
def connect(stack: ExitStack) -> Callable[..., Exchange]:
    def connect(url: str, connections: int = 1) -> Exchange:
        exchange = Exchange(url, connections)
        stack.callback(exchange.close)
        return exchange

    return connect


def request(
    exchange: Exchange,
    method: str = "GET",
    target: str = "/x",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    seconds: float = 20,
) -> tuple[int, bytes]:
    with exchange.send(method, target, headers or {}, body, seconds) as response:
        return response.status, b"".join(response.chunks(1000))


def test_a_redirect_with_an_endless_body_is_returned_at_once_and_read_up_to_the_limit(server, connect):
    def redirect_without_end(request, reply):
        reply.raw(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n", close=True)
        while not server.stopping.wait(0.01):
            reply.raw(b"x" * 1000)

    server.routes["*"] = redirect_without_end
    exchange = connect(server.url)
    begin = time.monotonic()
    with exchange.send("GET", "/x", {}, None, 20) as response:
        assert (response.status, response.headers["Location"]) == (302, "/elsewhere")
        with pytest.raises(PlatformBroken, match="larger than 5,000"):
            list(response.chunks(5000))
    assert time.monotonic() - begin < 10
    assert [request.path for request in server.requests] == ["/x"]


def test_a_response_with_retry_after_is_returned_without_a_retry(server, connect):
    server.routes["*"] = lambda request, reply: reply.json({}, 503, {"Retry-After": "0"})
    assert request(connect(server.url))[0] == 503
    assert len(server.requests) == 1


def test_proxies_and_passwords_of_the_environment_and_cookies_are_ignored(
    server, connect, monkeypatch, tmp_path
):
    for name in (".netrc", "_netrc", "netrc"):
        (tmp_path / name).write_text("machine 127.0.0.1 login ann password canary\n")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.routes["*"] = lambda request, reply: reply.json({}, headers={"Set-Cookie": "session=1; Path=/"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            for spelling in (name, name.upper()):
                monkeypatch.setenv(spelling, f"http://127.0.0.1:{taken.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        exchange = connect(server.url)
        for method in ("GET", "POST", "GET"):
            assert request(exchange, method) == (200, b"{}")
    assert len(server.requests) == 3
    for received in server.requests:
        assert not received.headers.keys() & {"Authorization", "Cookie"}


def test_a_read_waits_for_a_connection_until_its_deadline_and_a_write_does_not(record, connect):
    recorder = record(lambda connection, _count: RESPONSE[:-1] if connection == 1 else RESPONSE)
    exchange = connect(recorder.url)
    with exchange.send("GET", "/held", {}, None, 20):
        begin = time.monotonic()
        with pytest.raises(PlatformUnreachable, match="in time"):
            request(exchange, seconds=0.3)
        assert 0.2 < time.monotonic() - begin < 10
        assert request(exchange, "POST", body=b"") == (200, b"ok")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_silence_before_the_response_ends_at_the_deadline(connect, scheme):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        exchange = connect(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        begin = time.monotonic()
        for method in ("GET", "POST"):
            with pytest.raises(PlatformUnreachable, match="in time"):
                request(exchange, method, seconds=0.3)
        assert time.monotonic() - begin < 10


def test_connecting_gets_only_the_remaining_time(connect, movable_clock):
    class SlowHeaders(dict[str, str]):
        """Headers that take 9.8 s to read."""

        def __iter__(self) -> Iterator[str]:
            movable_clock.advance(9.8)
            return super().__iter__()

    slow = SlowHeaders({"Accept": "*/*"})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin = time.monotonic()
        with pytest.raises(PlatformUnreachable, match="in time"):
            request(connect(f"https://127.0.0.1:{listener.getsockname()[1]}"), headers=slow, seconds=10)
        assert time.monotonic() - begin < 4


TARGETS = ["/%41", "/a%2Fb", "/a//b", "//b", "/a/../b", "/a;b=c", "/x?", "/x?a=%41+b&&c", "/x?q=%5B%7B%7D%5D"]


@pytest.mark.parametrize("base_path", ["", "/v1.2"])
def test_paths_and_queries_are_sent_byte_by_byte(record, connect, base_path):
    recorder = record()
    exchange = connect(f"{recorder.url}{base_path}")
    for target in TARGETS:
        request(exchange, target=target)
    assert recorder.targets == [base_path + target for target in TARGETS]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("GET", None, []), ("DELETE", None, []), ("POST", None, [b"Content-Length: 0"]),
        ("POST", b"", [b"Content-Length: 0"]), ("PATCH", b'{"a":1}', [b"Content-Length: 7"]),
    ],
)  # fmt: skip
def test_headers_are_those_given_and_the_length(record, connect, method, body, length):
    recorder = record()
    headers = {"X-ODD-case": " two  blanks ", "User-Agent": "Switchroom", "Accept-Encoding": "gzip"}
    request(connect(recorder.url), method, body=body, headers=headers)
    lines = recorder.heads[0].split(b"\r\n")[1:]
    given = [b"X-ODD-case:  two  blanks ", b"User-Agent: Switchroom", b"Accept-Encoding: gzip"]
    host = recorder.url.removeprefix("http://")
    assert sorted(lines) == sorted([f"Host: {host}".encode(), *given, *length])


def test_a_read_is_repeated_on_a_new_connection_if_the_pooled_one_is_stale(record, connect):
    recorder = record(lambda connection, count: None if (connection, count) == (1, 2) else RESPONSE)
    exchange = connect(recorder.url)
    assert request(exchange) == (200, b"ok")
    assert request(exchange) == (200, b"ok")
    assert (recorder.connections, len(recorder.heads)) == (2, 3)


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_no_request_on_a_new_connection_is_repeated(record, connect, method):
    recorder = record(lambda _connection, _count: None)
    with pytest.raises(PlatformUnreachable, match="without a response"):
        request(connect(recorder.url), method)
    assert len(recorder.heads) == 1


def test_writes_have_a_connection_each_and_an_unread_body_ends_its_connection(record, connect):
    recorder = record()
    exchange = connect(recorder.url)
    for method in ("GET", "POST", "PATCH", "GET"):
        assert request(exchange, method, body=b"") == (200, b"ok")
    assert recorder.connections == 3, "both reads share one connection"
    wait_for(lambda: recorder.ended == 2, "the end of the connections of writes")
    with exchange.send("GET", "/x", {}, None, 20) as response:
        assert response.status == 200
    wait_for(lambda: recorder.ended == 3, "the end of the connection with an unread body")


def test_a_stop_aborts_an_open_response_and_refuses_new_requests(record, connect):
    exchange = connect(record(lambda _connection, _count: RESPONSE[:-1]).url)
    with exchange.send("GET", "/x", {}, None, 60) as response:
        stopper = threading.Timer(0.1, exchange.close)
        stopper.start()
        with pytest.raises(PlatformBroken):
            list(response.chunks(10))
        stopper.join()
    for method in ("GET", "POST"):
        with pytest.raises(PlatformUnreachable, match="stopping"):
            request(exchange, method)
