"""Normalization and display of telephone numbers and caller names.

The platform writes international digits without plus, with `00`, with plus, or an extension
(docs/platform.md#14-numbers). Numbers are stored as received. This module computes the E.164 form for
matching and the national form for display.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

import phonenumbers
from phonenumbers import PhoneNumberFormat

from integration.core import number_variants

WITHHELD = frozenset(
    {"", "anonymous", "withheld", "private", "restricted", "unavailable", "unknown", "hidden"}
)
"""Values of a withheld number, in lower case. See docs/platform.md#14-numbers for the empty value."""

MAX_EXTENSION_DIGITS = 6
"""Maximum digits of an extension or service number."""

_COUNTRY_NAMES = {"US": "North America", "GB": "United Kingdom"}
"""Names that differ from the time zone database. +1 is more than the United States."""

_SEPARATORS = re.compile(r"[\s().\-/]")
_DIGITS = re.compile(r"^\+?\d+$")
_IN_ANGLE_BRACKETS = re.compile(r"<[^<>]*>")


@lru_cache(maxsize=10_000)
def is_withheld(raw: object) -> bool:
    """Return whether a number is missing or withheld by the caller."""
    return raw is None or str(raw).strip().casefold() in WITHHELD


def is_short(raw: str | None) -> bool:
    """Return whether a number has the length of extensions or service numbers."""
    return (
        raw is not None and raw.isdecimal() and len(raw) <= MAX_EXTENSION_DIGITS and not raw.startswith("00")
    )


@lru_cache(maxsize=10_000)
def clean_name(raw: str | None) -> str:
    """Remove quotes, brackets, numbers and the group prefix from a name.

    '"Ann" <2079460001>' returns 'Ann'. '"442079460001" <2079460001>' and 'Example Shop | 442079460001'
    contain no caller name (the latter is `<ring group> | <number>`) and return ''.
    """
    if not raw:
        return ""
    name = _IN_ANGLE_BRACKETS.sub(" ", raw).replace('"', " ")
    name = " ".join(name.rpartition("|")[2].split())
    compact = _SEPARATORS.sub("", name)
    return "" if _DIGITS.match(compact) or compact.casefold() in WITHHELD else name


def parse_clid_number(raw: str | None) -> str | None:
    """Return the number of a caller id such as '"442079460002" <442079460002>'.

    That is the text in the brackets, else the entire text; None if it is not a number.
    """
    if not raw:
        return None
    bracket_match = re.search(r"<([^<>]*)>", raw)
    digits = _SEPARATORS.sub("", bracket_match[1] if bracket_match else raw.replace('"', ""))
    return digits if _DIGITS.match(digits) else None


class PhoneNumbers:
    """Parse and format numbers for one country.

    `country`: ISO 3166 code such as 'GB'; None accepts international numbers only. Results are cached by the
    raw text: parsing takes about 30 µs, and the numbers of an account repeat.
    """

    def __init__(self, country: str | None = None) -> None:
        self.country = country.upper() if country else None
        self._cached_parse = lru_cache(maxsize=100_000)(self._parse)
        self._cached_e164 = lru_cache(maxsize=100_000)(self._format_e164)

    def to_e164(self, raw: object) -> str | None:
        """Return the E.164 form ('+442079460001'); None for extensions, withheld or invalid numbers."""
        return self._cached_e164(str(raw)) if raw else None

    def format_national(self, raw: object) -> str:
        """Return the form for display; an invalid number as received.

        '020 7946 0001' for numbers of `country`, '+1 202-555-0101' for others.
        """
        return self.format_display(raw)[0]

    def format_display(self, value: object) -> tuple[str, str]:
        """Return the form for display and the international form.

        Invalid numbers are returned as received.
        """
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
        """Return a key that is equal for all notations of one party.

        The key is the E.164 form, else the text itself; '' for a withheld number.
        """
        if is_withheld(raw) or raw is None:
            return ""
        return self.to_e164(raw) or raw.strip()

    def list_spellings(self, raw: object) -> list[str]:
        """Return the spellings that `to_e164` converts to the same number, `raw` first.

        Extensions and invalid numbers have one spelling. Separators between digits are not varied, because
        the platform writes none.
        """
        text = str(raw).strip()
        e164 = self.to_e164(text)
        if e164 is None:
            return [text] if text else []
        digits = sorted(number_variants.variants(e164))
        candidates = [*digits, *(f"+{variant}" for variant in digits)]
        return list(dict.fromkeys([text, *(form for form in candidates if self.to_e164(form) == e164)]))

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
        # The library lists no candidate as assigned. New number ranges and those reserved for fiction are
        # not listed either.
        return next((number for number in unassigned if phonenumbers.is_possible_number(number)), None)

    @staticmethod
    def _try_parse(text: str, country: str | None) -> phonenumbers.PhoneNumber | None:
        try:
            return phonenumbers.parse(text, country)
        except phonenumbers.NumberParseException:
            return None


@cache
def find_calling_code(digits: str | None) -> str | None:
    """Return the calling code at the start of an international number's digits.

    '44' for '442'; None for no known code.
    """
    for length in (1, 2, 3):
        if digits and int(digits[:length] or 0) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            return digits[:length]
    return None


@cache
def format_country_name(code: str | None) -> str:
    """Return the label of a calling code: 'United Kingdom (+44)'.

    Rejected: country names of `phonenumbers`, because its geocoder loads 40 MB of place names.
    """
    regions = phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(int(code or 0), ("001",))
    name = _COUNTRY_NAMES.get(regions[0]) or _load_country_names().get(regions[0])
    return f"{name} (+{code})" if name else f"+{code}"


@cache
def _load_country_names() -> dict[str, str]:
    """Read country names by ISO code from the time zone database."""
    table = resources.files("tzdata").joinpath("zoneinfo/iso3166.tab").read_text("utf-8")
    return dict(line.split("\t", 1) for line in table.splitlines() if line and not line.startswith("#"))
