"""Live calls of the facade: a record in the platform's form, and a client that compares list and record."""

from __future__ import annotations

from typing import Any

import requests

from tests.support.application import TestApp

LEG = 4278000101
PATH = f"/calls/{LEG}"

RECORD: dict[str, Any] = {
    "id": LEG,
    "state": "RINGING",
    "src": "447700900101",
    "src_id": "0",
    "src_ua": "",
    "dst": "442079460002",
    "dst_id": "10002",
    "dst_name": "Ann Example",
    "dst_rate": 0.035,
    "clid": '"+447700900101" <+447700900101>',
    "start_time": 1788338755,
    "connected_at": None,
    "monitor_state": 0,
}
"""A live call as `/calls` lists it. `start_time` is 2026-09-02 08:45:55 UTC."""


class LiveCallClient:
    """HTTP client of the facade, with a key of scope `read`."""

    def __init__(self, app: TestApp) -> None:
        self._app = app
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, path: str, headers: dict[str, str] | None = None) -> requests.Response:
        url = self._app.url + self._app.base + path
        return self._session.get(url, headers={**self._app.headers, **(headers or {})}, timeout=20)

    def list_calls(self) -> list[dict[str, Any]]:
        response = self.get("/calls")
        assert response.status_code == 200
        body = response.json()
        assert body["total"] == len(body["data"])
        return list(body["data"])

    def read_both(self, leg: int = LEG) -> dict[str, Any] | None:
        """The live call, or None: as the list and as its own path return it."""
        listed = [call for call in self.list_calls() if call["id"] == leg]
        response = self.get(f"/calls/{leg}")
        if not listed:
            assert response.status_code == 404
            return None
        assert response.status_code == 200
        assert response.json()["data"] == listed[0]
        return listed[0]


def list_live(app: TestApp, *records: dict[str, Any]) -> None:
    """Let the platform list these live calls, and return them at their own paths."""
    app.platform.respond("/calls", {"data": list(records), "total": len(records)})
    for record in records:
        app.platform.respond(f"/calls/{record['id']}", {"data": record, "links": {}})


def count_reads(app: TestApp) -> int:
    """Number of requests of live calls that the platform received."""
    return sum(request.path.startswith("/calls") for request in app.platform.requests)


def read_mirror_headers(response: requests.Response) -> tuple[str | None, str | None]:
    return response.headers.get("X-Mirror-Age"), response.headers.get("X-Mirror-Complete")
