"""Responses of the facade and of file downloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flask
import orjson
from flask import Response

from integration.core.errors import (
    FilterError,
    PlatformError,
    QueryError,
    SwitchroomError,
    error_body,
    is_timeout,
)

JSON = "application/json"

INVALID_VALUE_CODE = "SF0010"
"""Code of the platform for an invalid value (docs/platform.md#5-errors)."""


class ApiError(SwitchroomError):
    """End a request with an error response of the facade."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Any] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def to_response(self) -> Response:
        return build_error_response(self.status, str(self), errors=self.errors, headers=self.headers)


def build_response(
    body: bytes | Sequence[bytes],
    status: int = 200,
    *,
    content_type: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return `body`, or its parts, with Content-Length.

    Real clients read only once (docs/platform.md#16-clients), so `web/request_limits` joins the parts of a
    body up to 256 KiB. Those of a longer one are not joined: a copy of 3 MB takes 2 ms.
    """
    parts = [body] if isinstance(body, bytes) else body
    response = Response(parts, status=status, content_type=content_type)
    response.content_length = sum(map(len, parts))
    for name, value in (headers or {}).items():
        response.headers[name] = value
    return response


def build_error_response(
    status: int, message: str, *, errors: Sequence[Any] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as `{message, errors: []}` (specification, Response envelopes)."""
    return build_response(orjson.dumps(error_body(message, errors)), status, headers=headers)


def build_query_error_response(error: QueryError) -> Response:
    """Return 400 in the platform's words.

    The entry of `errors` has the reason, in the platform's form (docs/platform.md#5-errors).
    """
    message = "Filtration error" if isinstance(error, FilterError) else "Validation error"
    entry = {"code": INVALID_VALUE_CODE, "field": error.field, "message": str(error)}
    return build_error_response(400, message, errors=[entry])


def to_gateway_error(error: PlatformError) -> ApiError:
    """Return the ApiError for a failed request to the platform.

    Status 504 for a timeout, otherwise 502.
    """
    return build_gateway_error(str(error), is_timeout(error))


def build_gateway_error(problem: str, has_timed_out: bool) -> ApiError:
    if has_timed_out:
        return ApiError(504, f"The platform did not respond in time: {problem}")
    return ApiError(502, f"The platform returned no usable response: {problem}")


def send_file(path: Path, **options: Any) -> Response:
    """Send a file.

    `flask.send_file` handles Range, If-Range and the conditional headers.
    """
    extend_suffix_range(flask.request, path.stat().st_size)
    return flask.send_file(path, conditional=True, **options)


def extend_suffix_range(request: flask.Request, size: int) -> None:
    """Extend a range of more bytes than the file has.

    RFC 9110 §14.1.2 requires this; Werkzeug responds with 416. `size` is the file's, in bytes.
    """
    suffix = re.fullmatch(r"\s*bytes\s*=\s*-0*(\d+)\s*", request.headers.get("Range", ""), re.IGNORECASE)
    if suffix and (len(suffix[1]), suffix[1]) > (len(str(size)), str(size)):
        request.environ["HTTP_RANGE"] = "bytes=0-"
