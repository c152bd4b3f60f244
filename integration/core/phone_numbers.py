"""Telephone numbers and the names that come with them, as people read and search them.

The platform writes international digits without plus, with `00`, with plus, or an extension (observed.md
§1.2, §4). Numbers are kept as received; this gives the E.164 form beside them, for matching, and the
national form, for reading.
"""

from __future__ import annotations

import re
from functools import lru_cache

import phonenumbers
from phonenumbers import PhoneNumberFormat

WITHHELD = frozenset(
    {"", "anonymous", "withheld", "private", "restricted", "unavailable", "unknown", "hidden"}
)
"""What stands for a caller who hid the number, folded. observed.md §1.2 has the empty one."""

LONGEST_EXTENSION = 6

_NOT_DIALLED = re.compile(r"[\s().\-/]")
_DIGITS = re.compile(r"^\+?\d+$")
_ANGLED = re.compile(r"<[^<>]*>")


@lru_cache(maxsize=10_000)
def withheld(raw: object) -> bool:
    """True for a number that was not told."""
    return raw is None or str(raw).strip().casefold() in WITHHELD


def is_short(raw: str | None) -> bool:
    """True for digits too few to be anything but an extension or a service number."""
    return raw is not None and raw.isdecimal() and len(raw) <= LONGEST_EXTENSION and not raw.startswith("00")


@lru_cache(maxsize=10_000)
def clean_name(raw: str | None) -> str:
    """A name without the quotes, brackets, numbers and group prefix that the platform puts around it.

    '"Ann" <2079460001>' is 'Ann'; '"442079460001" <2079460001>' and 'Example Shop | 442079460001' hold no
    name of the caller (the latter is `<ring group> | <number>`), so they are ''.
    """
    if not raw:
        return ""
    name = _ANGLED.sub(" ", raw).replace('"', " ")
    name = " ".join(name.rpartition("|")[2].split())
    bare = _NOT_DIALLED.sub("", name)
    return "" if _DIGITS.match(bare) or bare.casefold() in WITHHELD else name


def clid_number(raw: str | None) -> str | None:
    """The number in '"442079460002" <442079460002>': what stands between the brackets, else the digits."""
    if not raw:
        return None
    inside = re.search(r"<([^<>]*)>", raw)
    digits = _NOT_DIALLED.sub("", inside[1] if inside else raw.replace('"', ""))
    return digits if _DIGITS.match(digits) else None


class Numbers:
    """Reads numbers the way `country` (ISO 3166, as 'GB'; None: international only) dials them.

    Answers are cached by the raw text: parsing takes some 30 µs, and an office's numbers repeat.
    """

    def __init__(self, country: str | None = None) -> None:
        self.country = country.upper() if country else None
        self._parsed = lru_cache(maxsize=100_000)(self._parse)
        self._e164 = lru_cache(maxsize=100_000)(self._format_e164)

    def e164(self, raw: object) -> str | None:
        """'+442079460001' for any spelling of it; None for extensions, withheld and unreadable ones."""
        return self._e164(str(raw)) if raw else None

    def national(self, raw: object) -> str:
        """'020 7946 0001' for numbers of `country`, '+1 202-555-0101' for others; else as received."""
        return self.display(raw)[0]

    def display(self, told: object) -> tuple[str, str]:
        """(the form for reading, the international form); both as received where it is not readable."""
        if not told:
            return "", ""
        raw = str(told)
        number = self._parsed(raw)
        if number is None:
            return raw, raw
        international = phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL)
        if self.country is None or phonenumbers.region_code_for_country_code(number.country_code or 0) != (
            self.country
        ):
            return international, international
        return phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL), international

    def key(self, raw: str | None) -> str:
        """What two spellings of one party share: E.164, else the text itself, '' where withheld."""
        if withheld(raw) or raw is None:
            return ""
        return self.e164(raw) or raw.strip()

    def _format_e164(self, raw: str) -> str | None:
        number = self._parsed(raw)
        return None if number is None else phonenumbers.format_number(number, PhoneNumberFormat.E164)

    def _parse(self, raw: str) -> phonenumbers.PhoneNumber | None:
        text = _NOT_DIALLED.sub("", raw)
        if len(text) > 20 or not text.isascii() or not _DIGITS.match(text) or is_short(text):
            return None
        if text.startswith(("+", "00")):
            number = self._read("+" + text.removeprefix("+").removeprefix("00"), None)
            return number if number is not None and phonenumbers.is_possible_number(number) else None
        spellings: list[tuple[str, str | None]] = [] if text.startswith("0") else [("+" + text, None)]
        spellings += [(text, self.country)] if self.country else []
        found = []
        for spelling, country in spellings:
            number = self._read(spelling, country)
            if number is not None:
                if phonenumbers.is_valid_number(number):
                    return number
                found.append(number)
        # Neither is in use as far as the library knows; new ranges and those reserved for fiction are not.
        return next((number for number in found if phonenumbers.is_possible_number(number)), None)

    @staticmethod
    def _read(text: str, country: str | None) -> phonenumbers.PhoneNumber | None:
        try:
            return phonenumbers.parse(text, country)
        except phonenumbers.NumberParseException:
            return None
