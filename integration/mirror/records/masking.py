"""Mask PINs, passwords and keys in records.

Only requests with an administrator's own platform credentials receive secrets.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from integration.catalogue.field_meanings import SECRET_NAMES, SECRET_PREFIX, is_secret
from integration.catalogue.shapes import Resource

_PATTERN = "|".join((f'{SECRET_PREFIX}[^"]*', *sorted(SECRET_NAMES)))
_SECRET_KEY = re.compile(rf'"(?:{_PATTERN})"\s*:'.encode())


def list_hidden_fields(resource: Resource) -> frozenset[str]:
    """Return the names of secret fields.

    Filters and sorting by them are refused too: repeated filters would reveal the value letter by letter.
    """
    return SECRET_NAMES | {field.name for field in resource.fields if is_secret(field.name)}


def has_secrets(resource: Resource) -> bool:
    """Return whether `resource` has a documented secret field."""
    return any(is_secret(field.name) for field in resource.fields)


def mask_json(body: bytes) -> bytes:
    """Return JSON `body` with null for every secret.

    A body without secrets is returned unparsed and unchanged.
    """
    if not _SECRET_KEY.search(body):
        return body
    try:
        return orjson.dumps(remove_secrets(orjson.loads(body)))
    except orjson.JSONDecodeError:
        # Unreadable text may contain a secret that cannot be masked.
        return b"{}"


def remove_secrets(value: Any) -> Any:
    """Return parsed JSON with null for every secret, at any depth."""
    if isinstance(value, dict):
        return {name: None if is_secret(name) else remove_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [remove_secrets(inner) for inner in value]
    return value
