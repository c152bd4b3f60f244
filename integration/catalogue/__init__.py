"""What the platform offers, declared once: every resource, operation and webhook, as data.

Tables, facade, client and simulator are driven by it. Source: the specification; `observed.md` where the
platform departs from it.
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
from integration.catalogue.shapes import Method, Module, Operation, Resource

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

# An id longer than this is no id, and a number Python would not even read.
_PATTERNS = {
    "id": r"[0-9]{1,20}",
    "ids": r"[0-9]{1,20}(?:,[0-9]{1,20})*",
    "e164": r"\+?[0-9]{1,20}",
}
_TEXT = r"[^/]+"
_Route = tuple[re.Pattern[str], dict[str, Operation]]
_METHODS: tuple[Method, ...] = ("GET", "POST", "PATCH", "DELETE")


class UnknownResource(KeyError):
    """No resource has that name; the message proposes the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


def _names() -> dict[str, Resource]:
    names: dict[str, Resource] = {}
    for row in RESOURCES:
        for name in {row.name, row.collection, row.table}:
            if names.setdefault(name, row) is not row:
                raise ValueError(f"{name!r} names two resources: {names[name].name}, {row.name}")
    return names


def _expression(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z0-9]+)\}", path)
    return re.compile(
        "".join(
            f"(?P<{part}>{_PATTERNS.get(part, _TEXT)})" if at % 2 else re.escape(part)
            for at, part in enumerate(parts)
        )
    )


def _routes() -> dict[int, list[_Route]]:
    paths: dict[str, dict[str, Operation]] = {}
    for row in OPERATIONS:
        if paths.setdefault(row.path, {}).setdefault(row.method, row) is not row:
            raise ValueError(f"{row.name} stands twice")
    routes: dict[int, list[_Route]] = {}
    # Literal segments before parameters: '{' sorts behind every character of a literal.
    for path in sorted(paths, key=lambda path: path.split("/")):
        routes.setdefault(path.count("/"), []).append((_expression(path), paths[path]))
    return routes


_BY_NAME = _names()
_ROUTES = _routes()


def resource(name: str) -> Resource:
    """The resource by its name ('cdr'), its collection's path ('sms/cannedresponses') or its table
    ('sms_cannedresponses'). Raises UnknownResource, a KeyError, proposing the nearest."""
    try:
        return _BY_NAME[name]
    except KeyError:
        near = difflib.get_close_matches(name, _BY_NAME, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "collections are called cdrs, sms …"
        raise UnknownResource(f"no resource is called {name!r}; {hint}") from None


def operations(module: Module) -> tuple[Operation, ...]:
    """The operations of one module, in the specification's order."""
    return tuple(row for row in OPERATIONS if row.module == module)


def match(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """The operation at a path below the base ('/cdrs/7.trace'), decoded and without its query, and its
    parameters as text. None where the path is unknown or does not take the method. Literal segments win over
    parameters; ids are digits, {ids} a comma list of them, {e164} digits with or without plus."""
    for expression, rows in _ROUTES.get(path.count("/"), ()):
        found = expression.fullmatch(path)
        if found and method in rows:
            return rows[method], found.groupdict()
    return None


def methods_for(path: str) -> tuple[Method, ...]:
    """The methods a path takes, in the order GET, POST, PATCH, DELETE; empty where it is unknown. HEAD and
    OPTIONS are HTTP's own and not listed."""
    taken = {
        method
        for expression, rows in _ROUTES.get(path.count("/"), ())
        if expression.fullmatch(path)
        for method in rows
    }
    return tuple(method for method in _METHODS if method in taken)
