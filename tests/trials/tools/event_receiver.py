"""Receiver of events that writes each one into a file before it responds.

`python -m tests.trials.tools.event_receiver PORT SECRET FILE`
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook


class Receiver(BaseHTTPRequestHandler):
    """A request with a wrong signature ends without a response."""

    webhook: Webhook
    file: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.webhook.verify(body, dict(self.headers))
        with open(self.file, "ab") as file:
            file.write(body + b"\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Receiver.webhook, Receiver.file = Webhook(sys.argv[2]), Path(sys.argv[3])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print("Listening", flush=True)
    server.serve_forever()
