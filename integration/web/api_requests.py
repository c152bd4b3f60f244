"""What the facade and the own API do alike: errors as JSON, and headers for caches and browsers."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence

from flask import Response, request
from werkzeug.exceptions import HTTPException

from integration.core.api_responses import (
    ApiError,
    build_error_response,
    build_query_error_response,
    to_gateway_error,
)
from integration.core.errors import FilterError, PlatformError, QueryError, StorageError
from integration.sqlite.errors import DAMAGED_MESSAGE, is_damage
from integration.sync.writing.write_log import EarlierRequest

log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE")
QUERY_TIMEOUT_SECONDS = 2.0
"""CPU seconds after which a query is cancelled (promise S12)."""
UNEXPECTED_ERROR_MESSAGE = (
    "Switchroom failed on this request because of an internal error; the log of the server has the cause. "
    "Retry a read in a few seconds. Before you retry a write, check whether it was carried out."
)
_CREDENTIAL_HEADERS = ("Authorization", "X-Auth-Token")
_REQUESTED_HEADERS = "Access-Control-Request-Headers"
_EXPOSED_HEADERS = (
    "X-Mirror-Age, X-Mirror-Complete, X-Export-Rows, Content-Range, Accept-Ranges, ETag, Retry-After"
)


def respond(view: Callable[[], Response]) -> Response:
    """Return the response of `view`. Every error has the JSON form of `build_error_response`."""
    try:
        return view()
    except ApiError as api_error:
        return api_error.to_response()
    except QueryError as error:
        return build_query_error_response(error)
    except HTTPException as error:
        return build_error_response(
            error.code or 500, error.description or error.name, headers=_select_error_headers(error)
        )
    except PlatformError as error:
        return to_gateway_error(error).to_response()
    except StorageError as error:
        return build_error_response(503, str(error), headers={"Retry-After": "5"})
    except Exception as error:
        if isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted":
            return build_query_error_response(
                FilterError(
                    f"The query needs more than {QUERY_TIMEOUT_SECONDS:g} s of CPU time and was"
                    " cancelled. Filter by an indexed property."
                )
            )
        if is_damage(error):
            log.error("%s %s: %s", request.method, request.path, error)
            return build_error_response(503, DAMAGED_MESSAGE, headers={"Retry-After": "60"})
        log.exception("%s %s failed", request.method, request.path)
        return build_error_response(500, UNEXPECTED_ERROR_MESSAGE)


def check_repeat(earlier: EarlierRequest) -> int:
    """Return the status of an earlier request, or raise ApiError 422 or 409 if it cannot be repeated."""
    if not earlier.is_same_request:
        raise ApiError(422, "This Idempotency-Key was used for another request. Use a new key.")
    if earlier.status is None:
        raise ApiError(
            409, "The first request with this Idempotency-Key has no response yet. Retry it later."
        )
    return earlier.status


def add_shared_headers(response: Response, cors_origins: Sequence[str]) -> Response:
    """Add Cache-Control, Vary, and the CORS headers for `cors_origins` (`facade.cors_origins`).

    Caches must not store a response without a Cache-Control of its own.
    """
    response.headers.setdefault("Cache-Control", "no-store")
    response.vary.update(_CREDENTIAL_HEADERS)
    if not cors_origins:
        return response
    response.vary.add("Origin")
    origin = request.headers.get("Origin")
    if origin is None or not (origin in cors_origins or "*" in cors_origins):
        return response
    response.headers["Access-Control-Allow-Origin"] = "*" if "*" in cors_origins else origin
    response.headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = ", ".join(METHODS)
        # All requested headers: libraries add some, such as X-Requested-With. None changes rights.
        response.vary.add(_REQUESTED_HEADERS)
        if requested := request.headers.get(_REQUESTED_HEADERS):
            response.headers["Access-Control-Allow-Headers"] = requested
        response.headers["Access-Control-Max-Age"] = "600"
    return response


def _select_error_headers(error: HTTPException) -> dict[str, str]:
    """Return the headers of an error.

    Examples: Content-Range of a 416, Allow of a 405.
    """
    return {name: value for name, value in error.get_headers() if name != "Content-Type"}
