"""Variants of telephone numbers in text."""

from __future__ import annotations

import pytest

from integration.core.number_variants import compile_pattern, digits, is_number, make_finder
from integration.mirror.privacy.erasure_gate import remove_number

UK, US = "+447700900123", "+12025550143"
FINDER = make_finder([UK, US])


@pytest.mark.parametrize(
    "text",
    [
        "+447700900123", "00447700900123", "447700900123", "07700900123", "7700900123", "+44 7700 900123",
        "+44 (0) 7700-900-123", "(07700) 900 123", "011447700900123", "12025550143", "(202) 555-0143",
        "202.555.0143", "tel:+447700900123;ext=1", "442079460002 447700900123", "447700900123-20260301120000",
        "mine is 0 77 00 90 01 23, ring me",
    ],
)  # fmt: skip
def test_every_variant_of_a_number_is_found(text: str) -> None:
    assert [e164 for _, _, e164 in FINDER.find(text)] == [US if "0143" in text else UK]
    assert compile_pattern(UK).search(text.encode()) or compile_pattern(US).search(text.encode())


@pytest.mark.parametrize(
    "text",
    ["447700900124", "4477009001234", "17700900123", "9447700900123", "447700 and 900123", "", "123",
     "2026-03-01 12:00:00", "900123"],
)  # fmt: skip
def test_other_digits_are_not_found(text: str) -> None:
    assert not FINDER.contains_number(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("ring 07700 900123 or +447700900123!", "ring erased or erased!"),
        (
            '{"a":"Ann <7700900123>","b":[447700900123,"x"],"n":1.50}',
            '{"a":"erased","b":[null,"x"],"n":1.50}',
        ),
        ('{"\\u0034\\u0034 7700 900123": {"live_id": 7700900123}}', '{"erased":{"live_id":7700900123}}'),
        ('{"unfinished": "07700900123', '{"unfinished": "erased'),
    ],
)
def test_a_number_is_removed_from_text_and_json_stays_valid(text: str, left: str) -> None:
    assert remove_number(text, FINDER) == left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+44 (0)7700 900-123", True),
        ("900123", True),
        ("----", False),
        ("(...)", False),
        ("ann 900123", False),
        ("٣٣٣٣", False),
        ("", False),
    ],
)
def test_is_number(text: str, expected: bool) -> None:
    assert is_number(text) is expected


def test_digits() -> None:
    assert digits("+44 (0)7700 900-123 ²٣") == "4407700900123"
