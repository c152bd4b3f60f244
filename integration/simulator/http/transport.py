"""Small HTTP/1.1 server with keep-alive and deliberate faults.

Werkzeug's server closes the connection after each response. Neither Werkzeug nor Granian lets an application
truncate a body, send no response or send broken headers. The application requests such faults in its
environment, by the key WIRE_FAULTS_KEY:

- hang: seconds after which the connection is closed without a response
- slow: seconds before the response
- drip: seconds over which the body is sent in pieces
- truncate: share of the body that is sent before the connection closes
- no-length: the same, without a Content-Length header
- malformed: send a header block that no parser accepts
"""

from __future__ import annotations

import io
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler

from werkzeug.test import run_wsgi_app

WIRE_FAULTS_KEY = "simulator.wire_faults"
WireFaults = dict[str, float]

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class Handler(WSGIRequestHandler):
    """Handler of one connection. Its requests are handled in sequence."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120
    server: SimulatorServer

    def setup(self) -> None:
        self.server.connections.add(self.request)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.connections.discard(self.request)

    def handle(self) -> None:
        try:
            # That of WSGIRequestHandler responds to one request only.
            BaseHTTPRequestHandler.handle(self)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the application logs requests."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.respond
        raise AttributeError(name)

    def respond(self) -> None:
        length = self.headers.get("Content-Length", "0")
        environ = self.get_environ() | {
            "wsgi.input": io.BytesIO(self.rfile.read(int(length))),
            "CONTENT_LENGTH": length,
            WIRE_FAULTS_KEY: (faults := WireFaults()),
        }
        chunks, status, headers = run_wsgi_app(self.server.application, environ, buffered=True)
        self._send_response(status, list(headers), b"".join(chunks), faults)

    def _send_response(
        self, status: str, headers: list[tuple[str, str]], body: bytes, faults: WireFaults
    ) -> None:
        stop = self.server.stopping
        stop.wait(faults.get("hang", faults.get("slow", 0.0)))
        if "hang" in faults:
            self.close_connection = True
            return
        header_lines = [f"HTTP/1.1 {status}"]
        if "malformed" in faults:
            # The vendor's command line tool received this invalid header name
            # (docs/platform.md#15-rate-limits).
            header_lines += ["Too Many Requests\x01: slow down", "no colon here at all"]
            self.close_connection = True
        # A streamed response has no Content-Length of its own; the response to HEAD has that of its body.
        length = dict(headers).get("Content-Length", str(len(body)))
        header_lines += [f"{name}: {value}" for name, value in headers if name != "Content-Length"]
        if not status.startswith("204") and "no-length" not in faults:
            header_lines.append(f"Content-Length: {length}")
        sent_share = faults.get("truncate", faults.get("no-length"))
        if sent_share is not None:
            body = body[: int(len(body) * sent_share)]
            self.close_connection = True
        if self.close_connection:
            header_lines.append("Connection: close")
        header_block = "\r\n".join(header_lines).encode("latin-1") + b"\r\n\r\n"
        if "drip" not in faults or sent_share is not None:
            # Headers and body are sent in one write: real clients read once (docs/platform.md#16-clients).
            self.wfile.write(header_block + body)
            return
        self.wfile.write(header_block)
        chunk_size = max(1, len(body) // 20)
        for position in range(0, len(body), chunk_size):
            if stop.wait(faults["drip"] / 20):
                break
            self.wfile.write(body[position : position + chunk_size])


class SimulatorServer(socketserver.ThreadingTCPServer):
    """HTTP server of a simulator.

    The constructor binds the port and starts to listen.

    `serve_in_thread()` handles requests, `stop()` closes all connections.
    """

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    request_queue_size = 256

    def __init__(
        self,
        host: str,
        port: int,
        application: Application,
    ) -> None:
        self.application = application
        self.stopping = threading.Event()
        self.connections: set[socket.socket] = set()
        super().__init__((host, port), Handler)
        self.host, self.port = cast("tuple[str, int]", self.server_address[:2])
        self.base_environ = {
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "SCRIPT_NAME": "",
            "SERVER_NAME": self.host,
            "SERVER_PORT": str(self.port),
        }
        self._thread: threading.Thread | None = None

    def serve_in_thread(self) -> None:
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="simulator-http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and close every connection within a second."""
        self.stopping.set()
        if self._thread is not None:
            self.shutdown()
            self._thread.join(2)
        self.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore aborted connections; print other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
