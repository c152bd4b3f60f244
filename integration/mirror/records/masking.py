"""PINs, passwords and keys in records: only an administrator's own platform credentials show them."""

from __future__ import annotations

import re
from typing import Any

import orjson

from integration.catalogue.field_meanings import SECRET_NAMES, SECRET_PREFIX, is_secret
from integration.catalogue.shapes import Resource

_PATTERN = "|".join((f'{SECRET_PREFIX}[^"]*', *sorted(SECRET_NAMES)))
_SECRET_KEY = re.compile(rf'"(?:{_PATTERN})"\s*:'.encode())


def list_hidden_fields(resource: Resource) -> frozenset[str]:
    """Names that may not even be filtered or sorted by: a filter would spell the value out."""
    return SECRET_NAMES | {field.name for field in resource.fields if is_secret(field.name)}


def has_secrets(resource: Resource) -> bool:
    """Whether records of this kind are known to hold any."""
    return any(is_secret(field.name) for field in resource.fields)


def mask_json(body: bytes) -> bytes:
    """JSON `body` with every secret as null; untouched (and unparsed) where none stands in it."""
    if not _SECRET_KEY.search(body):
        return body
    try:
        return orjson.dumps(remove_secrets(orjson.loads(body)))
    except orjson.JSONDecodeError:
        # Something we can't read is not shown to someone who may not see all of it.
        return b"{}"


def remove_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: None if is_secret(name) else remove_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [remove_secrets(inner) for inner in value]
    return value
