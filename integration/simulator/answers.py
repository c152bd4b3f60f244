"""The shapes the platform answers in, and who is being answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson
from flask import Response, g

from integration.simulator.login import Token
from integration.simulator.machine import Machine
from integration.simulator.people import Person

Record = dict[str, Any]


class Answered(Exception):
    """Ends a request with the platform's error shape."""

    def __init__(self, status: int, message: str, errors: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.errors = list(errors)


def invalid(*fields: str) -> Answered:
    """The platform's answer to bad fields of a body (observed.md §5)."""
    return Answered(
        400,
        "Validation error",
        [{"code": "SF0010", "field": name, "message": "This value is not valid."} for name in fields],
    )


def reply(data: Any, status: int = 200) -> Response:
    """JSON as the platform writes it: compact, `/` escaped as `\\/` (observed.md §4)."""
    body = orjson.dumps(data)
    if machine().escape_slashes:
        body = body.replace(b"/", b"\\/")
    return Response(body, status, content_type="application/json")


def item(record: Record, status: int = 200, path: str | None = None) -> Response:
    return reply({"data": record, "links": {"self": path} if path else {}}, status)


def no_content() -> Response:
    answer = Response(status=204)
    del answer.headers["Content-Type"]
    return answer


def machine() -> Machine:
    return cast(Machine, g.machine)


def caller() -> Person:
    return cast(Token, g.token).person
