"""Writes: done by the platform first, noted in the mirror before the answer leaves (interface.md §4).

1. Rights and settings. 2. The body is read. 3. A repeat under the same Idempotency-Key gets the first answer.
4. A journal entry. 5. The platform is asked, once. 6. The mirror. 7. The entry is finished; the platform's
status and body are the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson
from flask import Request, Response

from integration.access.browser import foreign_origin
from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import JSON, ApiError, build_response, to_gateway_error
from integration.core.errors import PlatformError
from integration.core.json_records import read_page
from integration.facade import pass_through
from integration.facade.exposure import EXPOSURE, Exposure
from integration.facade.request import COLLECTIONS, FacadeRequest
from integration.mirror.records import single_record, write_results
from integration.mirror.records.upsert import delete_rows, get_usable_key, upsert
from integration.mirror.sync_state import collection_state, pending_deletions
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.budget import INTERACTIVE
from integration.sqlite.errors import STORAGE_FAILURES
from integration.sqlite.transaction import Transaction
from integration.sync.writing import write_log
from integration.sync.writing.deletion_poller import poll_now

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 * 1024 * 1024
"""A voicemail announcement travels as base64 in its body."""

WRITE_TIMEOUT_SECONDS = 60.0
"""Total for one write: click-to-call takes 15 seconds, /leadcalls may hold its answer for a minute."""

_UNSTORED_PATHS = ("/apitokens",)
"""Answers that hold a secret are not kept for a repeat."""


def write(request: FacadeRequest) -> Response:
    """One write-through. Raises ApiError: 400, 403, 409, 413, 422, 502, 504."""
    _check_allowed(request)
    check_origin(request)
    body = _read_body(request)
    idempotency_key = request.http_request.headers.get("Idempotency-Key")
    if idempotency_key is None:
        return pass_through.relay_response(request, _send(request, body))
    client_name, target = request.caller.name, f"{request.encoded_path}?{request.query_string}"
    first_request = write_log.claim_key(
        request.context.app_db, client_name, idempotency_key, request.method, target, body
    )
    if first_request is not None:
        return _respond_repeat(first_request)
    try:
        response = pass_through.relay_response(request, _send(request, body))
    except ApiError as api_error:
        response = api_error.to_response()
    except STORAGE_FAILURES:
        # No request was sent, so the key can be reused.
        write_log.release_key(request.context.app_db, client_name, idempotency_key)
        raise
    stored_body = b"" if request.path.startswith(_UNSTORED_PATHS) else response.get_data()
    content_type = response.content_type or JSON
    try:
        write_log.store_response(
            request.context.app_db,
            client_name,
            idempotency_key,
            response.status_code,
            content_type,
            stored_body,
        )
    except STORAGE_FAILURES as error:
        log.warning("a repeat of %s %s will get no answer: %s", request.method, request.path, error)
    return response


def _check_allowed(request: FacadeRequest) -> None:
    settings = request.context.settings.facade
    if not settings.writes:
        raise ApiError(403, "Writes are switched off here (facade.writes).")
    if is_destructive(request) and not settings.destructive:
        raise ApiError(
            403, "Deleting a whole collection or the account is switched off (facade.destructive)."
        )


def is_destructive(request: FacadeRequest) -> bool:
    """`DELETE` of a whole collection or of the account, known to the specification or not."""
    if request.operation is not None:
        return EXPOSURE[request.operation.name] is Exposure.DESTRUCTIVE
    collection = request.path.strip("/")
    return request.method == "DELETE" and ("/" not in collection or collection in COLLECTIONS)


def _read_body(request: FacadeRequest) -> bytes | None:
    """The body, which must be JSON where there is one, and say so. Raises ApiError 413, 400."""
    http_request = request.http_request
    http_request.max_content_length = MAX_BODY_BYTES
    body = http_request.get_data(cache=False)
    if body:
        check_content_type(http_request)
    if request.caller.user_scope is not None:
        return _restrict_to_own_user(body, request.caller.user_scope)
    if not body:
        return None
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The body is not valid JSON: {error}") from None
    return body


def check_origin(request: FacadeRequest) -> None:
    """A browser that was asked for Basic credentials here once sends them along with whatever another site's
    page makes it post. What such a page can't send without a preflight – any other method, a body that is
    JSON by its name, X-Auth-Token – is for CORS to allow. Raises ApiError."""
    http_request, settings = request.http_request, request.context.settings
    if http_request.method != "POST" or http_request.is_json or "Authorization" not in http_request.headers:
        return
    origin = foreign_origin(http_request, settings.server.public_url)
    # Not "*": it means pages that bring credentials of their own.
    if origin is not None and origin not in settings.facade.cors_origins:
        raise ApiError(403, f"This request was sent by {origin}; facade.cors_origins does not name it.")


def check_content_type(request: Request) -> None:
    """Raises ApiError 400 for a body that says it is no JSON. What curl and PHP claim without being asked is
    believed to be JSON; which fields a body must have is the platform's to say, and passed on."""
    content_type = request.mimetype
    if content_type in ("", "application/json", "application/x-www-form-urlencoded") or content_type.endswith(
        "+json"
    ):
        return
    error_entry = {
        "code": "SF0010",
        "field": "Content-Type",
        "message": f"{content_type} is not application/json.",
    }
    raise ApiError(
        400, f"Content-Type: the body must be application/json, not {content_type}.", errors=[error_entry]
    )


