"""HTTP part of write-through: rights, origin, body and response."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Request, Response

from integration.access.browser import foreign_origin
from integration.catalogue import COLLECTIONS
from integration.core.api_responses import ApiError, build_gateway_error, build_response
from integration.core.body_encodings import to_utf8
from integration.facade.exposure import EXPOSURE, Exposure
from integration.facade.pass_through import select_passed_headers
from integration.facade.policy import build_body_error, check_body
from integration.facade.request import FacadeRequest
from integration.sync.writing import write_through
from integration.sync.writing.write_through import WriteRequest, WriteResult
from integration.web import api_requests

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Largest body in bytes. The body of a voicemail announcement contains the audio as base64."""


def write(request: FacadeRequest) -> Response:
    """Write through to the platform.

    Raises ApiError 400, 403, 409, 413, 422, 502 or 504.
    """
    _check_allowed(request)
    check_origin(request)
    body = _read_body(request)
    _check_routing_source(request, body)
    write_request = WriteRequest(
        who=request.caller.name,
        address=request.http_request.remote_addr or "",
        method=request.method,
        path=request.path,
        query=request.query_string,
        body=body,
        idempotency_key=request.http_request.headers.get("Idempotency-Key"),
        credentials=request.caller.credentials,
        hides_secrets=request.caller.is_local,
    )
    return _respond(write_through.send(request.context, write_request))


def _respond(result: WriteResult) -> Response:
    if result.earlier is not None:
        api_requests.check_repeat(result.earlier)
    if result.status is None:
        raise build_gateway_error(result.problem, result.has_timed_out)
    return build_response(
        result.body,
        result.status,
        content_type=result.content_type,
        headers=select_passed_headers(result.headers),
    )


def _check_allowed(request: FacadeRequest) -> None:
    settings = request.context.settings.facade
    if not settings.writes:
        raise ApiError(403, "Writes are disabled by the setting facade.writes.")
    if is_destructive(request) and not settings.destructive:
        raise ApiError(
            403, "Deleting an entire collection or the account is disabled by the setting facade.destructive."
        )


def is_destructive(request: FacadeRequest) -> bool:
    """Return whether a request deletes an entire collection or the account.

    Includes undocumented operations.
    """
    if request.operation is not None:
        return EXPOSURE[request.operation.name] is Exposure.DESTRUCTIVE
    collection = request.path.strip("/")
    return request.method == "DELETE" and ("/" not in collection or collection in COLLECTIONS)


def _check_routing_source(request: FacadeRequest, body: bytes | None) -> None:
    """Raise ApiError 403 for a routing rule with an empty source, which can apply to every caller."""
    if body is None or request.path.strip("/").partition("/")[0] != "routingrules":
        return
    values = _parse_json(body)
    source = values.get("source", True) if isinstance(values, dict) else True
    if not any(str(one or "").strip() for one in (source if isinstance(source, list) else [source])):
        raise ApiError(
            403, "An empty source can block every caller, so it is not sent. List at least one source."
        )


def _read_body(request: FacadeRequest) -> bytes | None:
    """Return the body, None without one.

    Raises ApiError 413, or 400 if it is not JSON.
    """
    body = read_json_text(request.http_request, MAX_BODY_BYTES)
    if body and request.is_limited:
        _parse_json(body)
        check_body(request, body)
    if request.caller.visibility.user_scope is not None:
        return _restrict_to_own_user(body, request.caller.visibility.user_scope)
    if not body:
        return None
    _parse_json(body)
    return body


def read_json_text(http_request: Request, limit: int) -> bytes:
    """Return the body of a request as UTF-8, empty without one.

    Raises RequestEntityTooLarge for more than `limit` bytes, ApiError 400 for another content type than JSON.
    """
    http_request.max_content_length = limit
    body = http_request.get_data(cache=False)
    if body:
        check_content_type(http_request)
    return to_utf8(body, http_request.mimetype_params.get("charset", ""))


def _parse_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise build_body_error(f"The body is not valid JSON: {error}") from None


def check_origin(request: FacadeRequest) -> None:
    """Raise ApiError 403 for cross-site POSTs with Basic credentials of browsers.

    A browser that stored Basic credentials for this host sends them with every POST that another site's page
    triggers. Requests that need a preflight (other methods, a JSON content type, X-Auth-Token) are subject to
    CORS and not checked here.
    """
    http_request, settings = request.http_request, request.context.settings
    if http_request.method != "POST" or http_request.is_json or "Authorization" not in http_request.headers:
        return
    origin = foreign_origin(http_request, settings.server.public_url)
    # "*" does not count: it is meant for pages that send their own credentials.
    if origin is not None and origin not in settings.facade.cors_origins:
        raise ApiError(403, f"A page of {origin} sent this request. Add the origin to facade.cors_origins.")


def check_content_type(request: Request) -> None:
    """Raise ApiError 400 for a content type other than JSON.

    The default content type of curl and PHP (form data) is accepted as JSON. The platform validates the
    fields.
    """
    content_type = request.mimetype
    if content_type in ("", "application/json", "application/x-www-form-urlencoded") or content_type.endswith(
        "+json"
    ):
        return
    raise build_body_error(f"{content_type} is not application/json.", "Content-Type")


def _restrict_to_own_user(body: bytes, user_id: int) -> bytes:
    """Set `from` of a click-to-call to `user_id`, the key's user scope.

    Raises ApiError 400 for a body that is not a JSON object, 403 for another user.
    """
    parsed = _parse_json(body)
    if not isinstance(parsed, dict):
        raise build_body_error("The body must be a JSON object.")
    if parsed.get("from") not in (None, user_id, str(user_id)):
        raise ApiError(403, f"This key can only start calls from the user {user_id}. Omit the field from.")
    return orjson.dumps({**parsed, "from": str(user_id)})
