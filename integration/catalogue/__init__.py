"""Declarations of the platform's resources, operations and webhooks.

The tables, the facade, the client and the simulator use these declarations. Source: the specification, or
`docs/platform.md` where the platform departs from the specification.
"""

from __future__ import annotations

import difflib
import re

from integration.catalogue import (
    account_settings,
    authentication,
    callmeback,
    calls,
    customer,
    history,
    registration,
    reports,
    storage,
)
from integration.catalogue.shapes import Method, Operation, Resource
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS

_MODULES = (
    authentication,
    calls,
    storage,
    account_settings,
    customer,
    history,
    callmeback,
    reports,
    registration,
)

RESOURCES: tuple[Resource, ...] = tuple(row for module in _MODULES for row in module.RESOURCES)
OPERATIONS: tuple[Operation, ...] = tuple(row for module in _MODULES for row in module.OPERATIONS)
COLLECTIONS: frozenset[str] = frozenset(row.collection for row in RESOURCES)

HISTORY: frozenset[str] = frozenset(row.collection for row in RESOURCES if row.history)
"""Paths of collections whose records report events (`Resource.history`)."""

TRANSCRIPT_FIELDS: dict[str, tuple[str, ...]] = {
    row.table: tuple(field.name for field in row.fields if field.meaning == "text")
    for row in RESOURCES
    if row.collection in ("monitors", "voicemessages")
}
"""Table → fields with transcripts and summaries of recordings and voicemail."""

# An id has at most 20 digits. Python refuses to convert text of more than 4,300 digits to a number.
_PARAMETER_PATTERNS = {
    "id": r"[0-9]{1,20}",
    "ids": r"[0-9]{1,20}(?:,[0-9]{1,20})*",
    "e164": r"\+?[0-9]{1,20}",
}
_TEXT_PATTERN = r"[^/]+"
_Route = tuple[re.Pattern[str], dict[str, Operation]]
_METHODS: tuple[Method, ...] = ("GET", "POST", "PATCH", "DELETE")


class UnknownResource(KeyError):
    """Name without a resource. The message proposes similar names."""

    def __str__(self) -> str:
        return str(self.args[0])


def _compile_path(path: str) -> re.Pattern[str]:
    segments = re.split(r"\{([a-z0-9]+)\}", path)
    return re.compile(
        "".join(
            f"(?P<{segment}>{_PARAMETER_PATTERNS.get(segment, _TEXT_PATTERN)})"
            if index % 2
            else re.escape(segment)
            for index, segment in enumerate(segments)
        )
    )


def _index_routes(operations: tuple[Operation, ...]) -> dict[int, list[_Route]]:
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation
    routes: dict[int, list[_Route]] = {}
    # Literal segments come before parameters: '{' sorts after every character of a literal.
    for path in sorted(paths, key=lambda path: path.split("/")):
        routes.setdefault(path.count("/"), []).append((_compile_path(path), paths[path]))
    return routes


_BY_NAME = {name: row for row in RESOURCES for name in (row.name, row.collection, row.table)}
_ROUTES = _index_routes(OPERATIONS)
_UNDOCUMENTED_ROUTES = _index_routes(UNDOCUMENTED_OPERATIONS)


def get_resource(name: str) -> Resource:
    """Return a resource by its name, collection path or table.

    Examples: 'cdr', 'sms/cannedresponses', 'sms_cannedresponses'. Raises UnknownResource, a KeyError, which
    proposes similar names.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        similar_names = difflib.get_close_matches(name, _BY_NAME, n=3)
        hint = (
            f"did you mean {', '.join(similar_names)}?"
            if similar_names
            else "use the name of a collection, such as cdrs or sms"
        )
        raise UnknownResource(f"no resource has the name {name!r}; {hint}") from None


def find_undocumented(method: str, path: str) -> Operation | None:
    """Find an operation that only docs/platform.md names, like `match`."""
    operation_match = _find_route(_UNDOCUMENTED_ROUTES, method, path)
    return operation_match[0] if operation_match else None


def match(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Find the operation of a request, and its path parameters as text.

    `path` is relative to the base path ('/cdrs/7.trace'), decoded and without a query. Return None if the
    path is unknown or does not accept the method. Literal segments win over parameters. {id} matches digits,
    {ids} comma-separated digits, {e164} digits with or without a plus.
    """
    return _find_route(_ROUTES, method, path)


def _find_route(
    routes: dict[int, list[_Route]], method: str, path: str
) -> tuple[Operation, dict[str, str]] | None:
    for pattern, operation_by_method in routes.get(path.count("/"), ()):
        path_match = pattern.fullmatch(path)
        if path_match and method in operation_by_method:
            return operation_by_method[method], path_match.groupdict()
    return None


def list_methods(path: str) -> tuple[Method, ...]:
    """List the methods of a path.

    The order is GET, POST, PATCH, DELETE. The result is empty for an unknown path. HEAD and OPTIONS are never
    listed.
    """
    accepted_methods = {
        method
        for pattern, operation_by_method in _ROUTES.get(path.count("/"), ())
        if pattern.fullmatch(path)
        for method in operation_by_method
    }
    return tuple(method for method in _METHODS if method in accepted_methods)
