"""A small HTTP server that misbehaves byte by byte, as told. For faults that a simulator should not know."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Reply:
    """Says things to a client: whole answers, or raw bytes."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.content(json.dumps(value).encode(), "application/json", status, headers)

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


class Server:
    """`routes[path](asked, reply)`, or `routes['*']`. `asked` keeps every request."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Callable[[Asked, Reply], None]] = {}
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                asked = Asked(
                    self.command,
                    parts.path,
                    parse_qs(parts.query),
                    dict(self.headers.items()),
                    self.rfile.read(length),
                )
                owner.asked.append(asked)
                route = owner.routes.get(asked.path) or owner.routes["*"]
                try:
                    route(asked, Reply(self))
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args: Any) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

        self._http = Listener(("127.0.0.1", 0), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_port}"

    def count(self, path: str) -> int:
        return sum(1 for asked in self.asked if asked.path == path)

    def close(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
