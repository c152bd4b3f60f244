"""Where a text names a telephone number, however it is written there: with plus, with 00, the national way,
bare, in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

import phonenumbers
from phonenumbers import PhoneNumberFormat

T = TypeVar("T")

ERASED = "erased"
"""What stands in the place of a number that was erased."""

_MAX_SEPARATORS = 3
"""Characters between two digits of one number, at most."""
_SEPARATORS = rf"[\s().\-/\\]{{0,{_MAX_SEPARATORS}}}"
"""What may stand there; a backslash, since JSON writes `\\/`."""
_DIGIT_RUN = re.compile(r"[0-9][0-9\s().\-/\\]{5,}[0-9]")
_IGNORED_BYTES = bytes({*b" \t\n\r\v\f().-/\\", *range(0x1C, 0x20), *range(0x80, 0x100)})
"""Those in UTF-8, and more."""
_DIGIT_GROUP = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[0-9\s+().\-/]+")
_MIN_DIGITS = 7
"""Digits: fewer are an extension, a date, a part of an id."""


def digits(text: str) -> str:
    """The ASCII digits of a text."""
    return "".join(_DIGIT_GROUP.findall(text))


def is_number(text: str) -> bool:
    """Whether a search text can only be a number, or a part of one, in any way of writing."""
    return _NUMBER.fullmatch(text) is not None and bool(digits(text))


def variants(e164: str) -> frozenset[str]:
    """The digits of every way to write '+447700900123'. Raises ValueError for what is no such number."""
    try:
        number = phonenumbers.parse(e164, None)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"{e164!r} is no telephone number") from error
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
    """What finds the number in the bytes of a file, standing by itself."""
    number_variants = sorted(variants(e164), key=len, reverse=True)
    alternatives = "|".join(_SEPARATORS.join(variant) for variant in number_variants)
    return re.compile(rf"(?<![0-9])(?:{alternatives})(?![0-9])".encode())


class Finder(Generic[T]):
    """Finds numbers of which `lookup(digits)` knows something; `lengths` are those of their spellings.
    `hints`, where given, are digits of which each of them has some: most texts have none, and are done with
    soon."""

    def __init__(
        self, lengths: Collection[int], lookup: Callable[[str], T | None], hints: Collection[str] = ()
    ) -> None:
        self._hints = [hint.encode() for hint in hints]
        self._lengths = frozenset(lengths)
        self._max_length = max(lengths, default=0)
        self._lookup = lookup

    def find(self, text: str) -> Iterator[tuple[int, int, T]]:
        """Where each stands, from and to, and what is known of it."""
        if self._hints:
            compact = text.encode("utf-8", "surrogatepass").translate(None, _IGNORED_BYTES)
            if not any(hint in compact for hint in self._hints):
                return
        for run in _DIGIT_RUN.finditer(text):
            # What looks like one number may be two side by side: every row of groups may be a number.
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
        """Whether any stands in it."""
        return next(self.find(text), None) is not None

    def replace_numbers(self, text: str, replacement: str) -> str:
        """The text with `replacement` in the place of each."""
        pieces, position = [], 0
        for begin, end, _ in self.find(text):
            pieces += [text[position:begin], replacement]
            position = end
        return "".join([*pieces, text[position:]])


def make_finder(e164s: Collection[str]) -> Finder[str]:
    """Finds these numbers; what is known of each is its E.164 form."""
    e164_by_variant = {digits: e164 for e164 in e164s for digits in variants(e164)}
    hints = {
        variant
        for variant in e164_by_variant
        if not any(other != variant and other in variant for other in e164_by_variant)
    }
    return Finder({len(digits) for digits in e164_by_variant}, e164_by_variant.get, hints)
