"""Read-through for resources that are not mirrored.

A response cache covers outages of the platform.
"""

from __future__ import annotations

import logging

from flask import Response

from integration.core import clock
from integration.core.api_responses import ApiError, build_response
from integration.core.errors import StorageError
from integration.facade import pass_through
from integration.facade.request import FacadeRequest
from integration.mirror.records import response_cache
from integration.mirror.records.masking import mask_json

log = logging.getLogger(__name__)

FRESH_SECONDS = 86400.0
"""Seconds for which a cached dictionary is served without a request."""


def read(request: FacadeRequest) -> Response:
    """Return the platform's response, or the cached one during an outage.

    Raises ApiError 502 or 504 if there is neither.
    """
    target = (
        f"{request.encoded_path}?{request.query_string}" if request.query_string else request.encoded_path
    )
    is_cacheable = request.caller.visibility.user_scope is None and not _is_live(request.path)
    with request.context.mirror_db.read() as connection:
        cached = response_cache.find(connection, target) if is_cacheable else None
    is_dictionary = request.path.endswith("/dictionaries")
    if (
        cached is not None
        and is_dictionary
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
        try:
            request.context.mirror_db.write(
                lambda tx: response_cache.store(
                    tx, target, platform_response.body, content_type, requested_at
                )
            )
        except StorageError as error:
            log.warning("cannot cache the response to %s: %s", request.path, error)
    return pass_through.relay_response(request, platform_response)


def _is_live(path: str) -> bool:
    """Return whether the path shows live calls.

    An old list of them would be wrong, so it is not cached.
    """
    return path.startswith("/calls/") or path.endswith("/calls")


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
