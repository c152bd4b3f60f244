"""The catalogue's operations against the text of the specification."""

from __future__ import annotations

import re

import pytest

from integration import catalogue
from integration.catalogue.shapes import Operation
from tests.catalogue import specification

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


def own(row: specification.Row) -> Operation:
    return BY_NAME[f"{row.method} {row.path}"]


@pytest.mark.parametrize(
    ("module", "count"),
    [
        ("authentication", 9),
        ("calls", 18),
        ("storage", 16),
        ("settings", 36),
        ("customer", 30),
        ("history", 33),
        ("callmeback", 12),
        ("reports", 6),
        ("registration", 5),
    ],
)
def test_each_module_has_the_operations_counted_by_hand(module, count):
    assert sum(row.module == module for row in catalogue.OPERATIONS) == count


def test_there_are_165_operations_on_108_paths():
    assert len(catalogue.OPERATIONS) == 165
    assert len({row.path for row in catalogue.OPERATIONS}) == 108


def test_they_stand_in_the_order_of_the_specification():
    told = [(MODULES[row.module], row.method, row.path) for row in ROWS]
    assert [(row.module, row.method, row.path) for row in catalogue.OPERATIONS] == told


# Rows whose cell says no more than a status or a noun; the common conventions give their envelope.
BY_CONVENTION = {
    "POST /calllabels": "item",
    "GET /calllabels/{id}": "item",
    "PATCH /calllabels/{id}": "item",
    "POST /calltracking/campaigns": "item",
    "GET /ddis/{e164}": "item",
    "GET /me": "item",
    "GET /usergrouppolicies": "collection",
    "POST /usergrouppolicies": "item",
    "GET /usergrouppolicies/{id}": "item",
    "PATCH /usergrouppolicies/{id}": "item",
}


def told_answer(row: specification.Row) -> str:
    name = f"{row.method} {row.path}"
    if name in BY_CONVENTION:
        return BY_CONVENTION[name]
    if row.path.endswith("/dictionaries"):
        return "dictionary"
    if "." in row.path:
        return "file"
    if 204 in row.success:
        return "none"
    if "deletes" in row.answer:
        return "unknown"
    words = re.findall(r"collection|item|message", row.answer)
    return words[0] if words else "unknown"


def told_body(row: specification.Row) -> list[tuple[str, str]] | None:
    """Fields of the body a row tells; None for no body, [] for one not shown."""
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
        return told_body(post)
    if "body not shown" in text:
        return []
    if "body" in text or "array of objects" in text:
        return specification.body(re.sub(r"^bulk; ", "", text))
    return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_it_is_as_its_row_tells(row):
    """Its statuses, the envelope of its answer, the fields of its body, and whether that is an array."""
    known = own(row)
    assert (known.success, known.errors) == (row.success, row.errors)
    assert known.response_kind == told_answer(row)
    assert known.is_bulk == row.request.startswith("bulk")
    told = told_body(row)
    if told is None:
        assert known.body is None
    else:
        assert known.body is not None
        assert [(field.name, field.type) for field in known.body if field.documented] == told


def test_what_a_body_must_have_is_marked_only_where_it_is_known():
    required = {
        (row.name, field.name) for row in catalogue.OPERATIONS for field in row.body or () if field.required
    }
    assert required == {
        ("POST /calls", "to"),
        ("POST /sms", "to"),
        ("POST /sms", "message"),
        ("POST /leadcalls", "caller_id"),
    }


def test_every_collection_takes_the_pager_and_the_filter():
    for row in catalogue.OPERATIONS:
        documented = [field.name for field in row.query if field.documented]
        if row.response_kind == "collection":
            assert documented[:4] == ["page", "limit", "filter", "group_by"], row.name
        else:
            assert documented == [], row.name


def test_only_ring_groups_take_include_by_the_specification_and_queues_as_observed():
    takers = {
        row.path: field.documented
        for row in catalogue.OPERATIONS
        for field in row.query
        if field.name == "include"
    }
    assert takers == {"/ringgroups": True, "/queues": False}


def test_only_what_comes_before_login_and_sign_ups_need_no_credentials():
    public = {row.path for row in catalogue.OPERATIONS if row.is_public}
    sign_ups = {row.path for row in catalogue.OPERATIONS if row.module == "registration"}
    assert public == {"/login", "/login2fa", "/confirmation", "/password", "/reset"} | sign_ups
    assert all(row.is_public for row in catalogue.OPERATIONS if row.path in public)


def test_secrets_in_bodies_are_marked():
    secret = {
        field.name for row in catalogue.OPERATIONS for field in row.body or () if field.meaning == "secret"
    }
    assert secret == {"password", "device_fingerprint", "code", "nonce", "token", "pin", "pin_pstn"}


def test_every_resource_named_by_an_operation_is_known_and_every_resource_is_named():
    named = {row.resource for row in catalogue.OPERATIONS if row.resource}
    assert named == {row.name for row in catalogue.RESOURCES}


def test_a_collection_or_item_always_says_of_what():
    for row in catalogue.OPERATIONS:
        if row.response_kind in ("collection", "item"):
            assert row.resource, row.name
