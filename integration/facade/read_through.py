"""Reads of what the mirror lacks: requested from the platform, stored, and relayed.

Every GET that needs records of the platform uses this module. Its response is relayed with the client's
rights (facade/pass_through.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flask import Response

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import ApiError, build_response
from integration.core.errors import PlatformBroken, StorageError
from integration.core.json_records import JsonRecord, read_item, read_page
from integration.core.timestamps import parse_seconds
from integration.facade import links, pass_through
from integration.facade.not_found_cache import CacheKey
from integration.facade.request import FacadeRequest
from integration.facade.subcollections import StoredBelow
from integration.mirror.calls import live_table
from integration.mirror.records import response_cache, subresources
from integration.mirror.records.masking import mask_json
from integration.mirror.records.upsert import store_item, upsert
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

FRESH_SECONDS = 86400.0
"""Seconds for which a cached dictionary is served without a request."""


def read_if_lacking(
    build: Callable[[bool], Response | None], read_response: Callable[[], Response]
) -> Response:
    """Return the response of the mirror, or that of the platform if the mirror lacks data.

    `build(allow_partial)` builds the response of the mirror, or returns None. Without a response of the
    platform the part that the mirror has is returned. Raises ApiError 502 or 504 if there is none.
    """
    if (response := build(False)) is not None:
        return response
    try:
        return read_response()
    except ApiError:
        if (response := build(True)) is None:
            raise
        return response


def read(request: FacadeRequest, resource: Resource) -> Response:
    """Read records of `resource`, a mirrored collection, and store them with source `read`.

    A record gets links if the platform sent none. Raises ApiError 502 or 504 without a response.
    """
    requested_at = clock.utc_text()
    platform_response = pass_through.fetch_or_raise(request)
    is_plain = not any(
        # These parameters change records.
        name in ("include", "group_by") or name.startswith("fields")
        for name in request.args
    )
    if platform_response.status == 200 and request.caller.can_read_mirror and is_plain:
        store(request, resource, platform_response.body, requested_at)
    response = pass_through.relay_response(request, platform_response)
    return links.complete_links(request, resource, response) if _is_single(request) else response


def read_unless_missing(
    request: FacadeRequest,
    cache_key: CacheKey,
    not_found_error: ApiError,
    read_response: Callable[[], Response],
) -> Response:
    """Return `read_response()`, whose 404 is cached.

    Concurrent requests of the same record wait for the first. Raises `not_found_error` for a cached 404.
    """
    cache = request.not_found_cache
    with cache.lock_key(cache_key):
        if cache.is_missing(cache_key):
            raise not_found_error
        response = read_response()
        if response.status_code == 404:
            cache.add(cache_key)
    return response


def read_uncollected(request: FacadeRequest) -> Response:
    """Read a resource that is not mirrored, such as a trace.

    The response is cached for outages of the platform. Raises ApiError 502 or 504 if there is neither.
    """
    target = (
        f"{request.encoded_path}?{request.query_string}" if request.query_string else request.encoded_path
    )
    # An old list of live calls would be wrong.
    is_live = request.path.startswith("/calls/") or request.path.endswith("/calls")
    is_cacheable = request.caller.visibility.user_scope is None and not is_live
    with request.context.mirror_db.read() as connection:
        cached = response_cache.find(connection, target) if is_cacheable else None
    if (
        cached is not None
        and request.path.endswith("/dictionaries")
        and not request.requires_fresh
        and _compute_age(cached) < FRESH_SECONDS
    ):
        return _respond_cached(request, cached)
    requested_at = clock.utc_text()
    try:
        platform_response = pass_through.fetch_or_raise(request)
    except ApiError:
        if cached is None or request.requires_fresh:
            raise
        return _respond_cached(request, cached)
    if is_cacheable and platform_response.status == 200:
        content_type = platform_response.headers.get("Content-Type", "application/json")
        body = platform_response.body
        _write(request, lambda tx: response_cache.store(tx, target, body, content_type, requested_at))
    return pass_through.relay_response(request, platform_response)


def read_below(request: FacadeRequest, subcollection: StoredBelow) -> Response:
    """Read the records that are stored with their parent, and store a complete response."""
    requested_at = clock.utc_text()
    platform_response = pass_through.fetch_or_raise(request)
    if platform_response.status == 200 and not request.args:
        try:
            doc = subresources.extract_doc(platform_response.body)
        except PlatformBroken:
            doc = None
        if doc is not None:
            parent, key, name = subcollection.parent, int(request.path_parameters["id"]), subcollection.name
            _write(request, lambda tx: subresources.store(tx, parent, key, name, doc, requested_at))
    return pass_through.relay_response(request, platform_response)


def store(request: FacadeRequest, resource: Resource, body: bytes, requested_at: str) -> None:
    """Store the records of a response with source `read`.

    An unreadable response is ignored.
    """
    is_single = _is_single(request)
    try:
        records: list[JsonRecord] = [read_item(body)] if is_single else list(read_page(body).records)
    except PlatformBroken:
        return
    if resource.key is None:
        return

    def work(tx: Transaction) -> None:
        if resource.table == live_table.COLLECTION:
            sent_at = parse_seconds(requested_at) or clock.unix()
            call_store = request.context.call_store
            live_table.store_read(tx, call_store, records, source="read", requested_at=sent_at)
        elif is_single:
            store_item(tx, resource, records[0], source="read", requested_at=requested_at)
        else:
            upsert(tx, resource, records, source="read", requested_at=requested_at)

    _write(request, work)


def _is_single(request: FacadeRequest) -> bool:
    return request.operation is not None and request.operation.response_kind == "item"


def _write(request: FacadeRequest, work: Callable[[Transaction], None]) -> None:
    try:
        request.context.mirror_db.write(work)
    except StorageError as error:
        # The response is valid; the next sync stores the records.
        log.warning("cannot store the response to %s: %s", request.path, error)


def _compute_age(cached: response_cache.CachedResponse) -> float:
    moment = clock.parse_utc(cached.requested_at)
    return (clock.now() - moment).total_seconds() if moment else FRESH_SECONDS


def _respond_cached(request: FacadeRequest, cached: response_cache.CachedResponse) -> Response:
    body = (
        mask_json(cached.body)
        if request.caller.is_local and "json" in cached.content_type.lower()
        else cached.body
    )
    # One response is no complete copy: the platform may have more by now.
    headers = {"X-Mirror-Age": str(max(0, int(_compute_age(cached)))), "X-Mirror-Complete": "false"}
    return build_response(body, content_type=cached.content_type, headers=headers)
