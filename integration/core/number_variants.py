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

_APART = 3
"""Characters between two digits of one number, at most."""
_BETWEEN = rf"[\s().\-/\\]{{0,{_APART}}}"
"""What may stand there; a backslash, since JSON writes `\\/`."""
_RUN = re.compile(r"[0-9][0-9\s().\-/\\]{5,}[0-9]")
_PASSED_OVER = bytes({*b" \t\n\r\v\f().-/\\", *range(0x1C, 0x20), *range(0x80, 0x100)})
"""Those in UTF-8, and more."""
_GROUP = re.compile(r"[0-9]+")
_SHORTEST = 7
"""Digits: fewer are an extension, a date, a part of an id."""


def spellings(e164: str) -> frozenset[str]:
    """The digits of every way to write '+447700900123'. Raises ValueError for what is no such number."""
    try:
        number = phonenumbers.parse(e164, None)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"{e164!r} is no telephone number") from error
    code = str(number.country_code)
    alone = phonenumbers.national_significant_number(number)
    national = "".join(_GROUP.findall(phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL)))
    full = {f"{before}{code}{local}" for before in ("", "00", "011") for local in (alone, national)}
    return frozenset(full | {one for one in (alone, national) if len(one) >= _SHORTEST})


def pattern(e164: str) -> re.Pattern[bytes]:
    """What finds the number in the bytes of a file, standing by itself."""
    ways = sorted(spellings(e164), key=len, reverse=True)
    among = "|".join(_BETWEEN.join(way) for way in ways)
    return re.compile(rf"(?<![0-9])(?:{among})(?![0-9])".encode())


class Finder(Generic[T]):
    """Finds numbers of which `look_up(digits)` knows something; `lengths` are those of their spellings.
    `hints`, where given, are digits of which each of them has some: most texts have none, and are done with
    soon."""

    def __init__(
        self, lengths: Collection[int], look_up: Callable[[str], T | None], hints: Collection[str] = ()
    ) -> None:
        self._hints = [hint.encode() for hint in hints]
        self._lengths = frozenset(lengths)
        self._longest = max(lengths, default=0)
        self._look_up = look_up

    def find(self, text: str) -> Iterator[tuple[int, int, T]]:
        """Where each stands, from and to, and what is known of it."""
        if self._hints:
            bare = text.encode("utf-8", "surrogatepass").translate(None, _PASSED_OVER)
            if not any(hint in bare for hint in self._hints):
                return
        for run in _RUN.finditer(text):
            # What looks like one number may be two side by side: every row of groups may be a number.
            groups = [group.span() for group in _GROUP.finditer(text, *run.span())]
            after = 0
            for first, (begin, _) in enumerate(groups):
                if begin < after:
                    continue
                digits, last = "", begin
                for start, end in groups[first:]:
                    digits += text[start:end]
                    if len(digits) > self._longest or start - last > _APART:
                        break
                    last = end
                    if len(digits) in self._lengths and (known := self._look_up(digits)) is not None:
                        yield begin - (begin > 0 and text[begin - 1] == "+"), end, known
                        after = end
                        break

    def names(self, text: str) -> bool:
        """Whether any stands in it."""
        return next(self.find(text), None) is not None

    def without(self, text: str, by: str) -> str:
        """The text with `by` in the place of each."""
        parts, at = [], 0
        for begin, end, _ in self.find(text):
            parts += [text[at:begin], by]
            at = end
        return "".join([*parts, text[at:]])


def finder(e164s: Collection[str]) -> Finder[str]:
    """Finds these numbers; what is known of each is its E.164 form."""
    known = {digits: e164 for e164 in e164s for digits in spellings(e164)}
    hints = {one for one in known if not any(other != one and other in one for other in known)}
    return Finder({len(digits) for digits in known}, known.get, hints)
