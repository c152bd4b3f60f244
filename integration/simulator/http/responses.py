"""Envelopes and errors of the platform's responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from flask import Response

Record = dict[str, Any]


class ErrorResponse(Exception):
    """Exception that ends a request with an error response of the platform."""

    def __init__(self, status: int, message: str, errors: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.errors = list(errors)


def make_validation_error(*fields: str) -> ErrorResponse:
    """Create the platform's error for invalid body fields (docs/platform.md#5-errors)."""
    return ErrorResponse(
        400,
        "Validation error",
        [{"code": "SF0010", "field": name, "message": "This value is not valid."} for name in fields],
    )


def make_json_response(data: Any, status: int = 200) -> Response:
    """Create a JSON response in the platform's form.

    The text is compact, with `/` escaped as `\\/` (docs/platform.md#4-types).
    """
    body = orjson.dumps(data).replace(b"/", b"\\/")
    return Response(body, status, content_type="application/json")


def make_item_response(record: Record, status: int = 200, path: str | None = None) -> Response:
    return make_json_response({"data": record, "links": {"self": path} if path else {}}, status)


def make_list_response(records: Iterable[Record], total: int | None = None) -> Response:
    """Create the response of a collection.

    `total` defaults to the number of `records`.
    """
    record_list = list(records)
    return make_json_response({"data": record_list, "total": len(record_list) if total is None else total})


def make_accepted_response(message: str = "Accepted") -> Response:
    """Create a 202 response for work that finishes later.

    The documentation shows no body.
    """
    return make_json_response({"message": message}, 202)


def make_no_content_response() -> Response:
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response
