"""The webhook receiver: check, store, answer. Nothing else happens before the answer (interface.md §3)."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from integration.errors import StorageError, error_body
from integration.inbox.store import Inbox
from integration.settings import Webhooks

BODY_LIMIT = 256 * 1024
"""Bytes, inclusive (interface.md §6, Inbox)."""

DURABLE_SECONDS = 4.5
"""How long a sender waits for the commit before it is told to try again."""


def make_receiver(inbox: Inbox, settings: Webhooks, secrets: Sequence[str]) -> Flask:
    """The receiver as an application of its own: `GET, HEAD, POST /webhooks/<secret>`.

    Beside the dashboard's application and not within it: of what that does for every request (login,
    proof of intent, security headers) a webhook needs nothing, and it would double the cost of one.
    """
    app = Flask("switchroom-receiver", static_folder=None)
    networks = settings.allow_from

    def refusal(secret: str) -> Response | None:
        """Why this request goes no further, decided before its body is read; None to go on."""
        if not known_secret(secret, secrets) or (networks and not _allowed(request.remote_addr, networks)):
            return _error(404, "Not found")
        if settings.username is not None and not _basic_ok(settings.username, settings.password or ""):
            answer = _error(401, "Credentials are needed")
            answer.headers["WWW-Authenticate"] = 'Basic realm="webhooks"'
            return answer
        return None

    @app.get("/webhooks/<secret>")
    def probe(secret: str) -> Response:
        return refusal(secret) or _said("ready")

    @app.post("/webhooks/<secret>")
    def receive(secret: str) -> Response:
        if refused := refusal(secret):
            return refused
        body = _body()
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes")
        if body.strip() in (b"", b"{}"):
            return _said("probe")
        try:
            receipt = inbox.receive(body).result(DURABLE_SECONDS)
        except (StorageError, FutureTimeout):
            answer = _error(503, "The event could not be stored; send it again")
            answer.headers["Retry-After"] = "5"
            return answer
        return _said(receipt.status)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        """What Flask refuses by itself, in the same shape: 404, 405, a body that ends early."""
        return _error(error.code or 500, error.name)

    return app


def known_secret(given: str, secrets: Sequence[str]) -> bool:
    """Compared in constant time with every secret, so that neither match nor position shows."""
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
    return found


def _body() -> bytes | None:
    """The request's body; None when it is larger than BODY_LIMIT. Reads at most one byte beyond."""
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        return None
    request.max_content_length = None
    body = request.stream.read(BODY_LIMIT + 1)
    return None if len(body) > BODY_LIMIT else body


def _allowed(address: str | None, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        peer = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped is not None:
        peer = peer.ipv4_mapped
    return any(peer in network for network in networks)


def _basic_ok(username: str, password: str) -> bool:
    kind, _, encoded = request.headers.get("Authorization", "").partition(" ")
    try:
        given = base64.b64decode(encoded, validate=True) if kind.lower() == "basic" else b""
    except binascii.Error:
        given = b""
    return hmac.compare_digest(given, f"{username}:{password}".encode())


def _said(status: str) -> Response:
    return Response(f'{{"status":"{status}"}}', content_type="application/json")


def _error(status: int, message: str) -> Response:
    return Response(orjson.dumps(error_body(message)), status, content_type="application/json")
