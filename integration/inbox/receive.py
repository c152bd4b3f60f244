"""Webhook receiver. It only checks and stores the event before it responds."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

import orjson
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wrappers import Request, Response
from werkzeug.wsgi import get_input_stream

from integration.core import tokens
from integration.core.errors import StorageError, error_body
from integration.inbox.store import Inbox
from integration.settings.model import Webhooks
from integration.settings.values import is_in_networks

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PATH_PREFIX = "/webhooks/"

BODY_LIMIT = 256 * 1024
"""Largest accepted body in bytes."""

COMMIT_TIMEOUT_SECONDS = 4.5
"""Seconds that a request waits for the commit.

After that it gets 503 with Retry-After.
"""


class Receiver:
    """WSGI application for `GET, HEAD, POST /webhooks/<secret>`.

    Uses Werkzeug, on which Flask is built, instead of Flask: there is one route and no session, and the
    contexts, routing and signals of Flask cost twice as much as receiving (`tests.benchmarks webhooks`).
    """

    def __init__(self, inbox: Inbox, settings: Webhooks, secrets: Sequence[str]) -> None:
        self._inbox = inbox
        self._settings = settings
        self._secrets = secrets

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = self._respond(Request(environ))
        except HTTPException as error:
            response = _error_response(error.code or 500, error.name)
        if response.status_code >= 400:
            self._inbox.refused_count += 1
        body = [] if environ["REQUEST_METHOD"] == "HEAD" else [response.get_data()]
        start_response(response.status, response.get_wsgi_headers(environ).to_wsgi_list())
        # A list is sent in one step; any other iterable is streamed, with switches between threads.
        return body

    def _respond(self, request: Request) -> Response:
        rejection = self._reject(request)
        if rejection is not None:
            return rejection
        if request.method != "POST":
            return _status_response("ready")
        body = _read_body(request)
        if body is None:
            return _error_response(413, f"The body is larger than {BODY_LIMIT} bytes")
        if body.strip() in (b"", b"{}"):
            return _status_response("probe")
        try:
            acknowledgement = self._inbox.receive(body).result(COMMIT_TIMEOUT_SECONDS)
        except (StorageError, FutureTimeout):
            response = _error_response(503, "The event could not be stored. Send it again in 5 seconds.")
            response.headers["Retry-After"] = "5"
            return response
        return _status_response(acknowledgement)

    def _reject(self, request: Request) -> Response | None:
        """Return the error response of a refused request, or None.

        Decides before the body is read.
        """
        if request.method not in ("GET", "HEAD", "POST"):
            response = _error_response(405, "Method Not Allowed")
            response.headers["Allow"] = "GET, HEAD, POST"
            return response
        settings, networks = self._settings, self._settings.allow_from
        secret = request.path.removeprefix(PATH_PREFIX)
        if not is_known_secret(secret, self._secrets) or (
            networks and not is_in_networks(networks, request.remote_addr)
        ):
            return _error_response(404, "Not found")
        if settings.username is not None:
            authorization = request.headers.get("Authorization", "")
            if not _is_basic_valid(authorization, settings.username, settings.password or ""):
                response = _error_response(401, "Credentials are required")
                response.headers["WWW-Authenticate"] = 'Basic realm="webhooks"'
                return response
        return None


def is_known_secret(candidate: str, secrets: Sequence[str]) -> bool:
    """Return whether `candidate` is one of `secrets`.

    Compares with each secret in constant time, so that the duration reveals neither match nor position.
    """
    is_known = False
    for secret in secrets:
        is_known |= tokens.matches(candidate, tokens.digest(secret))
    return is_known


def _read_body(request: Request) -> bytes | None:
    """Read the body of the request.

    Returns None for more than BODY_LIMIT bytes; reads at most one more. Raises ClientDisconnected for a body
    that ends early: Granian passes it on as if it were complete.
    """
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        return None
    body = get_input_stream(request.environ).read(BODY_LIMIT + 1)
    if length is not None and len(body) < length:
        raise ClientDisconnected
    return None if len(body) > BODY_LIMIT else body


def _is_basic_valid(authorization: str, username: str, password: str) -> bool:
    scheme, _, encoded = authorization.partition(" ")
    try:
        credentials = base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
        credentials = b""
    return tokens.matches(credentials, tokens.digest(f"{username}:{password}"))


def _status_response(status: str) -> Response:
    return Response(f'{{"status":"{status}"}}', content_type="application/json")


def _error_response(status: int, message: str) -> Response:
    return Response(orjson.dumps(error_body(message)), status, content_type="application/json")
