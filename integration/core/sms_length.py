"""Length of an SMS: encoding, units and parts (3GPP TS 23.038 and 23.040)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
"""Characters of one septet (TS 23.038, 6.2.1)."""
_EXTENDED = frozenset("\f^{}\\[~]|€")
"""Characters of two septets: an escape and a character of the extension table (TS 23.038, 6.2.1.1)."""
_LIMITS = {"7-bit": (160, 153), "UCS-2": (70, 67)}
"""Units of a message with one part, and of each part of a longer one, which has a header of 6 bytes."""


@dataclass(frozen=True, slots=True)
class SmsLength:
    """Length of a text. `units` are septets (7-bit) or 16-bit units (UCS-2), which is what a phone counts."""

    encoding: Literal["7-bit", "UCS-2"]
    units: int
    parts: int


def measure(text: str) -> SmsLength:
    """Return the length of a text. A character of two units is never divided between two parts."""
    if _BASIC.union(_EXTENDED).issuperset(text):
        return _divide("7-bit", [2 if character in _EXTENDED else 1 for character in text])
    return _divide("UCS-2", [2 if ord(character) > 0xFFFF else 1 for character in text])


def _divide(encoding: Literal["7-bit", "UCS-2"], sizes: Iterable[int]) -> SmsLength:
    sizes = list(sizes)
    single, part = _LIMITS[encoding]
    units = sum(sizes)
    if units <= single:
        return SmsLength(encoding, units, 1)
    parts, used = 1, 0
    for size in sizes:
        if used + size > part:
            parts, used = parts + 1, 0
        used += size
    return SmsLength(encoding, units, parts)
