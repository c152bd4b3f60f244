"""Senders of webhooks, readers of pages, slow clients."""

from __future__ import annotations

import http.client
import json
import re
import socket
import sqlite3
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from integration.access import keys, people, sessions
from integration.access.keys import KeyLimits
from integration.access.rights import RIGHTS
from integration.app_schema import open_app_db
from tests.support.harness import Client

EMAIL = "alice@example.com"
TCP_ESTABLISHED = 1
"""State of an open connection in `linux/tcp.h`."""
STEPS = (
    ("call.initial", "INITIAL"),
    ("call.ringing", "RINGING"),
    ("call.connected", "CONNECTED"),
    ("call.hold", "ON_HOLD"),
    ("call.hangup", "HANGUP"),
)


def make_event(identifier: str, sender: int, number: int) -> bytes:
    """Return event `number` of a sender, whose calls have five each."""
    call, step = divmod(number, len(STEPS))
    name, state = STEPS[step]
    return json.dumps(
        {
            "id": identifier,
            "event_time": f"2026-09-02 08:45:5{step}",
            "event_name": name,
            "call_id": 4_278_000_000 + sender * 1_000_000 + call,
            "state": state,
            "connected_at": "2026-09-02 08:45:52" if step >= 2 else None,
            "start_time": "2026-09-02 08:45:50",
            "context": "LOCAL_USER",
            "destination": "in",
            "src": f"447700900{call % 1000:03d}",
            "src_id": "0",
            "dst": "442079460002",
            "dst_id": "10002",
        }
    ).encode()


@dataclass(frozen=True)
class Access:
    """Request headers of an administrator and a facade key; the key's secret."""

    dashboard: Mapping[str, str]
    facade: Mapping[str, str]
    key: str

    def list_pages(self) -> list[tuple[str, Mapping[str, str]]]:
        """Pages and facade lists that are requested most."""
        pages = [(path, self.dashboard) for path in ("/live", "/calls", "/messages", "/missed")]
        return [*pages, ("/v1.2/cdrs?limit=20", self.facade)]


def create_access(data_dir: Path, password_hash: str | None = None) -> Access:
    """Create an administrator and a facade key, before the product starts."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    app_db = open_app_db(data_dir / "house.db")
    try:
        user = people.create(app_db, EMAIL, "admin", password_hash=password_hash)
        token = sessions.create(app_db, user.id)
        _, secret = keys.add(app_db, "trial", "read", limits=KeyLimits(rights=frozenset(RIGHTS)))
    finally:
        app_db.close()
    dashboard = {"Cookie": f"session={token}", "Accept": "text/html"}
    return Access(dashboard, {"X-Auth-Token": secret}, secret)


def prepare_login(client: Client, password: str, email: str = EMAIL) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of the login form."""
    _, form, headers = client.send("GET", "/login", headers={"Accept": "text/html"})
    token = re.search(rb'name="csrf_token" value="([^"]+)"', form)
    assert token is not None
    body = urlencode({"email": email, "password": password, "csrf_token": token[1].decode()})
    cookie = str(headers["Set-Cookie"]).partition(";")[0]
    return body.encode(), {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}


def log_in(client: Client, password: str, address: str) -> tuple[int, float]:
    """Log in with a new connection from `address`. Returns the status of the form and its seconds."""
    body, headers = prepare_login(client, password)
    began = time.monotonic()
    status, _, _ = client.send("POST", "/login", body, headers, address=address)
    return status, time.monotonic() - began


@contextmanager
def lock_databases(data_dir: Path, names: Iterable[str]) -> Iterator[None]:
    """Hold the write locks of databases by connections outside the product."""
    with ExitStack() as held:
        for name in names:
            outsider = sqlite3.connect(data_dir / name, isolation_level=None, timeout=30)
            held.enter_context(closing(outsider))
            outsider.execute("BEGIN IMMEDIATE")
        yield


@dataclass(frozen=True, slots=True)
class Response:
    """Result of one request.

    `what`: event id or path. `status`: 0 if the connection broke. `ended_at`: time.monotonic.
    """

    what: str
    status: int
    seconds: float
    ended_at: float
    has_retry_after: bool = False
    is_refused: bool = False
    """Whether no connection was accepted."""


