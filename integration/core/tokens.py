"""Random tokens, their stored digests and comparison in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new(size: int = 32) -> str:
    """Return a URL-safe token of `size` random bytes."""
    return secrets.token_urlsafe(size)


def digest(secret: str | bytes) -> bytes:
    """Return the SHA-256 by which a secret is stored and compared.

    Random tokens need no salt and no slow hash. Passwords are hashed by `access/passwords`.
    """
    return hashlib.sha256(secret.encode("utf-8", "replace") if isinstance(secret, str) else secret).digest()


def matches(secret: str | bytes, expected_digest: bytes) -> bool:
    """Return whether a received secret has this digest. Compares in constant time."""
    return hmac.compare_digest(digest(secret), expected_digest)
