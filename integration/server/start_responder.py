"""Responses while a worker opens the databases: 503 with Retry-After.

A start takes a second or two, and connections wait for it in the backlog of the listening socket. A
migration, or the copy of the databases before it, can take minutes. A sender of webhooks would wait without a
response until it gives up.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from integration.core import clock
from integration.core.errors import error_body
from integration.settings.model import Server

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""Seconds of a start in which requests wait, as long as for a locked database (P16 in docs/promises.md)."""
RETRY_SECONDS = 5
"""Seconds after which a client sends its request again."""
REQUEST_SECONDS = 2.0
"""Maximum seconds in which a request is received."""
MAX_REQUEST_BYTES = 512 * 1024
"""Bytes of a request that are read: a webhook of the largest accepted size, with its headers."""
ACCEPT_SECONDS = 0.2
"""Seconds between two checks whether the start has ended."""
THREADS = 16

BODY = json.dumps(
    error_body(f"Switchroom is starting. Send the request again in {RETRY_SECONDS} seconds.")
).encode()
RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n" % (len(BODY), RETRY_SECONDS)
)


class StartResponder:
    """Refuse requests during a long `with` block.

    The block is long after PATIENCE_SECONDS. A connection that it did not accept waits for the server.
    """

    def __init__(self, listener: socket.socket, server: Server) -> None:
        # The server has the same socket without a timeout; a copy of it shares only the file.
        self._listener = listener.dup()
        self._tls = _make_tls_context(server)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._respond, name="start responder", daemon=True)

    def __enter__(self) -> Self:
        self._started = clock.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _respond(self) -> None:
        with self._listener, ThreadPoolExecutor(THREADS, thread_name_prefix="start response") as pool:
            if self._ended.wait(PATIENCE_SECONDS):
                return
            begun = clock.monotonic()
            log.info(
                "still starting, %.1f s after the start of the worker; requests get 503 until it is ready",
                begun - self._started,
            )
            while not self._ended.is_set():
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:
                    self._ended.wait(ACCEPT_SECONDS)
                    continue
                except OSError as error:
                    log.warning("cannot accept a connection during the start: %s", error)
                    self._ended.wait(ACCEPT_SECONDS)
                    continue
                pool.submit(self._refuse, connection)
            log.info("ready; requests got 503 for %.1f s", clock.monotonic() - begun)

    def _refuse(self, connection: socket.socket) -> None:
        """Receive one request, and send the response."""
        deadline = clock.monotonic() + REQUEST_SECONDS
        connection.settimeout(REQUEST_SECONDS)
        try:
            with (
                connection
                if self._tls is None
                else self._tls.wrap_socket(connection, server_side=True) as stream
            ):
                is_head = _receive_request(stream, deadline).startswith(b"HEAD ")
                stream.sendall(RESPONSE if is_head else RESPONSE + BODY)
        except OSError:
            # The client is slow, has closed the connection or speaks no TLS. It gets no response.
            connection.close()


def _make_tls_context(server: Server) -> ssl.SSLContext | None:
    if server.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.tls_cert, server.tls_key)
    return context


def _receive_request(stream: socket.socket, deadline: float) -> bytes:
    """Receive a request with its body.

    A close with unread bytes would discard the response. Returns what was received. A body without
    `Content-Length` is not waited for.
    """
    received = b""
    while len(received) < MAX_REQUEST_BYTES and not _is_complete(received):
        seconds = deadline - clock.monotonic()
        if seconds <= 0:
            raise TimeoutError
        stream.settimeout(seconds)
        chunk = stream.recv(65536)
        if not chunk:
            break
        received += chunk
    return received


def _is_complete(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return True
