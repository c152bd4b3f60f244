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
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from integration.core import number_variants
from integration.core.number_search import folding
from integration.core.number_search.reading import read_number

_WITHHELD_WORDS = frozenset(
    ("anonymous", "withheld", "private", "restricted", "unavailable", "unknown", "hidden", "blocked")
)
"""Words that stand for a withheld number, alone or with words of _CALLER_WORDS ('Private number')."""
_CALLER_WORDS = frozenset(("no", "number", "caller", "id", "cli"))
_WORDS_WITHOUT_NAME = _WITHHELD_WORDS | _CALLER_WORDS
_WORD = re.compile(r"\w+")
_KEYPAD_ANONYMOUS = "266696687"
"""'anonymous' on the keypad of a telephone, which some networks send as the number."""
_EMERGENCY_OF_ZEROS = "000"
"""Emergency number of Australia."""
_URI = re.compile(r"\s*(?:sips?:|tel:)?([^@;]*)(?:[@;].*)?", re.IGNORECASE | re.DOTALL)
"""A SIP or tel URI, or a number; the group is the user or number."""
_URI_SIGNS = frozenset("<:@;")
"""Without one of these signs a text is no URI and has none in brackets."""

MAX_EXTENSION_DIGITS = 6
"""Maximum digits of an extension or service number."""

_COUNTRY_NAMES = {"US": "North America", "GB": "United Kingdom"}
"""Names that differ from the time zone database. +1 is more than the United States."""

_SHORT_COUNTRY_NAMES = {"United Kingdom": "UK", "United States": "US"}
"""Countries that the platform names otherwise than the time zone database, with their short names."""

CACHED_NUMBERS = 4096
"""Numbers and names whose results are cached; with all their forms they take 3 MB.

An account meets new numbers all its life, so larger caches would grow for weeks.
"""

_MAX_E164_DIGITS = 15
_NUMBER_KINDS = (
    "premium_rate",
    "toll_free",
    "shared_cost",
    "voip",
    "personal_number",
    "pager",
    "uan",
    "voicemail",
    "fixed_line",
    "mobile",
)
"""Parts of a numbering plan in `phonenumbers` by which it accepts a number as assigned."""

_IN_ANGLE_BRACKETS = re.compile(r"<[^<>]*>")


@lru_cache(maxsize=CACHED_NUMBERS)
def is_withheld(raw: object) -> bool:
    """Return whether a party is no number and no extension.

    The caller withholds the number, or a name replaces it. Such parties have no key: two of them are two
    callers. The number may have any notation, also in a SIP or tel URI. Some networks send zeros
    in its place. An erased number is not withheld.
    """
    text = _get_user("" if raw is None else str(raw))
    if text == number_variants.ERASED:
        return False
    written = read_number(text)
    if written is None:
        return not folding.extract_digits(text) or any(character.isalpha() for character in text)
    digits = written.number.removeprefix("+").removeprefix("00")
    return digits == _KEYPAD_ANONYMOUS or (not digits.strip("0") and text != _EMERGENCY_OF_ZEROS)


def _get_user(text: str) -> str:
    """Return the user or number of a URI or caller id such as '"Zoe" <sip:447700900101@pbx.example>'."""
    if text.isdecimal():
        return text
    if _URI_SIGNS.isdisjoint(text):
        return text.lstrip()
    bracketed = _IN_ANGLE_BRACKETS.search(text)
    match = _URI.fullmatch(bracketed[0][1:-1] if bracketed else text)
    return text if match is None else match[1]


def _is_withheld_name(name: str) -> bool:
    first = _WORD.search(name)
    if first is not None and first[0].casefold() not in _WORDS_WITHOUT_NAME:
        return False  # Most names. To fold all words takes three times as long.
    words = _WORD.findall(name.casefold())
    return _WORDS_WITHOUT_NAME.issuperset(words) and (
        not words or not _WITHHELD_WORDS.isdisjoint(words) or (len(words) > 1 and words[0] == "no")
    )


def is_short(raw: str | None) -> bool:
    """Return whether a number has the length of extensions or service numbers."""
    return (
        raw is not None and len(raw) <= MAX_EXTENSION_DIGITS and raw.isdecimal() and not raw.startswith("00")
    )


@lru_cache(maxsize=CACHED_NUMBERS)
def clean_name(raw: str | None) -> str:
    """Remove quotes, brackets, numbers and the group prefix from a name.

    '"Ann" <2079460001>' returns 'Ann'. '"442079460001" <2079460001>' and 'Example Shop | 442079460001'
    contain no caller name (the latter is `<ring group> | <number>`) and return ''.
    """
    if not raw:
        return ""
    name = _IN_ANGLE_BRACKETS.sub(" ", raw) if "<" in raw else raw
    name = name.replace('"', " ")
    name = " ".join(name.rpartition("|")[2].split())
    written = read_number(name)
    is_number = written is not None and written.is_plain
    return "" if is_number or _is_withheld_name(_get_user(name)) else name


