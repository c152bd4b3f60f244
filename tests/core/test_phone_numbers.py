"""Telephone numbers and names in the formats of the platform."""

from __future__ import annotations

import pytest

from integration.core.phone_numbers import PhoneNumbers, clean_name, is_withheld, parse_clid_number

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
