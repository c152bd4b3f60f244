"""Answers of the facade: compact JSON, whole, in one write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from flask import Response

from integration.core.errors import PlatformError, SwitchroomError, error_body

JSON = "application/json"


class Stop(SwitchroomError):
    """Ends a request with an error answer of ours."""

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

    def response(self) -> Response:
        return failure(self.status, str(self), errors=self.errors, headers=self.headers)


def whole(
    body: bytes, status: int = 200, *, content_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """`body` in one piece with its Content-Length: real clients read once (observed.md §10.4)."""
    response = Response(body, status=status, content_type=content_type)
    for name, value in (headers or {}).items():
        response.headers[name] = value
    return response


def failure(
    status: int, message: str, *, errors: Sequence[Any] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """`{message, errors: []}`, the one shape of errors (specification, Response envelopes)."""
    return whole(orjson.dumps(error_body(message, errors)), status, headers=headers)


def no_answer(error: PlatformError) -> Stop:
    """The platform did not answer: 504 if it took too long, else 502 (interface.md §4)."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or type(cause).__name__.endswith("TimeoutError"):
            return Stop(504, f"The platform took too long to answer: {error}")
        cause = cause.__cause__
    return Stop(502, f"The platform gave no usable answer: {error}")
