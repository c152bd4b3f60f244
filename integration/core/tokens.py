"""Random tokens, their stored digests and comparison in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new(size: int = 32) -> str:
    """A URL-safe token of `size` random bytes."""
    return secrets.token_urlsafe(size)


def digest(secret: str | bytes) -> bytes:
    """SHA-256, the form in which a secret is stored and compared.

    Salt and stretching would add nothing to random tokens; passwords are hashed by `access/passwords`.
    """
    return hashlib.sha256(secret.encode("utf-8", "replace") if isinstance(secret, str) else secret).digest()


def matches(secret: str | bytes, expected_digest: bytes) -> bool:
    """Compare a received secret with a digest, in a time that shows nothing of the expected secret."""
    return hmac.compare_digest(digest(secret), expected_digest)
