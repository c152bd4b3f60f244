"""Policy of local keys: rights, and accepted paths, parameters and body fields.

What is passed through is sent with the rights of the configured account. An unknown spelling could reach data
that the key must not see, so only known names pass. The platform checks the rights of its own credentials.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from integration.access.authenticator import check_collection, check_right
from integration.access.keys import Key
from integration.catalogue import find_undocumented, get_resource
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.rows import COLLECTION_QUERY
from integration.catalogue.shapes import Field, Operation
from integration.core.api_responses import INVALID_VALUE_CODE, ApiError
from integration.core.errors import QueryError
from integration.facade.request import FacadeRequest, fold_name
from integration.facade.subcollections import SUBCOLLECTIONS, RelatedRecords

_SEGMENT = re.compile(r"[A-Za-z0-9_.,+@-]+")
"""Characters of a decoded path segment in the specification's paths, numbers and e-mail addresses."""
_TOKEN_PATH = "apitoken"
"""Folded beginning of the path of the platform's API tokens, which are closed to local keys."""
_CONTENT_SUFFIXES = ("mp3", "wav", "ogg", "trace", "pcap")
"""Suffixes of paths that require the right `recordings`."""
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


def check_request(request: FacadeRequest) -> None:
    """Check that a local key may send a request, with these parameters.

    Raises ApiError 400 or 403, or QueryError for a filter or sort by a secret field.
    """
    key = request.caller.key
    if key is None:
        return
    if request.collections != ("ping",) and request.path != "/logout":
        _check_rights(request, key)
    if request.is_limited:
        _check_query(request)


def _check_rights(request: FacadeRequest, key: Key) -> None:
    collections = request.collections
    if request.method != "GET" and key.scope != "write":
        raise ApiError(
            403, f"The key {key.name!r} has the scope read. Writes need a key with the scope write."
        )
    for collection in (*collections, *_list_includes(request)):
        check_collection(key, collection)
    if _returns_content(request.path):
        check_right(key, "recordings")
    _check_properties(request)
    if key.platform_user_id is not None:
        _check_user_scope(request, collections)


def _returns_content(path: str) -> bool:
    """Return whether a path has audio, traces or packet captures.

    Case is ignored, because the platform may accept other spellings.
    """
    name = path.casefold().rstrip("/").rpartition("/")[2]
    return name == "trace" or name.rpartition(".")[2] in _CONTENT_SUFFIXES


def _list_includes(request: FacadeRequest) -> list[str]:
    """Return the relations requested by `include`."""
    return [
        name for text in request.args.getlist("include") for part in text.split(",") if (name := part.strip())
    ]


def _check_properties(request: FacadeRequest) -> None:
    """Raise QueryError for a filter or sort by a secret field.

    With such filters a client could determine the value of a field that is masked for local keys.
    """
    names = [
        name.lstrip("-") for parameter in ("sort", "group_by") for name in request.args.getlist(parameter)
    ]
    for text in request.args.getlist("filter"):
        try:
            entries = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entries, list):
            names += [str(entry.get("property")) for entry in entries if isinstance(entry, dict)]
    for name in names:
        if is_secret(name):
            raise QueryError(f"Local keys cannot filter, sort or group by {name!r}.")


def _check_user_scope(request: FacadeRequest, collections: tuple[str, ...]) -> None:
    """Raise ApiError 403 for a request that can return records of other users."""
    operation, visibility = request.operation, request.caller.visibility
    is_own = (
        (request.method == "POST" and request.path == "/calls")
        or _is_own_subcollection(request)
        or (request.method == "GET" and request.path == f"/users/{visibility.user_scope}/cdrs.csv")
    )
    is_restricted = (
        request.method == "GET"
        and operation is not None
        and operation.resource is not None
        and operation.response_kind in ("collection", "item", "file")
        and collections == (get_resource(operation.resource).collection,)
        and collections[0] in visibility.collections
        and not request.path.endswith((".trace", ".pcap"))
        and "include" not in request.args
    )
    if not is_own and not is_restricted:
        raise ApiError(403, "This key sees only its own user's records.")


def _is_own_subcollection(request: FacadeRequest) -> bool:
    """Return whether the path shows records of the key's own user."""
    subcollection, visibility = request.subcollection, request.caller.visibility
    return (
        isinstance(subcollection, RelatedRecords)
        and subcollection.parent == "users"
        and subcollection.target in visibility.collections
        and request.path_parameters["id"] == str(visibility.user_scope)
        and "include" not in request.args
    )


def list_query_names(operation: Operation) -> tuple[str, ...]:
    """Return the names of the query parameters of an operation.

    The OpenAPI document and the limits of keys use them.
    """
    fields = list(operation.query)
    if operation.response_kind == "dictionary" or operation.name in SUBCOLLECTIONS:
        fields += COLLECTION_QUERY
    names = [field.name for field in fields]
    if operation.can_include:
        for relation in get_resource(operation.resource or "").relations:
            if relation.is_includable:
                names += ["include", f"fields[{relation.name}]"]
    return tuple(dict.fromkeys(names))


def _check_query(request: FacadeRequest) -> None:
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
            raise build_body_error("The body must be a JSON object, or a list of objects.")
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
    return build_body_error(
        f"Keys limited to a user or to collections cannot send the {kind} {shown_name!r}, because the API "
        "does not document it here. Remove it, or use a key without limits.",
        shown_name,
    )


def build_body_error(reason: str, field: str = "") -> ApiError:
    """Return 400 in the platform's words, with `reason` in `errors`."""
    error_entry = {"code": INVALID_VALUE_CODE, "field": field, "message": reason}
    return ApiError(400, "Validation error", errors=[error_entry])
