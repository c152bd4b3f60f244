"""The webhook receiver: check, store, answer. Nothing else happens before the answer (interface.md §3)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

import orjson
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wrappers import Request, Response
from werkzeug.wsgi import get_input_stream

from integration.core.errors import StorageError, error_body
from integration.inbox.store import Inbox
from integration.settings.model import Webhooks
from integration.settings.values import contains

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PREFIX = "/webhooks/"

BODY_LIMIT = 256 * 1024
"""Bytes, inclusive (interface.md §6, Inbox)."""

DURABLE_SECONDS = 4.5
"""How long a sender waits for the commit before it is told to try again."""


class Receiver:
    """The WSGI application for `GET, HEAD, POST /webhooks/<secret>`.

    On Werkzeug, which Flask itself stands on, and not a Flask application: it has one route and no session,
    and Flask's contexts, routing and signals cost twice what receiving does (`tests.benchmarks webhooks`).
    """

    def __init__(self, inbox: Inbox, settings: Webhooks, secrets: Sequence[str]) -> None:
        self._inbox = inbox
        self._settings = settings
        self._secrets = secrets

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            answer = self._answer(Request(environ))
        except HTTPException as error:
            answer = _error(error.code or 500, error.name)
        if answer.status_code >= 400:
            self._inbox.refused += 1
        body = [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.get_data()]
        start_response(answer.status, answer.get_wsgi_headers(environ).to_wsgi_list())
        # A list goes out at once; any other iterable is streamed, with hand-overs between threads.
        return body

    def _answer(self, request: Request) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        if request.method != "POST":
            return _said("ready")
        body = _body(request)
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes")
        if body.strip() in (b"", b"{}"):
            return _said("probe")
        try:
            stored = self._inbox.receive(body).result(DURABLE_SECONDS)
        except (StorageError, FutureTimeout):
            answer = _error(503, "The event could not be stored; send it again")
            answer.headers["Retry-After"] = "5"
            return answer
        return _said(stored)

    def _refusal(self, request: Request) -> Response | None:
        """Why this request goes no further, decided before its body is read; None to go on."""
        if request.method not in ("GET", "HEAD", "POST"):
            answer = _error(405, "Method Not Allowed")
            answer.headers["Allow"] = "GET, HEAD, POST"
            return answer
        settings, networks = self._settings, self._settings.allow_from
        secret = request.path.removeprefix(PREFIX)
        if not known_secret(secret, self._secrets) or (
            networks and not contains(networks, request.remote_addr)
        ):
            return _error(404, "Not found")
        if settings.username is not None:
            given = request.headers.get("Authorization", "")
            if not _basic_ok(given, settings.username, settings.password or ""):
                answer = _error(401, "Credentials are needed")
                answer.headers["WWW-Authenticate"] = 'Basic realm="webhooks"'
                return answer
        return None


def known_secret(given: str, secrets: Sequence[str]) -> bool:
    """Compared in constant time with every secret, so that neither match nor position shows."""
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
    return found


def _body(request: Request) -> bytes | None:
    """The request's body; None when it is larger than BODY_LIMIT. Reads at most one byte beyond.

    Raises ClientDisconnected for one that ends early: Granian hands it over as if it were whole.
    """
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        return None
    body = get_input_stream(request.environ).read(BODY_LIMIT + 1)
    if length is not None and len(body) < length:
        raise ClientDisconnected
    return None if len(body) > BODY_LIMIT else body


def _basic_ok(authorization: str, username: str, password: str) -> bool:
    kind, _, encoded = authorization.partition(" ")
    try:
        given = base64.b64decode(encoded, validate=True) if kind.lower() == "basic" else b""
    except ValueError:
        given = b""
    return hmac.compare_digest(given, f"{username}:{password}".encode())


def _said(status: str) -> Response:
    return Response(f'{{"status":"{status}"}}', content_type="application/json")


def _error(status: int, message: str) -> Response:
    return Response(orjson.dumps(error_body(message)), status, content_type="application/json")