def parse_clid_number(raw: str | None) -> str | None:
    """Return the number of a caller id such as '"442079460002" <442079460002>'.

    That is the text in the brackets, else the entire text; None if it is not a number.
    """
    if not raw:
        return None
    bracket_match = re.search(r"<([^<>]*)>", raw)
    written = read_number(bracket_match[1] if bracket_match else raw.replace('"', ""))
    return written.number if written and written.is_plain else None


class PhoneNumbers:
    """Parse and format numbers for one country.

    `country`: ISO 3166 code such as 'GB'; None accepts international numbers only. Results are cached by the
    raw text: parsing takes about 60 µs (3 µs for `is_assigned`), and the numbers of an account repeat.
    """

    def __init__(self, country: str | None = None) -> None:
        self.country = country.upper() if country else None
        self._cached_display = lru_cache(maxsize=CACHED_NUMBERS)(self._format_display)
        self._cached_e164 = lru_cache(maxsize=CACHED_NUMBERS)(self._format_e164)

    def to_e164(self, raw: object) -> str | None:
        """Return the E.164 form ('+442079460001'); None for extensions, withheld or invalid numbers.

        `number_search.reading` has the notations. An extension behind a number is not part of the result.
        """
        return self._cached_e164(str(raw)) if raw else None

    def format_national(self, raw: object) -> str:
        """Return the form for display; an invalid number as received.

        '020 7946 0001' for numbers of `country`, '+1 202-555-0101' for others.
        """
        return self.format_display(raw)[0]

    def format_display(self, value: object) -> tuple[str, str]:
        """Return the form for display and the international form.

        Invalid numbers, and those with an extension or a label, are returned as received.
        """
        return self._cached_display(str(value)) if value else ("", "")

    def to_platform_form(self, text: str) -> str:
        """Return a number in the platform's form for its fields: digits of E.164 without plus.

        Other texts, and numbers with an extension or a label, are returned unchanged.
        """
        written = read_number(text)
        e164 = self.to_e164(text) if written and written.is_plain else None
        return e164.removeprefix("+") if e164 else text

    def to_dialable(self, text: str) -> str:
        """Return the digits to dial: those of E.164, else those written, such as an extension.

        The extension behind a number is not dialled. '' for a text that is no number of at most 20 digits.
        """
        written = read_number(text)
        digits = (self.to_e164(text) or (written.number if written else "")).removeprefix("+")
        return digits if len(digits) <= 20 else ""

    def restore_contact(self, contact: str) -> str:
        """Return the E.164 form of a message's contact, which is without plus or 00; a name as sent.

        Contacts are also names such as 'ACME Bank', short numbers such as '60300', and national numbers.
        """
        return self.to_e164(f"+{contact}") or self.to_e164(contact) or contact

    def get_party_key(self, raw: str | None) -> str:
        """Return a key that is equal for all notations of one party.

        The key is the E.164 form, else the text itself; '' for a withheld number.
        """
        if raw is None or is_withheld(raw) or raw == number_variants.ERASED:
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

    def _format_display(self, raw: str) -> tuple[str, str]:
        written = read_number(raw)
        number = self._parse(written.number) if written and written.is_plain else None
        if number is None:
            return raw, raw
        international = phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL)
        if self.country is None or phonenumbers.region_code_for_country_code(number.country_code or 0) != (
            self.country
        ):
            return international, international
        return phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL), international

    def _format_e164(self, raw: str) -> str | None:
        written = None if is_withheld(raw) else read_number(raw)
        if written is None:
            return None
        text = written.number
        digits = text.removeprefix("+").removeprefix("00")
        if not is_short(text) and (is_assigned(digits) or self._is_plainly_international(text, digits)):
            return "+" + digits
        number = self._parse(text)
        return None if number is None else phonenumbers.format_number(number, PhoneNumberFormat.E164)

    def _is_plainly_international(self, text: str, digits: str) -> bool:
        """Return whether the library gives these digits, assigned or not.

        Numbers of new ranges and those reserved for fiction are not assigned. With a plus or `00` the length
        decides. Without, the digits must also be too long for a number of `country`.
        """
        if not _has_possible_length(digits):
            return False
        if text != digits or self.country is None:
            return True
        limit = _find_national_limit(self.country)
        return limit is not None and len(digits) > limit[0] and limit[1].match(digits) is None

    def _parse(self, text: str) -> phonenumbers.PhoneNumber | None:
        if len(text) > 20 or is_short(text):
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


def is_assigned(digits: str) -> bool:
    """Return whether the digits are an assigned number in E.164 form.

    The result of `phonenumbers` is then these digits. Only the plan of the calling code's main country is
    checked, at a twentieth of the cost. False means that the library has to decide.
    """
    if not digits.isdecimal() or not digits.isascii() or len(digits) > _MAX_E164_DIGITS:
        return False
    if digits.startswith("0"):  # int("01") would be the calling code 1
        return False
    for length in (1, 2, 3):
        code = digits[:length]
        if int(code) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            pattern = _load_number_patterns(code).get(len(digits) - length)
            return pattern is not None and pattern.match(digits, length) is not None
    return False


