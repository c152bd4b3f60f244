"""Numbers and names in every spelling the platform has for them."""

from __future__ import annotations

import pytest

from integration.core.phone_numbers import PhoneNumbers, clean_name, is_withheld, parse_clid_number

BRITISH, AMERICAN, NOWHERE = PhoneNumbers("gb"), PhoneNumbers("US"), PhoneNumbers()


@pytest.mark.parametrize(
    "raw",
    ["442079460001", "00442079460001", "+442079460001", "+44 (20) 7946-0001", "02079460001", "2079460001"],
)
def test_every_spelling_of_a_number_is_one(raw: str) -> None:
    assert BRITISH.to_e164(raw) == "+442079460001"
    assert BRITISH.format_display(raw) == ("020 7946 0001", "+44 20 7946 0001")


@pytest.mark.parametrize(
    "raw", [None, "", "1001", "101", "anonymous", "sip:ann@example.com", "9" * 40, "+", "٤٤٢٠"]
)
def test_extensions_and_unreadable_numbers_have_no_e164_and_stay_as_received(raw: str | None) -> None:
    assert BRITISH.to_e164(raw) is None
    assert BRITISH.format_national(raw) == (raw or "")


def test_numbers_that_are_not_in_use_are_read_as_international_ones() -> None:
    assert BRITISH.to_e164("447700900101") == "+447700900101"
    assert BRITISH.to_e164("07700900101") == "+447700900101"


def test_without_a_country_only_international_spellings_are_read() -> None:
    assert NOWHERE.to_e164("02079460001") is None
    assert NOWHERE.to_e164("442079460001") == "+442079460001"
    assert NOWHERE.format_national("442079460001") == "+44 20 7946 0001"


def test_a_number_of_another_country_reads_international() -> None:
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
def test_names_are_cleaned_of_what_the_platform_puts_around_numbers(raw: str | None, name: str) -> None:
    assert clean_name(raw) == name


def test_what_is_withheld_is_known_and_a_caller_id_has_its_number() -> None:
    assert is_withheld(None)
    assert is_withheld(" Anonymous ")
    assert not is_withheld("447700900101")
    assert parse_clid_number('"442079460002" <+442079460002>') == "+442079460002"
    assert parse_clid_number("442079460002") == "442079460002"
    assert parse_clid_number("Ann") is None
