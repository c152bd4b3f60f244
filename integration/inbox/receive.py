"""Webhook receiver. It only checks and stores the event before it responds."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import orjson
from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import get_content_length, get_input_stream

from integration.core import tokens
from integration.core.body_encodings import (
    ACCEPT_IDENTITY,
    ENCODED_BODY_MESSAGE,
    GZIP_SIGNATURE,
    is_compressed,
)
from integration.core.errors import StorageError, error_body
from integration.inbox.store import Inbox
from integration.settings.model import Webhooks
from integration.settings.values import is_in_networks

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PATH_PREFIX = "/webhooks/"

BODY_LIMIT = 256 * 1024
"""Largest accepted body in bytes. In `deploy`, nginx.conf and both Caddyfiles have the same limit."""

COMMIT_TIMEOUT_SECONDS = 4.5
"""Seconds that a request waits for the commit.

After that it gets 503 with Retry-After.
"""


class _Response(NamedTuple):
    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Receiver:
    """WSGI application for `GET, HEAD, POST /webhooks/<secret>`, with or without a final slash.

    Uses the WSGI environment itself, because there is one route, no session and no form. The request and
    response of Werkzeug take five times as long as all other code here, and Flask takes longer still.
    """

    def __init__(self, inbox: Inbox, settings: Webhooks, secrets: Iterable[str]) -> None:
        self._inbox = inbox
        self._settings = settings
        self._secrets = secrets

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            status, body, headers = self._respond(environ)
        except ClientDisconnected as error:
            status, body, headers = _error_response(HTTPStatus.BAD_REQUEST, error.name)
        if status >= HTTPStatus.BAD_REQUEST:
            self._inbox.refused_count += 1
        content_headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", [*content_headers, *headers])
        # A list is sent in one step; any other iterable is streamed, with switches between threads.
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _respond(self, environ: WSGIEnvironment) -> _Response:
        rejection = self._reject(environ)
        if rejection is not None:
            return rejection
        if environ["REQUEST_METHOD"] != "POST":
            return _status_response("ready")
        body = _read_body(environ)
        if body is None:
            message = f"The body is larger than {BODY_LIMIT} bytes"
            return _error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        if body.startswith(GZIP_SIGNATURE):
            return _error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, ENCODED_BODY_MESSAGE, ACCEPT_IDENTITY)
        if body.strip() in (b"", b"{}"):
            return _status_response("probe")
        try:
            acknowledgement = self._inbox.receive(body).result(COMMIT_TIMEOUT_SECONDS)
        except (StorageError, TimeoutError):
            message = "The event could not be stored. Send it again in 5 seconds."
            return _error_response(HTTPStatus.SERVICE_UNAVAILABLE, message, ("Retry-After", "5"))
        return _status_response(acknowledgement)

    def _reject(self, environ: WSGIEnvironment) -> _Response | None:
        """Return the error response of a refused request, or None.

        Decides before the body is read.
        """
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD", "POST"):
            header = ("Allow", "GET, HEAD, POST")
            return _error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed", header)
        if is_compressed(environ.get("HTTP_CONTENT_ENCODING", "")):
            return _error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, ENCODED_BODY_MESSAGE, ACCEPT_IDENTITY)
        settings, networks = self._settings, self._settings.allow_from
        # PEP 3333: the server decodes the bytes of the path as Latin-1.
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        if not is_known_secret(path.removeprefix(PATH_PREFIX).removesuffix("/"), self._secrets) or (
            networks and not is_in_networks(networks, environ.get("REMOTE_ADDR"))
        ):
            return _error_response(HTTPStatus.NOT_FOUND, "Not found")
        if settings.username is not None:
            authorization = environ.get("HTTP_AUTHORIZATION", "")
            if not _is_basic_valid(authorization, settings.username, settings.password or ""):
                header = ("WWW-Authenticate", 'Basic realm="webhooks"')
                return _error_response(HTTPStatus.UNAUTHORIZED, "Credentials are required", header)
        return None


def is_known_secret(candidate: str, secrets: Iterable[str]) -> bool:
    """Return whether `candidate` is one of `secrets`.

    Compares with each secret in constant time, so that the duration reveals neither match nor position.
    """
    is_known = False
    for secret in secrets:
        is_known |= tokens.matches(candidate, tokens.digest(secret))
    return is_known


def _read_body(environ: WSGIEnvironment) -> bytes | None:
    """Read the body of the request.

    Returns None for more than BODY_LIMIT bytes; reads at most one more. Raises ClientDisconnected for a body
    that ends early: Granian passes it on as if it were complete.
    """
    length = get_content_length(environ)
    if length is None:
        streamed = get_input_stream(environ).read(BODY_LIMIT + 1)
        return None if len(streamed) > BODY_LIMIT else streamed
    if length > BODY_LIMIT:
        return None
    # Not the stream of Werkzeug, which allocates as many bytes as are requested and copies the body twice.
    try:
        body: bytes = environ["wsgi.input"].read(length)
    except OSError as error:
        raise ClientDisconnected from error
    if len(body) < length:
        raise ClientDisconnected
    return body


def _is_basic_valid(authorization: str, username: str, password: str) -> bool:
    scheme, _, encoded = authorization.partition(" ")
    try:
        credentials = base64.b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
        credentials = b""
    return tokens.matches(credentials, tokens.digest(f"{username}:{password}"))


@cache
def _status_response(status: str) -> _Response:
    return _Response(HTTPStatus.OK, f'{{"status":"{status}"}}'.encode())


def _error_response(status: HTTPStatus, message: str, *headers: tuple[str, str]) -> _Response:
    return _Response(status, orjson.dumps(error_body(message)), headers)
