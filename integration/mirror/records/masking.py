"""PINs, passwords and keys in records: only an administrator's own platform credentials show them."""

from __future__ import annotations

import re
from typing import Any

import orjson

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource

SECRET_NAMES = frozenset(
    {field.name for resource in RESOURCES for field in resource.fields if field.secret}
    | {"vm_pin", "pin", "pin_pstn", "password", "secret", "token", "user_token", "api_key", "legacy_api_key"}
)
_NAMES = (
    rb'sip_pass[^"]*',
    b"sip_domain",
    b"sip_username",
    *(name.encode() for name in sorted(SECRET_NAMES)),
)
_SUSPECT = re.compile(rb'"(?:' + b"|".join(_NAMES) + rb')"\s*:')


def is_secret(name: str) -> bool:
    """SIP credentials are secret whatever they are called next."""
    return name in SECRET_NAMES or name.startswith("sip_pass") or name in ("sip_domain", "sip_username")


def hidden_of(resource: Resource) -> frozenset[str]:
    """Names that may not even be filtered or sorted by: a filter would spell the value out."""
    return SECRET_NAMES | {field.name for field in resource.fields if is_secret(field.name)}


def has_secrets(resource: Resource) -> bool:
    """Whether records of this kind are known to hold any."""
    return any(field.secret or is_secret(field.name) for field in resource.fields)


def masked(body: bytes) -> bytes:
    """JSON `body` with every secret as null; untouched (and unparsed) where none stands in it."""
    if not _SUSPECT.search(body):
        return body
    try:
        return orjson.dumps(without_secrets(orjson.loads(body)))
    except orjson.JSONDecodeError:
        # Something we can't read is not shown to someone who may not see all of it.
        return b"{}"


def without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: None if is_secret(name) else without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_secrets(inner) for inner in value]
    return value
