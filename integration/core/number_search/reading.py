"""Read a telephone number as people and programs write it.

The one reader of numbers: for contacts, callers, searches, calls, SMS and privacy. `folding` has the signs.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from integration.core.number_search import folding

MAX_CHARACTERS = 100
"""Longest text that is read as one number."""

_NUMBER_SIGNS = frozenset("0123456789" + folding.SEPARATOR)
_URI = re.compile(
    r"\s*(?:(?:tel|callto):/*([^@;?]*)|sips?:([^@;?]*)@[^;?]*)(?:;([^?]*))?(?:\?.*)?", re.IGNORECASE
)
"""A tel (RFC 3966), callto or SIP URI. Groups: number, user, parameters."""
_CONTEXT = re.compile(r"(?:.*;)?phone-context=(\+[0-9]+)(?:;.*)?", re.IGNORECASE)
_WORDS_IN_BRACKETS = r"[(\[][^()\[\]\d]*[^\W\d_][^()\[\]\d]*[)\]]"
_LABEL = re.compile(rf"^{_WORDS_IN_BRACKETS}|{_WORDS_IN_BRACKETS}$")
_LABEL_WORDS = (
    r"(?:t|m|h|w|p|f|tel|tél|t[eé]l[eé]phone|tel[eé]fono?|phone|ph|mobile?|mob|móvil|cell|handy|home|work"
    r"|office|main|direct|business|private|personal|switchboard|fax)"
)
_EXTENSIONS = (
    (
        7,
        re.compile(
            r"(?:;ext=|[,;]?\s*[(\[]?(?:extensi[oó]n|e?xtn?|[x#~])[.:]?\s*)[0-9]{1,7}#?[)\]]?$", re.IGNORECASE
        ),
    ),
    (10, re.compile(r"\s*[,;]+\s*[0-9]{1,5}#?$")),
)
"""Minimum digits before an extension, and its form. After fewer digits a comma separates: '07700,900'."""
_LABELS = (
    (7, re.compile(rf"^{_LABEL_WORDS}\s*[.:]+", re.IGNORECASE)),
    (10, re.compile(rf"\s{_LABEL_WORDS}$", re.IGNORECASE)),
)
"""Minimum digits of a number with a label, and the form of the label.

Rejected: any word, because '0800 123 TAXI' and 'Order: 12345678' are no numbers.
"""


class WrittenNumber(NamedTuple):
    """A number that was read.

    `number`: ASCII digits, after a plus if it was written. An extension is not part of it, because no call or
    SMS can be addressed to it. `is_plain`: no extension, no label and no other part of a URI was written.
    """

    number: str
    is_plain: bool


def read_number(text: str) -> WrittenNumber | None:
    """Read a text that is one number; None for any other text.

    '020 7946 0104 x12', 'tel:+44-20-7946-0104;ext=12', '(work) ０２０ 7946‑0104', 'Tel. 020 7946 0104'
    and 'sip:+442079460104@pbx.example' are numbers.
    """
    if text.isascii() and text.removeprefix("+").isdecimal():
        return WrittenNumber(text, is_plain=True)
    if len(text) > MAX_CHARACTERS or not folding.has_digits(text):
        return None
    text = unicodedata.normalize("NFKC", text)
    shown = zip(text, folding.fold(text), strict=True)
    visible = "".join(character for character, folded in shown if folded != folding.FILLER)
    uri = _URI.fullmatch(visible)
    parameters = (uri[3] if uri else None) or ""
    body = ((uri[1] or uri[2] or "") if uri else visible).strip()
    context = _CONTEXT.fullmatch(parameters)
    if context and not body.startswith("+"):
        body = context[1] + body
    remaining = _LABEL.sub("", body).strip()
    for min_digits, label in _LABELS:
        if len(folding.extract_digits(remaining)) >= min_digits:
            remaining = label.sub("", remaining).strip()
    for min_digits, extension in _EXTENSIONS:
        match = extension.search(remaining)
        if match and len(folding.extract_digits(remaining[: match.start()])) >= min_digits:
            remaining = remaining[: match.start()]
            break
    folded = folding.fold(remaining)
    digits = folded.replace(folding.SEPARATOR, "")
    if not digits or not _NUMBER_SIGNS.issuperset(folded):
        return None
    has_plus = "+" in remaining[: len(folded) - len(folded.lstrip(folding.SEPARATOR))]
    is_plain = remaining == body and not parameters and (uri is None or uri[1] is not None)
    return WrittenNumber("+" + digits if has_plus else digits, is_plain)


def read_digits(text: str) -> str:
    """Return the digits by which a list searches a number; '' for a text that is no number.

    They are without plus, leading zeros and the zero in brackets, so each notation contains them.
    """
    written = read_number(text.replace("(0)", "") if text.strip().startswith(("+", "00")) else text)
    return written.number.lstrip("+0") if written else ""
