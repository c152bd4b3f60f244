"""Meanings of fields by name, for undocumented fields, nested fields and secrets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from integration.catalogue import OPERATIONS, RESOURCES
from integration.catalogue.events import EVENTS
from integration.catalogue.shapes import Field, Meaning

UNDOCUMENTED: Mapping[str, Meaning] = {
    "phone": "contact_phone",
    "phone_number": "contact_phone",
    "password": "secret",
    "secret": "secret",
    "token": "secret",
    "user_token": "secret",
    "api_key": "secret",
    "sip_username": "secret",
}
"""Meanings of names that no documented record has.

A platform release may add the fields to any record.
"""

SECRET_PREFIX = "sip_pass"
"""Prefix of the names of SIP passwords, documented or not."""


def _index_meanings() -> dict[str, Meaning]:
    """Index meanings by name; records override webhooks.

    A name with two meanings is omitted, unless one of the meanings is `secret`.
    """
    meanings = dict(UNDOCUMENTED)
    for rows in (EVENTS, RESOURCES):
        found_meanings = defaultdict[str, set[Meaning]](set)
        for field in (field for row in rows for field in row.fields):
            if field.meaning is not None:
                found_meanings[field.name].add(field.meaning)
        for name, found in found_meanings.items():
            if "secret" in found:
                meanings[name] = "secret"
            elif len(found) == 1:
                meanings[name] = found.pop()
            else:
                meanings.pop(name, None)
    return meanings


_BY_NAME = _index_meanings()

SECRET_NAMES = frozenset(name for name, meaning in _BY_NAME.items() if meaning == "secret")
"""Names of record fields that hold a secret."""

SENT_SECRET_NAMES = frozenset(
    field.name for row in OPERATIONS for field in row.body or () if field.meaning == "secret"
)
"""Names of secrets in requests.

Some of them, such as `code`, have other meanings in records.
"""


def is_secret(name: str) -> bool:
    """Return whether a record field of this name holds a secret."""
    return name in SECRET_NAMES or name.startswith(SECRET_PREFIX)


def get_meaning(name: str, field: Field | None) -> Meaning | None:
    """Return the meaning of `field`, or else of `name` in any record."""
    return _BY_NAME.get(name) if field is None else field.meaning


def list_meanings(fields: Iterable[Field]) -> Mapping[str, Meaning | None]:
    """Return the meanings of all names in a record with `fields`."""
    return _BY_NAME | {field.name: field.meaning for field in fields}
