"""HTTP server with a handler for each path.

It sends invalid responses that the simulator cannot send.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from integration.catalogue import match


@dataclass(frozen=True)
class Request:
    """A received request. `path` is below the base path of the server."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Reply:
    """Response that a handler sends."""

    def content(
        self, body: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        raise NotImplementedError

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.content(json.dumps(value).encode(), "application/json", status, headers)


Handler = Callable[[Request, Any], object]


def returns(value: Any, status: int = 200) -> Handler:
    """Return a handler that responds with `value` as JSON."""
    return lambda request, reply: reply.json(value, status)


class WireReply(Reply):
    """Response over a connection, complete or as raw bytes."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def content(
        self, body: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self._handler.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def raw(self, data: bytes, *, close: bool = False) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()
        if close:
            self._handler.close_connection = True


class ScriptedPlatform:
    """Handlers by path, and the received requests.

    `routes` maps a path ('/cdrs/5'), an operation of the catalogue ('GET /cdrs/{id}') or '*' to a handler.
    The path takes precedence over the operation, the operation over '*'.
    """

    def __init__(self) -> None:
        self.routes: dict[str, Handler] = {}
        self.requests: list[Request] = []

    def respond(self, route: str, value: Any, status: int = 200) -> None:
        """Return `value` as JSON for requests of `route` from now on."""
        self.routes[route] = returns(value, status)

    def fail(self) -> None:
        """Respond to every request with 503 from now on."""
        self.routes.clear()
        self.respond("*", {"message": "down", "errors": []}, 503)

    def count(self, path: str) -> int:
        """Number of requests of `path`."""
        return sum(1 for request in self.requests if request.path == path)

    def find_handler(self, request: Request) -> Handler | None:
        matched = match(request.method, request.path)
        keys = (request.path, matched[0].name if matched else "", "*")
        return next((self.routes[key] for key in keys if key in self.routes), None)


class Server(ScriptedPlatform):
    """HTTP server on a free port.

    Paths of `routes` and `requests` are below `base`.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, base: str = "") -> None:
        super().__init__()
        self.base = base
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The body would otherwise wait 40 ms for the acknowledgement of the headers.
            disable_nagle_algorithm = True

            def respond(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(
                    self.command,
                    url.path.removeprefix(owner.base),
                    parse_qs(url.query),
                    dict(self.headers.items()),
                    self.rfile.read(length),
                )
                owner.requests.append(request)
                route = owner.find_handler(request)
                assert route is not None, f"no handler for {request.path}"
                try:
                    route(request, WireReply(self))
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond

            def log_message(self, *args: Any) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                # A client that closes its connection is no failure of a test.
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self._http = Listener(("127.0.0.1", 0), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