class _Clients:
    """Threads that send requests until they are stopped. With `context` they use HTTPS."""

    def __init__(self, port: int, count: int, rest: float, context: ssl.SSLContext | None = None) -> None:
        self.responses: list[Response] = []
        self._port = port
        self._context = context
        self._rest = rest
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 90) -> None:
        """Stop all threads after their current requests, within `seconds`."""
        self._stop.set()
        self.wait(seconds)

    def wait(self, seconds: float = 600) -> None:
        """Wait until all have ended, at most `seconds`."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_finished(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(response.status for response in self.responses)

    @property
    def slowest(self) -> float:
        return max((response.seconds for response in self.responses), default=0.0)

    @property
    def acknowledged(self) -> set[str]:
        return {response.what for response in list(self.responses) if 200 <= response.status < 300}

    def since(self, moment: float) -> Counter[int]:
        """Statuses of the responses after `moment` (time.monotonic)."""
        return Counter(response.status for response in self.list_since(moment))

    def list_since(self, moment: float) -> list[Response]:
        """Return the responses after `moment` (time.monotonic)."""
        return [response for response in list(self.responses) if response.ended_at > moment]

    def _work(self, number: int) -> None:
        raise NotImplementedError

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._context)

    def _request(
        self,
        connection: http.client.HTTPConnection | None,
        what: str,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[http.client.HTTPConnection | None, int]:
        """Send one request.

        Returns the status, and the connection if it can be reused.
        """
        began, status, has_retry_after, is_refused = time.monotonic(), 0, False, False
        try:
            connection = connection or self._connect()
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            response.read()
            status, has_retry_after = response.status, response.headers["Retry-After"] is not None
        except (OSError, http.client.HTTPException) as error:
            connection, is_refused = None, isinstance(error, ConnectionRefusedError)
        ended = time.monotonic()
        self.responses.append(Response(what, status, ended - began, ended, has_retry_after, is_refused))
        # A refused connection fails at once and would be retried a thousand times a second.
        self._stop.wait(max(self._rest, 0.0 if status else 0.05))
        return connection, status


class Senders(_Clients):
    """Post unique events. Senders are numbered from `first`.

    Each sender has calls of its own.
    """

    def __init__(
        self,
        port: int,
        path: str,
        *,
        count: int = 6,
        rest: float = 0.02,
        name: str = "s",
        padding: int = 0,
        most: int | None = None,
        first: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`padding`: bytes added to each event; `most`: events of each sender."""
        self._path = path
        self._name = name
        self._padding = padding
        self._most = most
        self._first = first
        super().__init__(port, count, rest, context)

    def _work(self, number: int) -> None:
        connection, step = None, 0
        while not self._stop.is_set() and step != self._most:
            identifier = f"{self._name}{number}-{step}"
            body = make_event(identifier, self._first + number, step)
            if self._padding:
                body = body[:-1] + b', "t_pad": "' + b"x" * self._padding + b'"}'
            connection, _ = self._request(connection, identifier, "POST", self._path, body)
            step += 1


class Posts(_Clients):
    """Post each body until it is acknowledged."""

    def __init__(self, port: int, path: str, bodies: Sequence[tuple[str, bytes]], *, count: int) -> None:
        self._path = path
        self._pending = list(reversed(bodies))
        super().__init__(port, count, 0.0)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def _work(self, number: int) -> None:
        connection, status = None, 200
        while not self._stop.is_set():
            if status == 200:
                try:
                    identifier, body = self._pending.pop()
                except IndexError:
                    return
            connection, status = self._request(connection, identifier, "POST", self._path, body)


class Readers(_Clients):
    """Request each path repeatedly, with a thread for each."""

    def __init__(
        self,
        port: int,
        pages: Sequence[tuple[str, Mapping[str, str]]],
        *,
        rest: float = 0.3,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._pages = pages
        super().__init__(port, len(pages), rest, context)

    def _work(self, number: int) -> None:
        path, headers = self._pages[number]
        connection = None
        while not self._stop.is_set():
            connection, _ = self._request(connection, path, "GET", path, None, headers)


class SlowClients:
    """Connections that send `openings` and read nothing.

    With `drips` each sends a byte a second afterwards. They come from `addresses` in turn, and use HTTPS with
    `context`.
    """

    def __init__(
        self,
        port: int,
        openings: Sequence[bytes],
        count: int,
        *,
        drips: bool,
        addresses: Sequence[str] = ("127.0.0.1",),
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._sockets: list[socket.socket] = []
        for number in range(count):
            client = socket.socket()
            # The system would otherwise buffer whole responses for the client.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.bind((addresses[number % len(addresses)], 0))
            client.connect(("127.0.0.1", port))
            if context is not None:
                client = context.wrap_socket(client, server_hostname="127.0.0.1")
            client.sendall(openings[number % len(openings)])
            client.setblocking(False)
            self._sockets.append(client)
        self._stop = threading.Event()
        if drips:
            threading.Thread(target=self._drip, daemon=True).start()

    def count_open(self) -> int:
        """Connections that the server has not closed."""
        return sum(1 for client in self._sockets if _read_tcp_state(client) == TCP_ESTABLISHED)

    def close(self) -> None:
        self._stop.set()
        for client in self._sockets:
            client.close()

    def _drip(self) -> None:
        while not self._stop.wait(1.0):
            for client in self._sockets:
                try:
                    client.send(b"x")
                except OSError:
                    continue


def occupy_places(
    open_clients: Callable[[str, int], None], is_full: Callable[[], bool] = lambda: True
) -> bool:
    """Open 40 connections of each of eight addresses, then one of each further address until `is_full()`.

    An address gets half of the places that are left. `open_clients(address, count)` opens connections that
    occupy places. Returns whether all places are occupied.
    """
    for number in range(11, 19):
        open_clients(f"127.0.0.{number}", 40)
    for number in range(19, 60):
        if is_full():
            return True
        open_clients(f"127.0.0.{number}", 1)
    return is_full()


def _read_tcp_state(client: socket.socket) -> int:
    """First byte of TCP_INFO. Unlike a read it needs no decryption."""
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
