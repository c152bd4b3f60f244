"""Query parameters that an operation accepts, by the specification and docs/platform.md."""

from __future__ import annotations

from integration.catalogue import get_resource
from integration.catalogue.rows import COLLECTION_QUERY
from integration.catalogue.shapes import Operation
from integration.facade.subcollections import SUBCOLLECTIONS


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
