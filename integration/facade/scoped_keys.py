"""Limits of local keys: accepted paths, parameters and body fields.

What is passed through is sent with the rights of the configured account. An unknown spelling could reach data
that the key must not see, so only known names pass.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from integration.access.keys import Key
from integration.catalogue import find_undocumented, get_resource
from integration.catalogue.shapes import Field, Operation
from integration.core.api_responses import INVALID_VALUE_CODE, ApiError
from integration.facade.request import FacadeRequest, fold_name, list_query_names

_SEGMENT = re.compile(r"[A-Za-z0-9_.,+@-]+")
"""Characters of a decoded path segment in the specification's paths, numbers and e-mail addresses."""
_TOKEN_PATH = "apitoken"
"""Folded beginning of the path of the platform's API tokens, which are closed to local keys."""
MAX_NAME_LENGTH = 64
"""Characters of an unknown name in an error message."""


def check_path(path: str) -> None:
    """Raise ApiError 404 for a path that no operation can have.

    `path` is decoded. The platform could read other characters, such as `;` or an encoded slash, in its own
    way.
    """
    if path != "/" and not all(_SEGMENT.fullmatch(segment) for segment in path[1:].split("/")):
        raise ApiError(404, "There is no resource at this path.")


def check_tokens(request: FacadeRequest) -> None:
    """Raise ApiError 403 for requests that can return API tokens.

    Case, punctuation and slashes are ignored, because the platform may accept other spellings, also of
    `include`. Only the values of a filter are free text.
    """
    pairs = request.args.items(multi=True)
    relations = [f"{name} {value}" for name, value in pairs if name != "filter"]
    if any(_TOKEN_PATH in fold_name(text) for text in (request.path, *relations)):
        raise ApiError(403, "Local keys have no access to the platform's API tokens.")


def is_limited(key: Key) -> bool:
    """Return whether a key is limited to a user or to collections."""
    return key.platform_user_id is not None or key.collections is not None


def check_query(request: FacadeRequest) -> None:
    """Raise ApiError 400 for an undocumented query parameter of a limited key."""
    operation = _find_operation(request)
    known_names = list_query_names(operation) if operation else ()
    for name in request.args:
        if name not in known_names:
            raise _build_unknown_error("query parameter", name)


def check_body(request: FacadeRequest, body: bytes) -> None:
    """Raise ApiError 400 for an undocumented body field of a limited key.

    `body` is valid JSON. A list of objects is checked object by object.
    """
    operation = _find_operation(request)
    known_fields = {field.name: field for field in _list_body_fields(operation)}
    parsed = orjson.loads(body)
    if isinstance(parsed, list):
        known_fields.setdefault("id", Field("id", "integer"))
    for record in parsed if isinstance(parsed, list) else [parsed]:
        if not isinstance(record, dict):
            raise _build_error("", "The body must be a JSON object, or a list of objects.")
        for name, value in record.items():
            if name not in known_fields:
                raise _build_unknown_error("body field", name)
            _check_members(known_fields[name], value)


def _check_members(field: Field, value: Any) -> None:
    if not field.members or not isinstance(value, list | dict):
        return
    for name in value if isinstance(value, dict) else ():
        if name not in field.members:
            raise _build_unknown_error("body field", f"{field.name}.{name}")
    for member in value.values() if isinstance(value, dict) else value:
        _check_members(field, member)


def _list_body_fields(operation: Operation | None) -> tuple[Field, ...]:
    """Return the fields of the body.

    Those of the record if the specification shows none.
    """
    if operation is None or operation.body is None:
        return ()
    if operation.body or operation.resource is None:
        return operation.body
    return get_resource(operation.resource).fields


def _find_operation(request: FacadeRequest) -> Operation | None:
    return request.operation or find_undocumented(request.method, request.path)


def _build_unknown_error(kind: str, name: str) -> ApiError:
    shown_name = name[:MAX_NAME_LENGTH]
    return _build_error(
        shown_name,
        f"Keys limited to a user or to collections cannot send the {kind} {shown_name!r}, because the API "
        "does not document it here. Remove it, or use a key without limits.",
    )


def _build_error(name: str, reason: str) -> ApiError:
    error_entry = {"code": INVALID_VALUE_CODE, "field": name, "message": reason}
    return ApiError(400, "Validation error", errors=[error_entry])
