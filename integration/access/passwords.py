"""Passwords: argon2id, the RFC 9106 profile for little memory, a few at a time."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integration.core.errors import DomainError

MIN_LENGTH, MAX_LENGTH = 10, 200

MAX_PARALLEL_HASHES = 2
"""Passwords hashed at a time. Each takes 64 MiB: without a limit a flood of logins takes all memory."""
WAIT_SECONDS = 5.0
"""Seconds that a login waits for its turn."""

HASHER = PasswordHasher()
"""Hasher of all passwords. The hash of other costs is replaced at the next login."""

_hash_slots = threading.BoundedSemaphore(MAX_PARALLEL_HASHES)


class TooManyLogins(DomainError):
    """Too many passwords are being checked at once; ask again in a moment."""


def hash_password(password: str) -> str:
    """Return the argon2id hash to store. Raises DomainError for a password that is too short or too long."""
    normalized = _normalize(password)
    if len(normalized) < MIN_LENGTH:
        raise DomainError(f"a password needs at least {MIN_LENGTH} characters; a few words make a good one")
    if len(normalized) > MAX_LENGTH:
        raise DomainError(f"a password may have at most {MAX_LENGTH} characters")
    with _hash_slot():
        return HASHER.hash(normalized)


def verify(stored_hash: str | None, password: str) -> bool:
    """Return whether `stored_hash` is a hash of `password`. Raises TooManyLogins.

    None, for an unknown account or one without a password, takes as long and returns False.
    """
    with _hash_slot():
        compared_hash = stored_hash or _compute_dummy_hash(HASHER)
        try:
            is_match = HASHER.verify(compared_hash, _normalize(password)[: MAX_LENGTH + 1])
            return is_match and stored_hash is not None
        except (VerificationError, InvalidHashError):
            return False


def needs_rehash(stored_hash: str) -> bool:
    """Return whether `stored_hash` has other costs than HASHER."""
    return HASHER.check_needs_rehash(stored_hash)


def _normalize(password: str) -> str:
    """One spelling whatever keyboard wrote it. Lone surrogates can't be hashed and become '?'."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace").decode()


@lru_cache(maxsize=1)
def _compute_dummy_hash(hasher: PasswordHasher) -> str:
    return hasher.hash("no account has this password")


@contextmanager
def _hash_slot() -> Iterator[None]:
    if not _hash_slots.acquire(timeout=WAIT_SECONDS):
        raise TooManyLogins("too many logins at once; try again in a moment")
    try:
        yield
    finally:
        _hash_slots.release()
