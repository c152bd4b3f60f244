"""Search for telephone numbers in texts, in every notation.

Notations: international with plus, 00, 011 or no prefix, national, with or without separators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

import phonenumbers
from phonenumbers import PhoneNumberFormat

T = TypeVar("T")

ERASED = "erased"
"""Replacement text of an erased number."""

_MAX_SEPARATORS = 3
"""Maximum number of characters between two digits of one number."""
_SEPARATORS = rf"[\s().\-/\\]{{0,{_MAX_SEPARATORS}}}"
"""Characters between two digits. The backslash is included because JSON may write `\\/`."""
_DIGIT_RUN = re.compile(r"[0-9][0-9\s().\-/\\]{5,}[0-9]")
_IGNORED_BYTES = bytes({*b" \t\n\r\v\f().-/\\", *range(0x1C, 0x20), *range(0x80, 0x100)})
"""Bytes of separators in UTF-8, and other bytes that are not digits."""
_DIGIT_GROUP = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[0-9\s+().\-/]+")
_MIN_DIGITS = 7
"""Minimum digits of a national number in a search.

Fewer match extensions, dates and parts of ids.
"""


def digits(text: str) -> str:
    """Return the ASCII digits of a text."""
    return "".join(_DIGIT_GROUP.findall(text))


def is_number(text: str) -> bool:
    """Return whether a search text has only digits and separators of numbers."""
    return _NUMBER.fullmatch(text) is not None and bool(digits(text))


def variants(e164: str) -> frozenset[str]:
    """Return the digits of every notation of a number.

    `e164`: such as '+447700900123'. Raises ValueError if the library cannot parse the text.
    """
    try:
        number = phonenumbers.parse(e164, None)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"{e164!r} is not a telephone number in E.164 form.") from error
    code = str(number.country_code)
    significant = phonenumbers.national_significant_number(number)
    national = digits(phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL))
    prefixed = {
        f"{prefix}{code}{national_part}"
        for prefix in ("", "00", "011")
        for national_part in (significant, national)
    }
    return frozenset(
        prefixed | {variant for variant in (significant, national) if len(variant) >= _MIN_DIGITS}
    )


def compile_pattern(e164: str) -> re.Pattern[bytes]:
    """Return a pattern that finds a number in bytes.

    The number is not found within a longer sequence of digits.
    """
    number_variants = sorted(variants(e164), key=len, reverse=True)
    alternatives = "|".join(_SEPARATORS.join(variant) for variant in number_variants)
    return re.compile(rf"(?<![0-9])(?:{alternatives})(?![0-9])".encode())


class Finder(Generic[T]):
    """Find the numbers for which `lookup(digits)` returns a value.

    `lengths`: numbers of digits of all variants. `hints`: digit sequences of which each number contains one;
    texts without any of them are skipped quickly.
    """

    def __init__(
        self, lengths: Collection[int], lookup: Callable[[str], T | None], hints: Collection[str] = ()
    ) -> None:
        self._hints = [hint.encode() for hint in hints]
        self._lengths = frozenset(lengths)
        self._max_length = max(lengths, default=0)
        self._lookup = lookup

    def find(self, text: str) -> Iterator[tuple[int, int, T]]:
        """Yield start, end and looked-up value of each number in `text`."""
        if self._hints:
            compact = text.encode("utf-8", "surrogatepass").translate(None, _IGNORED_BYTES)
            if not any(hint in compact for hint in self._hints):
                return
        for run in _DIGIT_RUN.finditer(text):
            # A run can contain two adjacent numbers, so each sequence of groups is looked up.
            groups = [group.span() for group in _DIGIT_GROUP.finditer(text, *run.span())]
            resume_at = 0
            for first, (begin, _) in enumerate(groups):
                if begin < resume_at:
                    continue
                digits, last = "", begin
                for start, end in groups[first:]:
                    digits += text[start:end]
                    if len(digits) > self._max_length or start - last > _MAX_SEPARATORS:
                        break
                    last = end
                    if len(digits) in self._lengths and (info := self._lookup(digits)) is not None:
                        yield begin - (begin > 0 and text[begin - 1] == "+"), end, info
                        resume_at = end
                        break

    def contains_number(self, text: str) -> bool:
        """Return whether `text` contains any of the numbers."""
        return next(self.find(text), None) is not None

    def replace_numbers(self, text: str, replacement: str) -> str:
        """Return `text` with each number replaced by `replacement`."""
        pieces, position = [], 0
        for begin, end, _ in self.find(text):
            pieces += [text[position:begin], replacement]
            position = end
        return "".join([*pieces, text[position:]])


def make_finder(e164s: Collection[str]) -> Finder[str]:
    """Return a Finder of these numbers. Its values are their E.164 forms."""
    e164_by_variant = {digits: e164 for e164 in e164s for digits in variants(e164)}
    hints = {
        variant
        for variant in e164_by_variant
        if not any(other != variant and other in variant for other in e164_by_variant)
    }
    return Finder({len(digits) for digits in e164_by_variant}, e164_by_variant.get, hints)
