"""examples/push_to_crm.py with a CRM of two requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.examples.office import SECOND_CALLER, edit_call, erase_caller, label_call, merge_calls, open_office
from tests.examples.reader import Reader
from tests.support.application import running_app

pytestmark = pytest.mark.exhaustive


class Crm:
    """Stores activities by their address. `accepted`: number of further requests before it fails."""

    def __init__(self) -> None:
        self.activities: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.accepted = 1000
        crm = self

        class Handler(BaseHTTPRequestHandler):
            def respond(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(crm.handle(self.command, self.path, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_DELETE = respond

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handle(self, method: str, path: str, body: bytes) -> int:
        name = path.rpartition("-")[2]
        self.requests.append((method, name))
        if len(self.requests) > self.accepted:
            return 500
        if method == "PUT":
            self.activities[name] = json.loads(body)
            return 204
        return 204 if self.activities.pop(name, None) else 404

    def take_requests(self) -> list[tuple[str, str]]:
        requests, self.requests = self.requests, []
        return requests


@pytest.fixture
def crm() -> Iterator[Crm]:
    crm = Crm()
    yield crm
    crm.server.shutdown()
    crm.server.server_close()


def test_each_finished_call_is_one_activity_that_follows_its_changes(crm: Crm, tmp_path: Path) -> None:
    with running_app(tmp_path / "data") as app:
        mirror = open_office(app)
        reader = Reader("examples/push_to_crm.py", app, tmp_path)
        crm.accepted = 2
        failed = reader.run(CRM=crm.url)
        assert failed.returncode == 1
        assert "500" in failed.stderr
        crm.accepted = 1000
        crm.take_requests()
        assert reader.run(CRM=crm.url).stderr == ""
        assert crm.take_requests() == [("PUT", "101"), ("PUT", "102"), ("PUT", "103")]
        assert crm.activities["103"] == {
            "phone": f"+{SECOND_CALLER}",
            "at": "2026-09-02 08:46:55Z",
            "subject": "in, answered, 30 s",
            "owner": "Bob Sample",
            "labels": [],
        }
        assert reader.run(CRM=crm.url).stderr == ""
        assert crm.take_requests() == [], "nothing has changed"

        edit_call(mirror)
        merge_calls(mirror)
        assert reader.run(CRM=crm.url).stderr == ""
        assert sorted(crm.take_requests()) == [("DELETE", "102"), ("PUT", "101"), ("PUT", "103")]
        assert crm.activities["103"]["subject"] == "in, answered, 25 s"
        label_call(app, 101)
        assert reader.run(CRM=crm.url).stderr == ""
        assert crm.take_requests() == [("PUT", "101")]
        assert crm.activities["101"]["labels"] == ["Complaint"]

        erase_caller(app, SECOND_CALLER)
        assert reader.run(CRM=crm.url).stderr == ""
        assert list(crm.activities) == ["101"]
