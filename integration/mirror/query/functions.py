"""SQL functions for comparisons that SQLite does not support.

They are registered on every connection of mirror.db (`Database(register_functions=…)`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from integration.mirror.page_queries.search_index import fold
from integration.mirror.records.masking import mask_json

_NUMERIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_INT64_LIMIT = 2**63


def to_sqlite_number(number: int | float) -> int | float:
    """Return `number`, as a float if it exceeds SQLite's 64 bits."""
    return float(number) if isinstance(number, int) and not -_INT64_LIMIT <= number < _INT64_LIMIT else number


def parse_number(value: Any) -> int | float | None:
    """Return a number, or the number in a decimal string.

    None for other values. Strings with an exponent or of more than 300 characters are not numbers.
    """
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) or len(value) > 300 or not _NUMERIC.fullmatch(value):
        return None
    return float(value) if "." in value else to_sqlite_number(int(value))


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for casefolded text.

    Its time is linear in the text for each piece of the pattern, so that no pattern can block a thread.
    """
    folded = pattern.casefold()
    if "%" not in folded:
        return lambda text: folded in text
    first, *middle, last = (_compile_piece(piece) for piece in folded.split("%"))

    def matches(text: str) -> bool:
        first_match = first.match(text)
        if first_match is None:
            return False
        position = first_match.end()
        for piece in middle:
            match = piece.search(text, position)
            if match is None:
                return False
            position = match.end()
        return len(text) - length >= position and last.match(text, len(text) - length) is not None

    length = len(folded) - folded.rfind("%") - 1
    return matches


def _compile_piece(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if letter == "_" else re.escape(letter) for letter in text), re.DOTALL)


def folded_like(pattern: str, text: str | None) -> bool | None:
    """Implement LIKE, ignoring the case of all letters; NULL returns NULL.

    SQLite's own LIKE ignores the case of ASCII letters only.
    """
    return None if text is None else _compile_pattern(pattern)(text.casefold())


def _contains_folded(text: str, fragment: str) -> bool:
    return fragment in fold(text)


def without_secrets(text: str) -> str:
    """Return a JSON text with null for every secret."""
    return mask_json(text.encode()).decode()


def register(connection: sqlite3.Connection) -> None:
    """Register the SQL functions on `connection`."""
    connection.create_function("number_of", 1, parse_number, deterministic=True)
    connection.create_function("folded_like", 2, folded_like, deterministic=True)
    connection.create_function("contains_folded", 2, _contains_folded, deterministic=True)
    connection.create_function("without_secrets", 1, without_secrets, deterministic=True)
