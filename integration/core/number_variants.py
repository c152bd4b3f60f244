"""Search for telephone numbers in texts, in every notation.

Notations: international with plus, 00, 011 or no prefix, national, with or without separators, in the digits
and separators of any script (`number_search.folding`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

from integration.core.number_search import folding

T = TypeVar("T")

ERASED = "erased"
"""Replacement text of an erased number."""

_MAX_SEPARATORS = 5
"""Maximum number of separators between two digits of one number."""
_DIGIT_RUN = re.compile(r"[0-9][0-9 \0]{5,}[0-9]")
"""Digits, separators and fillers of a folded text."""
_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))
_DIGIT_GROUP = re.compile(r"[0-9]+")
_PLUS = re.compile(r"[+＋]|%(?:25)*2[bB]|\\+u002[bB]")
MIN_DIGITS = 7
"""Minimum digits of a national number in a search.

Fewer match extensions, dates and parts of ids.
"""


def variants(e164: str) -> frozenset[str]:
    """Return the digits of every notation of a number.

    `e164`: such as '+447700900123'. Raises ValueError if the library cannot parse the text.
    """
    # Imported here, because it takes 30 ms, and exports need only other functions of this module.
    import phonenumbers

    try:
        number = phonenumbers.parse(e164, None)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"{e164!r} is not a telephone number in E.164 form.") from error
    code = str(number.country_code)
    significant = phonenumbers.national_significant_number(number)
    national = folding.extract_digits(
        phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    )
    prefixed = {
        f"{prefix}{code}{national_part}"
        for prefix in ("", "00", "011")
        for national_part in (significant, national)
    }
    return frozenset(
        prefixed | {variant for variant in (significant, national) if len(variant) >= MIN_DIGITS}
    )


class Finder(Generic[T]):
    """Find the numbers for which `lookup(digits)` returns a value.

    `lengths`: numbers of digits of all variants. `hints`: digit sequences of which each number contains one;
    texts without any of them are skipped quickly.
    """

    def __init__(
        self, lengths: Collection[int], lookup: Callable[[str], T | None], hints: Collection[str] = ()
    ) -> None:
        self._hints = [hint.encode() for hint in hints]
        self._lengths = frozenset(lengths)
        self._max_length = max(lengths, default=0)
        self._lookup = lookup

    def find(self, text: str) -> Iterator[tuple[int, int, T]]:
        """Yield start, end and looked-up value of each number in `text`."""
        for folded in folding.fold_variants(text):
            if self._hints:
                compact = folded.encode().translate(None, _NO_DIGITS)
                if not any(hint in compact for hint in self._hints):
                    continue
            for begin, end, info in self._find_in_folded(folded):
                yield _find_plus(text, folded, begin), end, info

    def _find_in_folded(self, folded: str) -> Iterator[tuple[int, int, T]]:
        for run in _DIGIT_RUN.finditer(folded):
            # A run can contain two adjacent numbers, so each sequence of groups is looked up.
            groups = [group.span() for group in _DIGIT_GROUP.finditer(folded, *run.span())]
            resume_at = 0
            for first, (begin, _) in enumerate(groups):
                if begin < resume_at:
                    continue
                digits, last = "", begin
                for start, end in groups[first:]:
                    digits += folded[start:end]
                    if (
                        len(digits) > self._max_length
                        or folded.count(folding.SEPARATOR, last, start) > _MAX_SEPARATORS
                    ):
                        break
                    last = end
                    if len(digits) in self._lengths and (info := self._lookup(digits)) is not None:
                        resume_at = _skip_fillers(folded, end)
                        yield begin, resume_at, info
                        break

    def contains_number(self, text: str) -> bool:
        """Return whether `text` contains any of the numbers."""
        return next(self.find(text), None) is not None

    def contains_number_in_bytes(self, body: bytes) -> bool:
        """Return whether `body` contains any of the numbers, in UTF-8 or UTF-16."""
        return any(self.contains_number(text) for _, text in _decode_variants(body))

    def replace_numbers(self, text: str, replacement: str) -> str:
        """Return `text` with each number replaced by `replacement`."""
        pieces, position = [], 0
        for begin, end in sorted((begin, end) for begin, end, _ in self.find(text)):
            if begin >= position:
                pieces += [text[position:begin], replacement]
            position = max(position, end)
        return "".join([*pieces, text[position:]])

    def replace_numbers_in_bytes(self, body: bytes, replacement: str) -> bytes:
        """Apply `replace_numbers` to bytes, in their encoding."""
        for codec, text in _decode_variants(body):
            if self.contains_number(text):
                encoded = self.replace_numbers(text, replacement).encode(*codec)
                # A body in UTF-16 can end with half a character.
                body = encoded + (body[-1:] if codec[0] != "utf-8" and len(body) % 2 else b"")
        return body


def _find_plus(text: str, folded: str, begin: int) -> int:
    """Return the position of a plus before `begin`, else `begin`."""
    previous = len(folded[:begin].rstrip(folding.FILLER)) - 1
    return previous if previous >= 0 and _PLUS.fullmatch(text, previous, begin) else begin


def _skip_fillers(folded: str, position: int) -> int:
    while folded[position : position + 1] == folding.FILLER:
        position += 1
    return position


def _decode_variants(body: bytes) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield (codec, error handler) and text of each possible encoding.

    Every text can be encoded to the same bytes again.
    """
    is_utf16 = body[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or body.count(0) * 3 > len(body)
    if is_utf16 or b"\0" in body:
        for name in ("utf-16-le", "utf-16-be"):
            yield (name, "surrogatepass"), body[: len(body) // 2 * 2].decode(name, "surrogatepass")
    if not is_utf16:
        yield ("utf-8", "surrogateescape"), body.decode("utf-8", "surrogateescape")


def make_finder(e164s: Collection[str]) -> Finder[str]:
    """Return a Finder of these numbers. Its values are their E.164 forms."""
    e164_by_variant = {digits: e164 for e164 in e164s for digits in variants(e164)}
    hints = {
        variant
        for variant in e164_by_variant
        if not any(other != variant and other in variant for other in e164_by_variant)
    }
    return Finder({len(digits) for digits in e164_by_variant}, e164_by_variant.get, hints)
