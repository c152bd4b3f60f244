"""Telephone numbers and the names that come with them, as people read and search them.

The platform writes international digits without plus, with `00`, with plus, or an extension
(docs/platform.md#14-numbers). Numbers are kept as received; this gives the E.164 form beside them, for
matching, and the national form, for reading.
"""

from __future__ import annotations

import re
from functools import lru_cache

import phonenumbers
from phonenumbers import PhoneNumberFormat

WITHHELD = frozenset(
    {"", "anonymous", "withheld", "private", "restricted", "unavailable", "unknown", "hidden"}
)
"""What stands for a caller who hid the number, folded. docs/platform.md#14-numbers names the empty one."""

MAX_EXTENSION_DIGITS = 6

_SEPARATORS = re.compile(r"[\s().\-/]")
_DIGITS = re.compile(r"^\+?\d+$")
_IN_ANGLE_BRACKETS = re.compile(r"<[^<>]*>")


@lru_cache(maxsize=10_000)
def is_withheld(raw: object) -> bool:
    """True for a number that was not told."""
    return raw is None or str(raw).strip().casefold() in WITHHELD


def is_short(raw: str | None) -> bool:
    """True for digits too few to be anything but an extension or a service number."""
    return (
        raw is not None and raw.isdecimal() and len(raw) <= MAX_EXTENSION_DIGITS and not raw.startswith("00")
    )


@lru_cache(maxsize=10_000)
def clean_name(raw: str | None) -> str:
    """A name without the quotes, brackets, numbers and group prefix that the platform puts around it.

    '"Ann" <2079460001>' is 'Ann'; '"442079460001" <2079460001>' and 'Example Shop | 442079460001' hold no
    name of the caller (the latter is `<ring group> | <number>`), so they are ''.
    """
    if not raw:
        return ""
    name = _IN_ANGLE_BRACKETS.sub(" ", raw).replace('"', " ")
    name = " ".join(name.rpartition("|")[2].split())
    compact = _SEPARATORS.sub("", name)
    return "" if _DIGITS.match(compact) or compact.casefold() in WITHHELD else name


def parse_clid_number(raw: str | None) -> str | None:
    """The number in '"442079460002" <442079460002>': what stands between the brackets, else the digits."""
    if not raw:
        return None
    bracket_match = re.search(r"<([^<>]*)>", raw)
    digits = _SEPARATORS.sub("", bracket_match[1] if bracket_match else raw.replace('"', ""))
    return digits if _DIGITS.match(digits) else None


class PhoneNumbers:
    """Reads numbers the way `country` (ISO 3166, as 'GB'; None: international only) dials them.

    Answers are cached by the raw text: parsing takes some 30 µs, and an office's numbers repeat.
    """

    def __init__(self, country: str | None = None) -> None:
        self.country = country.upper() if country else None
        self._cached_parse = lru_cache(maxsize=100_000)(self._parse)
        self._cached_e164 = lru_cache(maxsize=100_000)(self._format_e164)

    def to_e164(self, raw: object) -> str | None:
        """'+442079460001' for any spelling of it; None for extensions, withheld and unreadable ones."""
        return self._cached_e164(str(raw)) if raw else None

    def format_national(self, raw: object) -> str:
        """'020 7946 0001' for numbers of `country`, '+1 202-555-0101' for others; else as received."""
        return self.format_display(raw)[0]

    def format_display(self, value: object) -> tuple[str, str]:
        """(the form for reading, the international form); both as received where it is not readable."""
        if not value:
            return "", ""
        raw = str(value)
        number = self._cached_parse(raw)
        if number is None:
            return raw, raw
        international = phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL)
        if self.country is None or phonenumbers.region_code_for_country_code(number.country_code or 0) != (
            self.country
        ):
            return international, international
        return phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL), international

    def get_party_key(self, raw: str | None) -> str:
        """What two spellings of one party share: E.164, else the text itself, '' where withheld."""
        if is_withheld(raw) or raw is None:
            return ""
        return self.to_e164(raw) or raw.strip()

    def _format_e164(self, raw: str) -> str | None:
        number = self._cached_parse(raw)
        return None if number is None else phonenumbers.format_number(number, PhoneNumberFormat.E164)

    def _parse(self, raw: str) -> phonenumbers.PhoneNumber | None:
        text = _SEPARATORS.sub("", raw)
        if len(text) > 20 or not text.isascii() or not _DIGITS.match(text) or is_short(text):
            return None
        if text.startswith(("+", "00")):
            number = self._try_parse("+" + text.removeprefix("+").removeprefix("00"), None)
            return number if number is not None and phonenumbers.is_possible_number(number) else None
        candidates: list[tuple[str, str | None]] = [] if text.startswith("0") else [("+" + text, None)]
        candidates += [(text, self.country)] if self.country else []
        unassigned = []
        for candidate, country in candidates:
            number = self._try_parse(candidate, country)
            if number is not None:
                if phonenumbers.is_valid_number(number):
                    return number
                unassigned.append(number)
        # Neither is in use as far as the library knows; new ranges and those reserved for fiction are not.
        return next((number for number in unassigned if phonenumbers.is_possible_number(number)), None)

    @staticmethod
    def _try_parse(text: str, country: str | None) -> phonenumbers.PhoneNumber | None:
        try:
            return phonenumbers.parse(text, country)
        except phonenumbers.NumberParseException:
            return None
