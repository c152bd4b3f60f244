"""Fake platform without a network."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.outbound.exchange import ResponseBody
from tests.support.scripted_server import Reply, Request, ScriptedPlatform

FIXTURES = Path(__file__).parents[1] / "fixtures" / "platform"

API_KEY = "a" * 40
"""API key of the product."""
ADMINISTRATOR = "b" * 40
USER = "c" * 40
OTHER_CUSTOMER = "d" * 40
"""An administrator of another customer of the platform."""
WITHOUT_CUSTOMER = "e" * 40
"""An administrator whose customer the platform does not return."""

NOT_FOUND = {"message": "Not found", "errors": []}


def read_fixture(name: str) -> Any:
    """Read a recorded payload of the platform."""
    return json.loads((FIXTURES / f"{name}.json").read_text())


def describe_user(request: Request) -> tuple[int, dict[str, Any]]:
    """Status and body of GET /me for the credentials of `request`."""
    secret = request.headers.get("X-Auth-Token") or request.headers.get("Authorization", "")
    users = {
        ADMINISTRATOR: {"id": 1000009, "customer_id": 100001, "email": "root@example.com", "is_root": True},
        USER: {"id": 1000002, "customer_id": 100001, "email": "bob@example.com", "is_root": False},
        OTHER_CUSTOMER: {"id": 1000055, "customer_id": 100777, "email": "eve@example.com", "is_root": True},
        WITHOUT_CUSTOMER: {"id": 1000056, "email": "una@example.com", "is_root": True},
        API_KEY: {**read_fixture("response-me-200")["data"], "is_root": "true"},
    }
    name = None
    if secret.startswith("Basic "):
        name, _, secret = base64.b64decode(secret[6:]).decode().partition(":")
    if secret not in users or name not in (None, str(users[secret]["id"]), users[secret]["email"]):
        return 401, {"message": "Unauthorized", "errors": []}
    return 200, {"data": users[secret], "links": {}}


def add_account(platform: ScriptedPlatform) -> None:
    """Add the routes that every account has: /me and /ping."""
    platform.routes["/me"] = lambda request, reply: reply.json(*reversed(describe_user(request)))
    platform.respond("/ping", {"message": "Pong"})


class FakeExchange(ScriptedPlatform):
    """Platform that responds by path or operation, and records requests.

    Takes the place of `outbound.exchange.Exchange`. A request without a handler raises PlatformUnreachable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stopping = threading.Event()
        add_account(self)

    @contextmanager
    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | io.RawIOBase | None,
        seconds: float,
        read_timeout: float | None = None,
    ) -> Iterator[ResponseBody]:
        if self.stopping.is_set():
            raise PlatformUnreachable("Switchroom is stopping")
        url = urlsplit(target)
        content = body.read() if isinstance(body, io.RawIOBase) else body
        request = Request(method, url.path, parse_qs(url.query), dict(headers), content or b"")
        self.requests.append(request)
        handler = self.find_handler(request)
        if handler is None:
            raise PlatformUnreachable("the platform refuses connections; check platform.base_url")
        reply = CompleteReply()
        handler(request, reply)
        response = urllib3.HTTPResponse(
            io.BytesIO(reply.body), reply.headers, reply.status, preload_content=False, request_method=method
        )
        yield ResponseBody(reply.status, response.headers, int(reply.headers["Content-Length"]), response)

    def close(self) -> None:
        self.stopping.set()


class CompleteReply(Reply):
    """A response in memory."""

    status: int
    headers: dict[str, str]
    body: bytes

    def content(
        self, body: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.status, self.body = status, body
        self.headers = {
            "Date": formatdate(clock.unix(), usegmt=True),
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }
