"""Records of a scripted platform: lists with filter, sort and pages, records' own paths, subresources.

Bodies have the form of PHP's JSON: escaped slashes and characters.
"""

from __future__ import annotations

import json
from typing import Any

from integration.sync import commands
from tests.comparison.operations import DOCUMENTED_OPERATIONS
from tests.support.application import TestApp
from tests.support.fake_exchange import NOT_FOUND, add_account
from tests.support.platform_collection import list_page
from tests.support.scripted_server import Request, ScriptedPlatform

COLLECTIONS = [
    row.path[1:]
    for row in DOCUMENTED_OPERATIONS
    if row.method == "GET" and row.envelope == "list" and "dictionaries" not in row.path
]
DICTIONARIES = [row.path[1:] for row in DOCUMENTED_OPERATIONS if row.path.endswith("/dictionaries")]
OWN_PATHS = {
    row.path[1:].rpartition("/")[0]
    for row in DOCUMENTED_OPERATIONS
    if row.method == "GET" and row.path.endswith(("/{id}", "/{e164}"))
} & set(COLLECTIONS)
"""Collections whose records have their own path."""


class Account:
    """Records by collection. Tests change them as another client of the platform does.

    `lists` holds the records as collections list them. `own_forms` holds, by path, the records whose own path
    returns another form. `below` holds the subresources by path.
    """

    def __init__(self, platform: ScriptedPlatform) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {name: [] for name in COLLECTIONS}
        self.dictionaries: dict[str, Any] = {name: [] for name in DICTIONARIES}
        self.own_forms: dict[str, dict[str, Any]] = {}
        self.below: dict[str, list[dict[str, Any]]] = {}
        self._platform = platform
        self.connect()

    def connect(self) -> None:
        """Respond to requests, as at first and after an outage."""
        self._platform.routes.clear()
        add_account(self._platform)
        self._platform.routes["*"] = self._respond

    def _respond(self, request: Request, reply: Any) -> None:
        body = self._find_body(request)
        text = write_as_php(NOT_FOUND if body is None else body)
        reply.content(text.encode(), "application/json", 404 if body is None else 200)

    def _find_body(self, request: Request) -> dict[str, Any] | None:
        path = request.path.strip("/")
        if path in self.lists:
            return list_page(self.lists[path], request)
        if path in self.dictionaries:
            return {"data": self.dictionaries[path], "total": len(self.dictionaries[path])}
        if request.path in self.below:
            return {"data": self.below[request.path], "total": len(self.below[request.path])}
        collection, _, key = path.rpartition("/")
        if collection not in OWN_PATHS:
            return None
        record = self.find_record(collection, key)
        return None if record is None else {"data": record, "links": {"self": request.path}}

    def find_record(self, collection: str, key: str) -> dict[str, Any] | None:
        """The record as its own path returns it."""
        field = "e164" if collection == "ddis" else "id"
        listed = next((entry for entry in self.lists[collection] if str(entry[field]) == key), None)
        return None if listed is None else self.own_forms.get(f"/{collection}/{key}", listed)


class SilentProgress:
    """Progress of a command that no one reads."""

    can_continue = True

    def __call__(self, **_facts: object) -> None:
        """Drop the progress."""


def sync(app: TestApp, *collections: str, full: bool = False) -> None:
    """Run the command `sync`. Every requested collection must be complete."""
    arguments = {"resources": list(collections), "full": full, "files": False}
    result = commands.sync(app.context, arguments, SilentProgress())
    assert {row["collection"]: row["error"] for row in result["rows"] if row["error"]} == {}
    assert result["complete"]


def write_as_php(value: Any) -> str:
    """JSON as PHP writes it, with spaces that it does not write."""
    return json.dumps(value, separators=(", ", ": ")).replace("/", "\\/")


def write_compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
