"""Names of record fields that hold a secret: the only list of them."""

from __future__ import annotations

from integration.catalogue import RESOURCES

DECLARED = frozenset(field.name for resource in RESOURCES for field in resource.fields if field.secret)

UNDECLARED = frozenset({"password", "secret", "token", "user_token", "api_key", "sip_username"})
"""Names of secrets that no documented record has; a release of the platform may add them to any record."""

NAMES = DECLARED | UNDECLARED

PREFIX = "sip_pass"
"""Start of the names of SIP passwords, documented or not."""


def is_secret(name: str) -> bool:
    """Return whether a record field of this name holds a secret."""
    return name in NAMES or name.startswith(PREFIX)
