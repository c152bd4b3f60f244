"""The shapes the platform answers in, and who is being answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import orjson
from flask import Response, g

from integration.simulator.records.authentication import Token
from integration.simulator.records.people import Person

if TYPE_CHECKING:
    from integration.simulator.context import Machine

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


def listing(records: Iterable[Record], total: int | None = None) -> Response:
    """A collection's envelope; `total` defaults to the number of `records`."""
    found = list(records)
    return reply({"data": found, "total": len(found) if total is None else total})


def accepted(message: str = "Accepted") -> Response:
    """202: it will be done. What the body says is not shown."""
    return reply({"message": message}, 202)


def no_content() -> Response:
    answer = Response(status=204)
    del answer.headers["Content-Type"]
    return answer


def machine() -> Machine:
    return cast("Machine", g.machine)


def caller() -> Person:
    return cast(Token, g.token).person