def _restrict_to_own_user(body: bytes, user_id: int) -> bytes:
    """A narrowed key's calls come from its own user (interface.md §6 Identity)."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The body is not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ApiError(400, "The body must be a JSON object.")
    if parsed.get("from") not in (None, user_id, str(user_id)):
        raise ApiError(403, "This key's calls come from its own user.")
    return orjson.dumps({**parsed, "from": str(user_id)})


def _respond_repeat(first_request: write_log.EarlierRequest) -> Response:
    if not first_request.is_same_request:
        raise ApiError(422, "This Idempotency-Key was used for another request.")
    if first_request.status is None:
        raise ApiError(409, "The first request with this Idempotency-Key has no answer yet.")
    return build_response(
        first_request.body or b"", first_request.status, content_type=first_request.content_type or JSON
    )


def _send(request: FacadeRequest, body: bytes | None) -> PlatformResponse:
    """Journal, platform, mirror. Raises ApiError 502 or 504 for no answer: it may have been done;
    StorageError only before the platform was asked."""
    context = request.context
    entry_id = write_log.begin(
        context.app_db,
        who=request.caller.name,
        address=request.http_request.remote_addr or "",
        method=request.method,
        path=request.path if not request.path.startswith("/apitokens/") else "/apitokens/***",
        body=body,
    )
    requested_at, started_at = clock.utc_text(), clock.monotonic()
    try:
        platform_response = context.platform.send(
            request.method,
            request.encoded_path,
            body,
            params=request.query_string or None,
            priority=INTERACTIVE,
            credentials=request.caller.credentials,
            check=False,
            seconds=max(WRITE_TIMEOUT_SECONDS, context.settings.platform.timeout),
        )
    except PlatformError as error:
        _finish_log_entry(request, entry_id, None, f"no answer: {error}", clock.monotonic() - started_at)
        raise to_gateway_error(error) from error
    _finish_log_entry(
        request,
        entry_id,
        platform_response.status,
        _describe_result(platform_response),
        clock.monotonic() - started_at,
    )
    if platform_response.status < 400:
        try:
            _update_mirror(request, platform_response, body, requested_at)
        except (*STORAGE_FAILURES, PlatformError) as error:
            # Done is done: the caller must not repeat it. The next walk brings it into the mirror.
            log.warning("%s %s was done but not noted in the mirror: %s", request.method, request.path, error)
        except Exception:
            # Nor must they because of a mistake of ours.
            log.exception("%s %s was done but not noted in the mirror", request.method, request.path)
    return platform_response


def _finish_log_entry(
    request: FacadeRequest, entry_id: int, status: int | None, result: str, seconds: float
) -> None:
    """What was done is answered, noted or not: a client that is told 503 would do it again."""
    try:
        write_log.finish(request.context.app_db, entry_id, status=status, result=result, seconds=seconds)
    except STORAGE_FAILURES as error:
        log.warning("the result of %s %s is not in the journal: %s", request.method, request.path, error)


def _describe_result(platform_response: PlatformResponse) -> str:
    return (
        "done"
        if platform_response.status < 400
        else "refused"
        if platform_response.status < 500
        else "failed"
    )


def _update_mirror(
    request: FacadeRequest, platform_response: PlatformResponse, body: bytes | None, requested_at: str
) -> None:
    """Bring the mirror to what the write made."""
    target = _find_resource(request)
    if target is None:
        return
    if target.key is None:
        request.context.mirror_db.write(lambda tx: collection_state.mark_incomplete(tx, target.collection))
        return
    if request.method == "DELETE":
        _record_deletion(request, target, platform_response, requested_at)
        return
    record = pass_through.parse_record(platform_response.body)
    if record is not None and _has_field_selection(request):
        record = request.context.platform.item(
            f"/{target.collection}/{get_usable_key(target, record)}", priority=INTERACTIVE
        )
    if record is not None:
        write_results.store_written(request.context.mirror_db, target, record, requested_at)
        return
    _refresh_records(request, target, _parse_ids(body), requested_at)


def _find_resource(request: FacadeRequest) -> Resource | None:
    """The mirrored collection that a write changes, by its path: the collection's or a record's. What lies
    below a record is another thing with other ids."""
    if request.path == "/leadcalls":
        return get_resource("calls")
    segments = request.path.strip("/").split("/")
    for length in (2, 1):
        if "/".join(segments[:length]) in COLLECTIONS:
            candidate = get_resource("/".join(segments[:length]))
            is_mirrored = candidate.is_listed and candidate.table != "me"
            return candidate if is_mirrored and len(segments) <= length + 1 else None
    return None


def _record_deletion(
    request: FacadeRequest, target: Resource, platform_response: PlatformResponse, requested_at: str
) -> None:
    """204 is done. 202 was only accepted: `poll_now` finds out when, and looks now."""
    key_list = request.path.strip("/").removeprefix(target.collection).strip("/")
    keys = (
        [int(part) for part in key_list.split(",") if part.isdigit() and int(part) < 2**63]
        if key_list
        else None
    )

    def work(tx: Transaction) -> None:
        if platform_response.status == 202:
            pending_deletions.add(tx, target.collection, keys, requested_at)
        elif keys is None:
            single_record.mark_all_missing(tx, target, clock.utc_text())
        elif target.table == "calls":
            delete_rows(tx, target, keys)
        else:
            single_record.mark_missing(tx, target, keys, clock.utc_text())

    request.context.mirror_db.write(work)
    if platform_response.status == 202:
        poll_now(request.context, target.collection)


def _refresh_records(
    request: FacadeRequest, target: Resource, keys: Sequence[int], requested_at: str
) -> None:
    """What a bulk PATCH changed, read again: its answer shows no records."""
    if not keys:
        if request.method == "POST":
            request.context.mirror_db.write(
                lambda tx: collection_state.mark_incomplete(tx, target.collection)
            )
        return
    condition = [{"property": target.key, "operator": "in", "value": list(keys)}]
    platform_response = request.context.platform.get(
        f"/{target.collection}",
        {"filter": orjson.dumps(condition).decode(), "limit": len(keys)},
        priority=INTERACTIVE,
        credentials=request.caller.credentials,
    )
    fetched_records = read_page(platform_response.body).records
    request.context.mirror_db.write(
        lambda tx: upsert(tx, target, fetched_records, source="write", requested_at=requested_at)
    )


def _parse_ids(body: bytes | None) -> list[int]:
    parsed: Any = orjson.loads(body) if body else None
    entries = parsed if isinstance(parsed, list) else []
    return [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), int)]


def _has_field_selection(request: FacadeRequest) -> bool:
    return any(name == "include" or name.startswith("fields") for name in request.args)
