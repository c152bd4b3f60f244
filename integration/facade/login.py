"""What happens before and after a session: passed to the platform, with our own record of its tokens."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response

from integration.access import login_throttle as attempts
from integration.access.authenticator import Gatekeeper, read_credentials
from integration.access.login_throttle import TooManyAttempts
from integration.core.api_responses import Stop, no_answer, whole
from integration.core.errors import PlatformError
from integration.facade import pass_through as passing
from integration.facade.request import Asked
from integration.facade.writes import check_type
from integration.platform_api.budget import PEOPLE

BODY_LIMIT = 64 * 1024
"""Anyone may send these bodies, so they are read no further."""


def public(asked: Asked, gatekeeper: Gatekeeper) -> Response:
    """Login, its second factor, password reset, registration. Sent once: every login may send an e-mail."""
    asked.request.max_content_length = BODY_LIMIT
    body = asked.request.get_data(cache=False)
    if body:
        check_type(asked.request)
    sent = _object(body)
    account = sent.get("email") if isinstance(sent.get("email"), str) else None
    guessing = asked.path in ("/login", "/login2fa", "/reset")
    address = asked.request.remote_addr or ""
    house = asked.house.house
    try:
        # Nobody has shown anything yet: what is no guess counts, too, or strangers would use up our requests
        # to the platform.
        kind: attempts.Kind = "password" if guessing else "public"
        attempt = attempts.begin(house, kind, account if guessing else None, address)
    except TooManyAttempts as error:
        raise Stop(429, str(error), headers={"Retry-After": str(error.retry_after)}) from error
    wrong = False
    try:
        said = _ask(asked, body or None)
        wrong = 400 <= said.status < 500
    finally:
        if guessing and not wrong:
            attempts.succeeded(house, attempt)
    if said.status == 200:
        told = _object(said.body)
        token = told.get("user_token")
        if isinstance(token, str) and token:
            gatekeeper.logged_in(token, told.get("user_id"), account)
    return passing.answer(asked, said)


def logout(asked: Asked, gatekeeper: Gatekeeper) -> Response:
    """The token is no good here from now on, whatever becomes of it on the platform."""
    if asked.caller.local:
        return whole(orjson.dumps({"message": "A local key has no session that could end."}))
    gatekeeper.ended(read_credentials(asked.request).secret)
    try:
        said = asked.house.platform.send(
            "POST", "/logout", who=PEOPLE, credentials=asked.caller.credentials, check=False
        )
    except PlatformError as error:
        raise no_answer(error) from error
    return passing.answer(asked, said)


def token_deleted(asked: Asked, response: Response, gatekeeper: Gatekeeper) -> None:
    """`DELETE /apitokens/{token}` through us is known at once (interface.md §6 Identity)."""
    head, _, token = asked.path.strip("/").partition("/")
    if asked.method == "DELETE" and head == "apitokens" and token and response.status_code < 400:
        gatekeeper.ended(token)


def _ask(asked: Asked, body: bytes | None) -> Any:
    platform = asked.house.platform
    try:
        if asked.method == "GET":
            return platform.get(
                asked.target,
                asked.query or None,
                who=PEOPLE,
                credentials=passing.NOBODY,
                tries=1,
                check=False,
            )
        return platform.send(
            asked.method,
            asked.target,
            body,
            params=asked.query or None,
            who=PEOPLE,
            credentials=passing.NOBODY,
            check=False,
        )
    except PlatformError as error:
        raise no_answer(error) from error


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
