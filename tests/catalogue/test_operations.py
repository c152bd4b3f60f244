"""Operations of the catalogue against the specification."""

from __future__ import annotations

import re

from integration import catalogue
from integration.catalogue.shapes import Operation
from tests.catalogue import specification
from tests.comparison.operations import DOCUMENTED_OPERATIONS

MODULES = {
    "Authentication": "authentication",
    "Calls": "calls",
    "Storage": "storage",
    "Settings": "settings",
    "Customer": "customer",
    "History": "history",
    "Call-me-back": "callmeback",
    "Reports": "reports",
    "Registration": "registration",
}
ROWS = specification.rows()
BY_NAME = {row.name: row for row in catalogue.OPERATIONS}


def find_operation(row: specification.Row) -> Operation:
    return BY_NAME[f"{row.method} {row.path}"]


def test_operations_have_the_order_of_the_specification():
    specified = [(MODULES[row.module], row.method, row.path) for row in ROWS]
    assert [(row.module, row.method, row.path) for row in catalogue.OPERATIONS] == specified


RESPONSE_KINDS = {
    "list": {"collection", "dictionary"},
    "item": {"item"},
    "message": {"message"},
    # Where the specification shows none, a collection of records has items by its common conventions.
    "free": {"unknown", "item"},
    "empty": {"none", "unknown"},
    "file": {"file"},
}
"""Kinds of responses in the catalogue by envelope in the specification."""


def specified_body(row: specification.Row) -> list[tuple[str, str]] | None:
    """Return the fields of a body.

    None: there is no body. []: the specification does not show its fields.
    """
    text = row.request
    if "body listed below" in text:
        return specification.body(specification.prose("Queue body"))
    if "all fields listed below" in text or "as POST /contacts" in text:
        return specification.body(specification.prose("Contact body"))
    if "same shapes as /usergroups" in text:
        return [("name", "string"), ("color", "string")] if row.method in ("POST", "PATCH") else None
    if "body as POST" in text:
        collection = row.path.rsplit("/", 1)[0]
        (post,) = [other for other in ROWS if other.method == "POST" and other.path == collection]
        return specified_body(post)
    if "body not shown" in text:
        return []
    if "body" in text or "array of objects" in text:
        return specification.body(re.sub(r"^bulk; ", "", text))
    return None


def test_each_operation_has_the_statuses_response_and_body_of_its_row():
    for row, documented_operation in zip(ROWS, DOCUMENTED_OPERATIONS, strict=True):
        operation, name = find_operation(row), f"{row.method} {row.path}"
        assert (operation.success, operation.errors) == (row.success, row.errors), name
        assert operation.response_kind in RESPONSE_KINDS[documented_operation.envelope], name
        assert operation.is_bulk == row.request.startswith("bulk"), name
        specified = specified_body(row)
        if specified is None:
            assert operation.body is None, name
        else:
            assert operation.body is not None, name
            documented = [(field.name, field.type) for field in operation.body if field.documented]
            assert documented == specified, name
