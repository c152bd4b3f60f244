"""Passwords: argon2id, the RFC 9106 profile for little memory, a few at a time."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integration.core.refused import Refused

SHORTEST, LONGEST = 10, 200

# 64 MiB each: without a bound a flood of logins would take all memory and starve the receiver.
_PLACES = threading.BoundedSemaphore(2)
WAIT_SECONDS = 5.0

_hasher = PasswordHasher()


class Busy(Refused):
    """Too many passwords are being checked at once; ask again in a moment."""


def hash_password(password: str) -> str:
    """The argon2id hash to store. Raises Refused for a password that is too short or too long."""
    plain = _normal(password)
    if len(plain) < SHORTEST:
        raise Refused(f"a password needs at least {SHORTEST} characters; a few words make a good one")
    if len(plain) > LONGEST:
        raise Refused(f"a password may have at most {LONGEST} characters")
    with _place():
        return _hasher.hash(plain)


def verify(stored: str | None, password: str) -> bool:
    """Whether `password` is the one `stored` was made of. None (an unknown account, or one that has no
    password yet) costs the same work and is False. Raises Busy."""
    with _place():
        try:
            return (
                _hasher.verify(stored or _nobodys(), _normal(password)[: LONGEST + 1]) and stored is not None
            )
        except (VerificationError, InvalidHashError):
            return False


def outdated(stored: str) -> bool:
    """Whether `stored` was made with other costs than today's."""
    return _hasher.check_needs_rehash(stored)


def _normal(password: str) -> str:
    """One spelling whatever keyboard wrote it. Lone surrogates can't be hashed and become '?'."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace").decode()


@cache
def _nobodys() -> str:
    return _hasher.hash("no account has this password")


@contextmanager
def _place() -> Iterator[None]:
    if not _PLACES.acquire(timeout=WAIT_SECONDS):
        raise Busy("too many logins at once; try again in a moment")
    try:
        yield
    finally:
        _PLACES.release()
