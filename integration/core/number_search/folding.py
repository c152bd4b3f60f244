"""Fold every spelling of numbers to ASCII digits and separators.

A folded text has the length of the original, so a match has the same position in both. Digits of all scripts
become 0 to 9. Dashes, dots, spaces and other signs between digits become one separator. Invisible characters,
and all but the first character of an escape sequence, become a filler, which counts as no character.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

SEPARATOR, FILLER, OTHER = " ", "\x00", "x"
"""Characters of a folded text besides digits. OTHER is every sign that does not occur within numbers."""

_SEPARATOR_SIGNS = frozenset("()./\\+,_'’·•")
"""Signs between digits that are neither dashes nor spaces by their Unicode category."""
_SIGN_CATEGORIES = {"Pd", "Zs", "Zl", "Zp", "Cs"}
"""Categories of separators: dashes, spaces, and the bytes of other encodings (lone surrogates)."""
_FILLER_CATEGORIES = {"Cf", "Mn", "Me", "Cn"}
"""Categories of invisible characters, such as zero-width spaces and the frame of keycap digits."""

_ESCAPE = re.compile(
    # Each alternative begins with a literal: re skips other characters ten times as fast.
    r"\\\\*u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair in JSON
    r"|\\\\*u[0-9a-fA-F]{4}|\\\\*[nrtbf]|%(?:25)*[0-9a-fA-F]{2}(?:%(?:25)*[0-9a-fA-F]{2})*|&\#?[0-9A-Za-z]{1,8};"
)
_ESCAPE_SIGNS = frozenset("\\%&")


class _FoldTable(dict[int, str]):
    """Folded character by code point; filled when a character occurs first."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_character(chr(code))
        return folded


def _fold_character(character: str) -> str:
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    category = unicodedata.category(character)
    if character in "\t\n\r\v\f" or category in _SIGN_CATEGORIES or character in _SEPARATOR_SIGNS:
        return SEPARATOR
    if category == "Cc" or category in _FILLER_CATEGORIES:
        return FILLER
    # Full-width signs and the mathematical minus have an ASCII form or a name that shows their use.
    compatible = unicodedata.normalize("NFKC", character)
    if compatible != character and all(_fold_character(part) == SEPARATOR for part in compatible):
        return SEPARATOR
    is_dash = category == "Sm" and "MINUS" in unicodedata.name(character, "")
    is_dot = category in ("Po", "Sm") and re.search("DOT|STOP", unicodedata.name(character, ""))
    return SEPARATOR if is_dash or is_dot else OTHER


_TABLE = _FoldTable()
_ASCII_TABLE = {code: _fold_character(chr(code)) for code in range(128)}
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_DIGITS = (
    r"\d\u00b2\u00b3\u00b9\u1369-\u1371\u19da\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c"
    r"\u2488-\u2490\u24ea\u24f5-\u24fd\u24ff\u2776-\u277e\u2780-\u2788\u278a-\u2792\U00010a40-\U00010a43"
    r"\U00010e60-\U00010e68\U00011052-\U0001105a\U0001f100-\U0001f10a"
)
"""Characters that `fold` turns into digits. `\\d` has no superscript and circled digits."""
_ANY_DIGIT, _NO_DIGITS = re.compile(f"[{_DIGITS}]"), re.compile(f"[^{_DIGITS}]+")


def fold(text: str) -> str:
    """Return the folded text, with escape sequences as they are written."""
    if not text.isascii():
        # Python translates ASCII texts 25 times as fast as others.
        text = _NON_ASCII.sub(lambda match: match[0].translate(_TABLE), text)
    return text.translate(_ASCII_TABLE)


def has_digits(text: str) -> bool:
    """Return whether the folded text has digits."""
    return _ANY_DIGIT.search(text) is not None


def extract_digits(text: str) -> str:
    """Return only the digits of the folded text.

    Takes a fifth of the time of `fold` for binary content.
    """
    return fold(_NO_DIGITS.sub("", text))


def fold_variants(text: str) -> Iterator[str]:
    """Yield the folded text as written, then with escape sequences resolved.

    The second is left out for a text without escape sequences of JSON, URLs and HTML (also `%252B`).
    """
    return map(fold, iterate_variants(text))


def iterate_variants(text: str) -> Iterator[str]:
    """Yield the text as written, then with escape sequences resolved."""
    yield text
    if not _ESCAPE_SIGNS.isdisjoint(text):
        resolved = _ESCAPE.sub(lambda match: _resolve(match[0]), text)
        if resolved != text:
            yield resolved


def _resolve(escape: str) -> str:
    """Return the characters of an escape sequence, padded to its length."""
    if escape[0] == "%":
        return _resolve_percent(escape)
    if escape[0] == "&":
        character = html.unescape(escape)
        return character.ljust(len(escape), FILLER) if len(character) < len(escape) else escape
    letter = escape.lstrip("\\")
    if letter[0] != "u":
        return SEPARATOR.ljust(len(escape), FILLER)
    units = [int(part[:4], 16) for part in re.split(r"\\+u", escape)[1:]]
    character = b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass")
    return character.ljust(len(escape), FILLER)


def _resolve_percent(escape: str) -> str:
    codes = re.findall(r"%(?:25)*[0-9a-fA-F]{2}", escape)
    characters = bytes(int(part[-2:], 16) for part in codes).decode("utf-8", "surrogateescape")
    resolved, position = [], 0
    for character in characters:
        byte_count = len(character.encode("utf-8", "surrogateescape"))
        width = sum(len(part) for part in codes[position : position + byte_count])
        resolved.append(character.ljust(width, FILLER))
        position += byte_count
    return "".join(resolved)
