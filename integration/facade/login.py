"""Login, logout and other operations without credentials, passed to the platform.

Tokens of successful logins are cached; tokens that end are revoked here.
"""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response

from integration.access import login_throttle
from integration.access.authenticator import read_credentials
from integration.access.login_throttle import TooManyAttempts
from integration.core.api_responses import ApiError, build_response
from integration.facade import pass_through
from integration.facade.request import FacadeRequest
from integration.facade.writes import read_json_text

BODY_LIMIT = 64 * 1024
"""Largest body in bytes. These operations need no credentials, so any client can send one."""

NAMELESS = ""
"""Account of all logins without an account: they are limited together, and never taken off the count."""
_SUBJECT_FIELDS = {"/login": "email", "/login2fa": "nonce", "/reset": "token"}
"""Field that a credential guess must have, by path."""


def forward_public(request: FacadeRequest) -> Response:
    """Forward a login, second factor, password reset or registration.

    The request is sent once, without retries, because every login may send an e-mail.
    """
    body = read_json_text(request.http_request, BODY_LIMIT)
    body_fields = _parse_object(body)
    email = body_fields.get("email") if isinstance(body_fields.get("email"), str) else None
    subject = body_fields.get(_SUBJECT_FIELDS.get(request.path, ""))
    # A login that names no account tries no password that this limit could count for an account.
    is_credential_guess = isinstance(subject, str) and bool(subject.strip())
    is_nameless = request.path in _SUBJECT_FIELDS and not is_credential_guess
    address = request.http_request.remote_addr or ""
    app_db = request.context.app_db
    try:
        # Requests that try no password count as well, or anonymous clients could exhaust the request budget.
        kind: login_throttle.AttemptKind = "password" if is_credential_guess else "public"
        account = email if is_credential_guess else NAMELESS if is_nameless else None
        attempt = login_throttle.begin_attempt(app_db, kind, account, address)
    except TooManyAttempts as error:
        raise ApiError(429, str(error), headers={"Retry-After": str(error.retry_after)}) from error
    is_refused = False
    try:
        platform_response = pass_through.send(request, body or None, pass_through.NO_CREDENTIALS)
        is_refused = 400 <= platform_response.status < 500
    finally:
        if is_credential_guess and not is_refused:
            login_throttle.discard_attempt(app_db, attempt)
    if platform_response.status == 200:
        response_fields = _parse_object(platform_response.body)
        token = response_fields.get("user_token")
        if isinstance(token, str) and token:
            request.context.authenticator.record_login(token, response_fields.get("user_id"), email)
    return pass_through.relay_response(request, platform_response)


def logout(request: FacadeRequest) -> Response:
    """End the client's token here, then forward the logout.

    The token stays ended if that fails. An API key stays valid.
    """
    if request.caller.is_local:
        return build_response(orjson.dumps({"message": "A local key has no session. Nothing was changed."}))
    request.context.authenticator.record_logout(read_credentials(request.http_request).secret)
    platform_response = pass_through.send(request, None, request.caller.credentials)
    return pass_through.relay_response(request, platform_response)


def revoke_deleted_token(request: FacadeRequest, response: Response) -> None:
    """Revoke a token here after a successful `DELETE /apitokens/{token}`."""
    head, _, token = request.path.strip("/").partition("/")
    if request.method == "DELETE" and head == "apitokens" and token and response.status_code < 400:
        request.context.authenticator.revoke(token)


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
