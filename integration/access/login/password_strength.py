"""Strength of new passwords, estimated by zxcvbn."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator

from integration.core.errors import DomainError

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
