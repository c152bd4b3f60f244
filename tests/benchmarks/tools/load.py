"""Load of webhooks over kept-alive connections.

One thread and raw sockets, so that the client itself needs little CPU time.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

STEPS = (
    b'"call.initial","state":"INITIAL"',
    b'"call.ringing","state":"RINGING"',
    b'"call.connected","state":"CONNECTED"',
    b'"call.hold","state":"ON_HOLD"',
    b'"call.hangup","state":"HANGUP"',
)
SILENCE = 60.0
"""Seconds without a response after which the load fails."""
MINUTE = time.strftime("%Y-%m-%d %H:%M", time.gmtime(time.time() - 120)).encode()
"""Time of all calls: recent, so that they are published to open pages."""
BODY = (
    b'{"id":"uk003.6a97e243%05x3.%08d","event_time":"%b:5%d","event_name":%b,"call_id":%d,'
    b'"connected_at":null,"start_time":"%b:50","context":"LOCAL_USER","destination":"in",'
    b'"duration":0,"src":"447700900%03d","src_id":"0","src_name":"Test Caller","dst":"442079460002",'
    b'"dst_id":"10002","dst_name":"Ann Example","terminated_by":null}'
)


def body(number: int) -> bytes:
    """Return event `number`. Five successive events belong to one call."""
    call, step = divmod(number, len(STEPS))
    values = (number % 0xFFFFF, number, MINUTE, step, STEPS[step], 4_278_000_000 + call, MINUTE, call % 1000)
    return BODY % values


@dataclass(frozen=True)
class Load:
    """Result of a load: responses 200 per second, latencies in seconds."""

    per_second: float
    p50: float
    p99: float
    failures: int


class _Connection:
    def __init__(self, port: int, host: str, context: ssl.SSLContext | None) -> None:
        self.host = f"{host}:{port}".encode()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self.buffer = b""
        self.sent_at = 0.0

    def send(self, path: bytes, content: bytes) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (path, self.host, len(content), content)
        )

    def receive(self) -> int | None:
        """Receive bytes. Returns the status if the response is complete, else None.

        Raises ConnectionError if the server closed the connection.
        """
        received = self.socket.recv(65536)
        if not received:
            raise ConnectionError("a connection was closed before its response")
        self.buffer += received
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        if len(rest) < length:
            return None
        self.buffer = rest[length:]
        return int(head.split(b" ", 2)[1])


def run(
    port: int,
    path: str,
    *,
    requests: int,
    connections: int,
    first: int = 0,
    make_body: Callable[[int], bytes] = body,
    host: str = "localhost",
    context: ssl.SSLContext | None = None,
) -> Load:
    """Post `requests` different events, numbered from `first`; to `host`, over HTTPS with `context`.

    Each connection sends one request at a time. Raises OSError if a response is missing.
    """
    selector = selectors.DefaultSelector()
    target = path.encode()
    number, done, failures = first, 0, 0
    latencies: list[float] = []
    began = time.perf_counter()
    for _ in range(connections):
        connection = _Connection(port, host, context)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(target, make_body(number))
        number += 1
    while done < requests:
        ready = selector.select(SILENCE)
        if not ready:
            raise TimeoutError(f"no response for {SILENCE} s")
        for key, _ in ready:
            connection = key.data
            status = connection.receive()
            if status is None:
                continue
            latencies.append(time.perf_counter() - connection.sent_at)
            done += 1
            failures += status != 200
            if number < first + requests:
                connection.send(target, make_body(number))
                number += 1
    seconds = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    latencies.sort()
    return Load(
        (done - failures) / seconds,
        latencies[len(latencies) // 2],
        latencies[int(len(latencies) * 0.99)],
        failures,
    )
