"""Passwords: argon2id, the RFC 9106 profile for little memory, a few at a time."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integration.core.errors import DomainError

MIN_LENGTH, MAX_LENGTH = 10, 200

# 64 MiB each: without a bound a flood of logins would take all memory and starve the receiver.
_HASH_SLOTS = threading.BoundedSemaphore(2)
WAIT_SECONDS = 5.0

_hasher = PasswordHasher()


class TooManyLogins(DomainError):
    """Too many passwords are being checked at once; ask again in a moment."""


def hash_password(password: str) -> str:
    """The argon2id hash to store. Raises DomainError for a password that is too short or too long."""
    normalized = _normalize(password)
    if len(normalized) < MIN_LENGTH:
        raise DomainError(f"a password needs at least {MIN_LENGTH} characters; a few words make a good one")
    if len(normalized) > MAX_LENGTH:
        raise DomainError(f"a password may have at most {MAX_LENGTH} characters")
    with _hash_slot():
        return _hasher.hash(normalized)


def verify(stored_hash: str | None, password: str) -> bool:
    """Whether `password` is the one `stored_hash` was made of. None (an unknown account, or one that has no
    password yet) costs the same work and is False. Raises TooManyLogins."""
    with _hash_slot():
        try:
            return (
                _hasher.verify(stored_hash or _dummy_hash(), _normalize(password)[: MAX_LENGTH + 1])
                and stored_hash is not None
            )
        except (VerificationError, InvalidHashError):
            return False


def needs_rehash(stored_hash: str) -> bool:
    """Whether `stored_hash` was made with other costs than today's."""
    return _hasher.check_needs_rehash(stored_hash)


def _normalize(password: str) -> str:
    """One spelling whatever keyboard wrote it. Lone surrogates can't be hashed and become '?'."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace").decode()


@cache
def _dummy_hash() -> str:
    return _hasher.hash("no account has this password")


@contextmanager
def _hash_slot() -> Iterator[None]:
    if not _HASH_SLOTS.acquire(timeout=WAIT_SECONDS):
        raise TooManyLogins("too many logins at once; try again in a moment")
    try:
        yield
    finally:
        _HASH_SLOTS.release()
