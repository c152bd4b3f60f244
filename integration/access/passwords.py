"""Passwords: their strength, and hashing with argon2id in the low-memory profile of RFC 9106."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integration.core.errors import DomainError

MIN_LENGTH, MAX_LENGTH = 10, 200
"""Limits of a password, in characters after normalization."""

MAX_PARALLEL_HASHES = 2
"""Maximum number of concurrent hashes.

Each takes 64 MiB, so a flood of logins would exhaust the memory.
"""
WAIT_SECONDS = 5.0
"""Maximum seconds that a login waits for a free slot."""

HASHER = PasswordHasher()
"""Hasher of all passwords.

A stored hash with other cost parameters is replaced at the next login.
"""

MIN_SCORE = 3
"""Lowest accepted score of zxcvbn, from 0 to 4. Score 3 takes at least 10^8 guesses."""
ESTIMATED_LENGTH = 72
"""Characters that zxcvbn accepts; its time grows with the square of the length."""
MIN_OTHER_CHARACTERS = 8
"""Characters that a password needs besides words about the user."""
MIN_WORD_LENGTH = 3
"""Characters of the shortest word about the user that counts."""
PRODUCT_NAME = "switchroom"

_WORD = re.compile(r"[^\W_]+")
_estimate_lock = threading.Lock()
"""zxcvbn stores the words about the user in a dictionary of its module."""

_hash_slots = threading.BoundedSemaphore(MAX_PARALLEL_HASHES)


class TooManyLogins(DomainError):
    """Too many passwords are being hashed at the same time.

    A later attempt may succeed.
    """


def hash_password(password: str, user_texts: Iterable[str] = ()) -> str:
    """Return the argon2id hash of a new password.

    `user_texts`: e-mail address, name and company of the user. Raises DomainError for a password that is too
    short, too long or easy to guess, TooManyLogins without a free slot.
    """
    normalized = _normalize(password)
    if len(normalized) < MIN_LENGTH:
        raise DomainError(
            f"The password has {len(normalized)} characters. It needs at least {MIN_LENGTH}, "
            "for example four random words."
        )
    if len(normalized) > MAX_LENGTH:
        raise DomainError(f"The password has {len(normalized)} characters. It can have at most {MAX_LENGTH}.")
    check_strength(normalized, user_texts)
    with _hash_slot():
        return HASHER.hash(normalized)


def rehash(password: str) -> str:
    """Return the hash of a verified password, weak or strong."""
    with _hash_slot():
        return HASHER.hash(_normalize(password))


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
    """Return whether `stored_hash` has other cost parameters than HASHER."""
    return HASHER.check_needs_rehash(stored_hash)


def _normalize(password: str) -> str:
    """Return the NFKC form, equal for all keyboards.

    Lone surrogates become '?' to be hashable.
    """
    return unicodedata.normalize("NFKC", password).encode("utf-8", "replace").decode()


@lru_cache(maxsize=1)
def _compute_dummy_hash(hasher: PasswordHasher) -> str:
    return hasher.hash("no account has this password")


@contextmanager
def _hash_slot() -> Iterator[None]:
    if not _hash_slots.acquire(timeout=WAIT_SECONDS):
        raise TooManyLogins("Too many users are logging in at the same time. Try again in 5 seconds.")
    try:
        yield
    finally:
        _hash_slots.release()


def check_strength(password: str, user_texts: Iterable[str] = ()) -> None:
    """Raise DomainError for a password that is easy to guess.

    `user_texts`: e-mail address, name and company of the user.
    """
    words = sorted(set(_split_words(user_texts)), key=len, reverse=True)
    rest = password.casefold()
    for word in words:
        rest = rest.replace(word, "")
    if rest != password.casefold() and len(rest) < MIN_OTHER_CHARACTERS:
        raise DomainError(
            "The password consists mostly of your address, name or company. "
            "Choose one without them, for example four random words."
        )
    # Imported here because its word lists take 0.1 s to load and few requests set a password.
    from zxcvbn import zxcvbn

    with _estimate_lock:
        estimate = zxcvbn(password[:ESTIMATED_LENGTH], words)  # type: ignore[no-untyped-call]
    if estimate["score"] < MIN_SCORE:
        warning = estimate["feedback"]["warning"] or "It can be guessed with few attempts."
        raise DomainError(
            f"The password is easy to guess. {warning} Choose another one, for example four random words."
        )


def _split_words(texts: Iterable[str]) -> Iterator[str]:
    """Return the texts and their words, folded, without short ones."""
    for text in (*texts, PRODUCT_NAME):
        folded = text.strip().casefold()
        for word in (folded, *_WORD.findall(folded)):
            if len(word) >= MIN_WORD_LENGTH:
                yield word
