"""Encoding, units and parts of an SMS, counted by hand."""

from __future__ import annotations

import pytest

from integration.core.sms_length import SmsLength, measure


@pytest.mark.parametrize(
    ("text", "encoding", "units", "parts"),
    [
        ("", "7-bit", 0, 1),
        ("a" * 160, "7-bit", 160, 1),
        ("a" * 161, "7-bit", 161, 2),
        ("a" * 306, "7-bit", 306, 2),
        ("a" * 307, "7-bit", 307, 3),
        ("a" * 480, "7-bit", 480, 4),
        ("Àé", "UCS-2", 2, 1),
        ("éàùìòäöüñÄÖÜÑÅåØøÆæßÉÇ¡¿§£¥¤@_\n\r", "7-bit", 32, 1),
        ("ΔΦΓΛΩΠΨΣΘΞ", "7-bit", 10, 1),
        # Each character of the extension table takes two septets.
        ("^{}\\[~]|€\f", "7-bit", 20, 1),
        ("€" * 80, "7-bit", 160, 1),
        ("€" * 81, "7-bit", 162, 2),
        # 153 septets do not hold 77 characters of two: 76 are in each part.
        ("€" * 152, "7-bit", 304, 2),
        ("€" * 153, "7-bit", 306, 3),
        ("a" * 152 + "€" + "a" * 151, "7-bit", 305, 2),
        ("a" * 152 + "€" + "a" * 152, "7-bit", 306, 3),
        # One other character makes all of them 16 bits: cedilla, apostrophe of a word processor, backtick.
        ("a" * 69 + "ç", "UCS-2", 70, 1),
        ("a" * 70 + "’", "UCS-2", 71, 2),
        ("`", "UCS-2", 1, 1),
        ("ж" * 134, "UCS-2", 134, 2),
        ("ж" * 135, "UCS-2", 135, 3),
        # A character outside the basic plane takes two units, which stay in one part.
        ("😀" * 35, "UCS-2", 70, 1),
        ("😀" * 36, "UCS-2", 72, 2),
        ("😀" * 66, "UCS-2", 132, 2),
        ("😀" * 67, "UCS-2", 134, 3),
    ],
)
def test_length(text: str, encoding: str, units: int, parts: int) -> None:
    assert measure(text) == SmsLength(encoding, units, parts)