def _has_possible_length(digits: str) -> bool:
    """Return whether the digits have a possible length for their calling code.

    False also if the library might remove a prefix from the national number.
    """
    if not digits.isdecimal() or not digits.isascii() or len(digits) > _MAX_E164_DIGITS:
        return False
    code = None if digits.startswith("0") else find_calling_code(digits[:3])
    if code is None:
        return False
    national, plan = digits[len(code) :], _load_plan(code)
    return plan is not None and len(national) in plan[0] and plan[1].match(national) is None


@cache
def _load_plan(calling_code: str) -> tuple[frozenset[int], re.Pattern[str]] | None:
    """Return the possible lengths and the prefixes of national numbers.

    The library may remove these prefixes. None if the calling code belongs to no country.
    """
    region = phonenumbers.region_code_for_country_code(int(calling_code))
    plan = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
    if plan is None or plan.general_desc is None:
        return None
    prefixes = ["0", *filter(None, [plan.national_prefix_for_parsing])]
    return frozenset(plan.general_desc.possible_length), re.compile("|".join(f"(?:{p})" for p in prefixes))


@cache
def _find_national_limit(country: str) -> tuple[int, re.Pattern[str]] | None:
    """Return the most digits and the prefixes of dialled numbers.

    The library may remove these prefixes. Countries that share the calling code count as well. None for an
    unknown country.
    """
    code = phonenumbers.country_code_for_region(country)
    prefixes, lengths = ["0"], []
    for region in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(code, ()):
        plan = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
        if plan is None or plan.general_desc is None or not plan.general_desc.possible_length:
            return None
        lengths += [*plan.general_desc.possible_length, *plan.general_desc.possible_length_local_only]
        prefixes += filter(None, [plan.national_prefix_for_parsing, plan.international_prefix])
    return (max(lengths), re.compile("|".join(f"(?:{p})" for p in prefixes))) if lengths else None


@cache
def _load_number_patterns(calling_code: str) -> dict[int, re.Pattern[str]]:
    """Compile patterns of assigned national numbers, by number of digits.

    They exclude numbers that begin with a national prefix, from which the library may remove digits, and
    numbers that begin with 0. Other countries with the same calling code have no patterns.
    """
    region = phonenumbers.region_code_for_country_code(int(calling_code))
    plan = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
    general = None if plan is None else plan.general_desc
    if (
        plan is None
        or general is None
        or plan.leading_digits is not None
        or not general.national_number_pattern
    ):
        return {}
    prefix = f"(?!{plan.national_prefix_for_parsing})" if plan.national_prefix_for_parsing else ""
    kinds = [
        kind
        for kind in (getattr(plan, name) for name in _NUMBER_KINDS)
        if kind is not None and kind.national_number_pattern
    ]
    patterns = {}
    for length in general.possible_length:
        alternatives = "|".join(
            kind.national_number_pattern
            for kind in kinds
            if not kind.possible_length or length in kind.possible_length
        )
        if alternatives and length > 1:
            patterns[length] = re.compile(
                rf"(?!0){prefix}(?=(?:{general.national_number_pattern})\Z)(?:{alternatives})\Z"
            )
    return patterns


@lru_cache(maxsize=CACHED_NUMBERS)
def find_mobile_country(e164: str) -> str | None:
    """Return the country (ISO code) of a number that can be a mobile phone, else None."""
    try:
        number = phonenumbers.parse(e164, None)
    except phonenumbers.NumberParseException:
        return None
    if phonenumbers.number_type(number) not in (
        PhoneNumberType.MOBILE,
        PhoneNumberType.FIXED_LINE_OR_MOBILE,
    ):
        return None
    country: str | None = phonenumbers.region_code_for_number(number)
    return country


def get_calling_code(country: str | None) -> str | None:
    """Return the calling code of a country ('44' for 'GB'), or None."""
    code = phonenumbers.country_code_for_region(country.upper()) if country else 0
    return str(code) if code else None


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
    name = get_country_name(regions[0])
    return f"{name} (+{code})" if name else f"+{code}"


def get_country_name(country: str) -> str | None:
    """Return the name of a country by its ISO 3166 code."""
    return _COUNTRY_NAMES.get(country) or _load_country_names().get(country)


@lru_cache(maxsize=1_000)
def format_destination(name: str) -> str:
    """Return the platform's name of a destination with the place first.

    'United Kingdom London' returns 'London, UK'. A name without a country at its start is unchanged.
    """
    names = {country: country for country in _load_country_names().values()} | _SHORT_COUNTRY_NAMES
    country = max((known for known in names if name.startswith(f"{known} ")), key=len, default="")
    return f"{name.removeprefix(country).strip()}, {names[country]}" if country else name


@cache
def _load_country_names() -> dict[str, str]:
    """Read country names by ISO code from the time zone database."""
    table = resources.files("tzdata").joinpath("zoneinfo/iso3166.tab").read_text("utf-8")
    return dict(line.split("\t", 1) for line in table.splitlines() if line and not line.startswith("#"))
