"""Telephone numbers and names in the formats of the platform."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import phonenumbers
import pytest

from integration.core.number_search.reading import read_digits, read_number
from integration.core.phone_numbers import (
    PhoneNumbers,
    clean_name,
    format_destination,
    is_withheld,
    parse_clid_number,
)

BRITISH, AMERICAN, NOWHERE = PhoneNumbers("gb"), PhoneNumbers("US"), PhoneNumbers()


@pytest.mark.parametrize(
    "raw",
    ["442079460001", "00442079460001", "+442079460001", "+44 (20) 7946-0001", "02079460001", "2079460001"],
)
def test_all_formats_of_a_number_have_the_same_e164(raw: str) -> None:
    assert BRITISH.to_e164(raw) == "+442079460001"
    assert BRITISH.format_display(raw) == ("020 7946 0001", "+44 20 7946 0001")


@pytest.mark.parametrize(
    "raw", [None, "", "1001", "101", "anonymous", "sip:ann@example.com", "9" * 40, "+", "٤٤٢٠"]
)
def test_extensions_and_invalid_numbers_have_no_e164_and_are_shown_unchanged(raw: str | None) -> None:
    assert BRITISH.to_e164(raw) is None
    assert BRITISH.format_national(raw) == (raw or "")


def test_the_context_of_a_tel_uri_is_the_country_of_its_number() -> None:
    for numbers in (BRITISH, AMERICAN, NOWHERE):
        assert numbers.to_e164("tel:02079460206;phone-context=+44") == "+442079460206"
        assert numbers.to_e164("tel:0612345678;phone-context=+39") == "+390612345678"


def test_unassigned_numbers_are_parsed() -> None:
    assert BRITISH.to_e164("447700900101") == "+447700900101"
    assert BRITISH.to_e164("07700900101") == "+447700900101"


def test_without_a_country_only_international_formats_are_parsed() -> None:
    assert NOWHERE.to_e164("02079460001") is None
    assert NOWHERE.to_e164("442079460001") == "+442079460001"
    assert NOWHERE.format_national("442079460001") == "+44 20 7946 0001"


def test_a_number_of_another_country_is_shown_in_international_format() -> None:
    assert BRITISH.format_national("12025550101") == "+1 202-555-0101"
    assert AMERICAN.format_national("12025550101") == "(202) 555-0101"
    assert AMERICAN.to_e164("2025550101") == "+12025550101"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ('"442079460001" <2079460001>', ""),
        ('"+442079460002" <+442079460002>', ""),
        ("Example Shop | 442079460001", ""),
        ("Example Shop | Zoe Caller", "Zoe Caller"),
        ('"Zoe  Caller" <447700900101>', "Zoe Caller"),
        ("Ann Example", "Ann Example"),
        ("anonymous", ""),
        (None, ""),
    ],
)
def test_clean_name_removes_numbers_and_prefixes_of_the_platform(raw: str | None, name: str) -> None:
    assert clean_name(raw) == name


def test_withheld_numbers_are_recognized_and_caller_ids_are_parsed() -> None:
    assert is_withheld(None)
    assert is_withheld(" Anonymous ")
    assert not is_withheld("447700900101")
    assert parse_clid_number('"442079460002" <+442079460002>') == "+442079460002"
    assert parse_clid_number("442079460002") == "442079460002"
    assert parse_clid_number("Ann") is None


@pytest.mark.parametrize(
    ("received", "shown"),
    [
        ("United Kingdom London", "London, UK"),
        ("United Kingdom Mobile", "Mobile, UK"),
        ("United States New York", "New York, US"),
        ("Germany Frankfurt am Main", "Frankfurt am Main, Germany"),
        ("Guinea-Bissau Bafata", "Bafata, Guinea-Bissau"),
        ("United States", "United States"),
        ("Londonderry", "Londonderry"),
        ("", ""),
    ],
)
def test_a_destination_is_shown_with_its_place_first(received, shown):
    assert format_destination(received) == shown


@pytest.mark.parametrize(
    ("raw", "e164"),
    [
        ("442079460001", "+442079460001"),
        ("+442079460001", "+442079460001"),
        ("00442079460001", "+442079460001"),
        ("12025550101", "+12025550101"),
        ("390612345678", "+390612345678"),
        ("442079", None),
        ("4407700900123", "+447700900123"),
        ("447700900123", "+447700900123"),
        ("442012345678", "+442012345678"),
        ("4420123456789", None),
        ("01512 3456789", None),
        ("0001512 3456789", None),
    ],
)
def test_the_e164_form_of_international_digits(raw: str, e164: str | None) -> None:
    assert PhoneNumbers("GB").to_e164(raw) == e164


def convert_by_library(text: str, country: str) -> str | None:
    """Return the E.164 form by the library alone.

    The first assigned reading of the digits counts, otherwise the first of a possible length.
    """
    readings = []
    for candidate, region in [("+" + text, None), (text, country)]:
        with suppress(phonenumbers.NumberParseException):
            readings.append(phonenumbers.parse(candidate, region))
    for check in (phonenumbers.is_valid_number, phonenumbers.is_possible_number):
        for number in readings:
            if check(number):
                return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return None


def list_unassigned_digits(rng: random.Random, count: int) -> Iterator[str]:
    """Return random digits after each calling code, and some neighbours of their lengths."""
    codes = sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)
    for _ in range(count):
        length = rng.choice((7, 8, 9, 10, 10, 10, 11, 12))
        yield f"{rng.choice([44, 44, 1, 49, 33, *codes])}{rng.randrange(10**length):0{length}d}"[:15]


@pytest.mark.exhaustive
@pytest.mark.parametrize("country", ["GB", "US", "DE", "IT", "AU", "RU", "IM", "MX"])
def test_random_digits_are_read_as_by_the_library(country: str) -> None:
    numbers = PhoneNumbers(country)
    rng = random.Random(country)
    examples = (text for text in list_example_digits(rng) if len(text) > 8)
    for text in chain(examples, list_unassigned_digits(rng, 3000)):
        assert numbers.to_e164(text) == convert_by_library(text, country), text
        plus = phonenumbers.parse(f"+{text}", None) if numbers.to_e164(f"+{text}") else None
        if plus is not None:
            form = phonenumbers.format_number(plus, phonenumbers.PhoneNumberFormat.E164)
            assert numbers.to_e164(f"+{text}") == form, text


def list_example_digits(rng: random.Random) -> Iterator[str]:
    for code, regions in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.items():
        for region in regions:
            for kind in range(11):
                number = phonenumbers.example_number_for_type(region, kind)
                if number is None:
                    continue
                text = f"{code}{phonenumbers.national_significant_number(number)}"
                position = rng.randrange(len(str(code)), len(text))
                digit = str(rng.randrange(10))
                yield from (
                    text,
                    text[:position] + digit + text[position + 1 :],
                    text[:position] + digit + text[position:],
                    text[:-1],
                    f"{code}0{text.removeprefix(str(code))}",
                )


@pytest.mark.parametrize(
    ("text", "number", "is_plain"),
    [
        ("+44 (0)7700 900-123", "+4407700900123", True),
        ("900123", "900123", True),
        ("٣٣٣٣", "3333", True),
        ("07700,900,123", "07700900123", True),
        ("07700900123X12", "07700900123", False),
        ("07700 900123,,12#", "07700900123", False),
        ("(t) 07700 900123", "07700900123", False),
        ("ACME Bank", None, False),
        ("07700 900123 or 07700 900124", None, False),
        ("*31#07700900123", None, False),
        ("2026-03-01 12:00:00", None, False),
        ("sip:442079460001@10.0.0.1", "442079460001", False),
        ("SIPS:+442079460001@example.com;user=phone?x=1", "+442079460001", False),
        ("tel:02079460206;phone-context=+44", "+4402079460206", False),
        ("tel:+442079460206;ext=4", "+442079460206", False),
        ("callto://+442079460206", "+442079460206", True),
        ("sip:ann900123@example.com", None, False),
        ("Tel.: 020 7946 0206", "02079460206", False),
        ("07700 900123 Mobile", "07700900123", False),
        ("0800 123 WORK", None, False),
        ("withheld:4270000001", None, False),
        ("mobile 07700 900123 work 07700 900124 home", None, False),
        ("ACME 4 U", None, False),
        ("Unit 7/12345678", None, False),
        ("(...)", None, False),
        ("​", None, False),
        ("", None, False),
        ("1" + "​" * 200, None, False),
    ],
)
def test_a_text_is_read_as_one_number_or_not_at_all(text: str, number: str | None, is_plain: bool) -> None:
    assert read_number(text) == (None if number is None else (number, is_plain))


def test_an_extension_is_not_dialled_and_stays_in_a_field_of_the_platform() -> None:
    written = "020 7946 0104 x12"
    assert BRITISH.to_dialable(written) == "442079460104"
    assert NOWHERE.to_dialable(written) == "02079460104"
    assert BRITISH.to_dialable("201") == "201"
    assert BRITISH.to_dialable("ACME 12") == BRITISH.to_dialable("1" * 21) == ""
    assert BRITISH.to_platform_form(written) == BRITISH.format_national(written) == written
    assert BRITISH.to_platform_form("020\u20117946\u20110104") == "442079460104"
    assert BRITISH.format_national("\u202a020 7946 0104\u202c") == "020 7946 0104"
    assert read_digits("+44 (0)20 7946 0104") == read_digits("00442079460104") == "442079460104"
    assert read_digits("(0)20 7946 0104 x12") == "2079460104"
    assert read_digits("acme 12") == read_digits("0") == ""
