"""Hide the numbers and names of other persons in the stored data of one telephone number.

In fields of numbers everything but the person's number is hidden, in names everything but the person's names.
Other texts keep what remains without other numbers, e-mail addresses, and the names of contacts, users and
others in the person's records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from integration.catalogue.shapes import Meaning
from integration.core import clock
from integration.core.number_search import folding
from integration.core.number_variants import MIN_DIGITS, Finder
from integration.mirror.page_queries.search_index import fold

HIDDEN = "hidden"
"""Replacement of a hidden number or name."""

Meanings = Mapping[str, Meaning | None]

_NUMBER_MEANINGS = ("phone", "contact_phone", "extension", "caller_id")
_WORD_MEANINGS = ("code", "open_code", "choice")
_NAME_FIELD = re.compile(r"(?:^|_)(?:name|company|email|hash)$")
"""Fields with the name of a person, or with the platform's hash of a number (`src_hash`)."""
_NAMES_OF_RECORD = frozenset({"name", "first_name", "last_name", "company", "email"})
"""Fields with the name of the person whose numbers the record has."""
_ID_FIELD = re.compile(r"(^|_)(id|ids|seq)$")
_MASKED_DIGITS = re.compile(r"(?<=\d)[\s.-]*[*xX#…]{2,}|[*xX#…]{2,}(?=[\s.-]*\d)")
"""Signs in place of digits, as in '07700 900xxx'."""
_DIGIT_RUN = re.compile(r"[0-9](?:[0-9 \0]*[0-9])?\0*")
_DATE = re.compile(r"(?<!\d)(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d)(?!\d)(?:[ T]\d\d(?=:))?")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_WORD = re.compile(r"[^\W\d_]+(?:(?!['’][sS]\b)['’-][^\W\d_]+)*")
"""A word of a name. The possessive 's is a word of its own: "Carl's son" names Carl."""
_MAX_NAME_WORDS = 6
"""Most words of a name that is found within a text."""


class Redactor:
    """Hides numbers and names of others than the person whose number `finder` finds.

    `add_names` must get all records first, because a name of one record is hidden in the texts of others.
    """

    def __init__(self, finder: Finder[Any], other_names: Iterable[str]) -> None:
        self._finder = finder
        self._own_names: set[tuple[str, ...]] = set()
        self._other_names = {words for name in other_names if (words := _split_name(name))}

    def add_names(self, record: Mapping[str, Any], meanings: Meanings, nested: Meanings) -> None:
        """Collect the names of a record and of its nested records."""
        for name, value in record.items():
            if isinstance(value, str) and (words := self._read_name(name, meanings, value)):
                is_own = self._is_own_name(name, record, meanings)
                (self._own_names if is_own else self._other_names).add(words)
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, dict):
                    self.add_names(entry, nested, nested)

    def redact(self, record: Mapping[str, Any], meanings: Meanings, nested: Meanings) -> dict[str, Any]:
        """Return a record without numbers and names of others.

        `meanings` of its fields, `nested` of those of nested records.
        """
        return {
            self._redact_numbers(name): self._redact_value(name, value, record, meanings, nested)
            for name, value in record.items()
        }

    def _redact_value(
        self, name: str, value: Any, record: Mapping[str, Any], meanings: Meanings, nested: Meanings
    ) -> Any:
        if isinstance(value, dict):
            return self.redact(value, nested, nested)
        if isinstance(value, list):
            return [self._redact_value(name, entry, record, meanings, nested) for entry in value]
        if value is None or value == "" or isinstance(value, bool):
            return value
        meaning, text = meanings.get(name), str(value)
        if meaning in _NUMBER_MEANINGS and not self._finder.contains_number(text):
            return HIDDEN
        if not isinstance(value, str):
            # Documented numbers are durations, sizes, costs and times.
            is_kept = _ID_FIELD.search(name) or (name in meanings and meaning not in _NUMBER_MEANINGS)
            return value if is_kept or self._redact_numbers(text) == text else HIDDEN
        if clock.parse_utc(text) is not None or (_ID_FIELD.search(name) and name in meanings):
            return value
        if meaning in _WORD_MEANINGS:
            return self._redact_numbers(text)
        words = self._read_name(name, meanings, text)
        if words is None:
            return self.redact_text(text)
        is_own = self._is_own_name(name, record, meanings) or words in self._own_names
        return self._redact_numbers(text) if is_own else HIDDEN

    def _read_name(self, field: str, meanings: Meanings, text: str) -> tuple[str, ...] | None:
        """Return the words of a name; None for another field."""
        if not _NAME_FIELD.search(field) or meanings.get(field) in (*_NUMBER_MEANINGS, *_WORD_MEANINGS):
            return None
        return _split_name(text)

    def _is_own_name(self, name: str, record: Mapping[str, Any], meanings: Meanings) -> bool:
        """Return whether the number beside a name is the person's: `src` beside `src_name`."""
        prefix = name.rpartition("_")[0]
        return any(
            self._finder.contains_number(str(value))
            for field, value in record.items()
            if meanings.get(field) in _NUMBER_MEANINGS
            and (name in _NAMES_OF_RECORD or field == prefix or field.startswith(f"{prefix}_"))
        )

    def redact_text(self, text: str) -> str:
        """Return a text without numbers, e-mail addresses and stored names of others."""
        text = _EMAIL.sub(HIDDEN, self._redact_numbers(text))
        if not self._other_names:
            return text
        words = [(match.start(), match.end(), fold(match[0])) for match in _WORD.finditer(text)]
        spans, first = [], 0
        while first < len(words):
            for last in range(min(first + _MAX_NAME_WORDS, len(words)), first, -1):
                if self._is_other_name(tuple(word for _, _, word in words[first:last])):
                    spans.append((words[first][0], words[last - 1][1]))
                    first = last - 1
                    break
            first += 1
        return _replace(text, spans)

    def _is_other_name(self, words: tuple[str, ...]) -> bool:
        if words not in self._other_names or words in self._own_names:
            return False
        # The first name of another person can be that of this one.
        return len(words) > 1 or not any(words[0] in name for name in self._own_names)

    def _redact_numbers(self, text: str) -> str:
        """Replace each sequence of MIN_DIGITS digits or more, except the person's number and dates."""
        if not folding.has_digits(text):
            return text
        kept = [(begin, end) for begin, end, _ in self._finder.find(text)]
        kept += [match.span() for match in _DATE.finditer(text)]
        unmasked = _MASKED_DIGITS.sub(lambda match: "0" * len(match[0]), text)
        spans = [
            span for folded in folding.fold_variants(unmasked) for span in _find_digits(text, folded, kept)
        ]
        return _replace(text, spans)


def _find_digits(text: str, folded: str, kept: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    cleared = list(folded)
    for begin, end in kept:
        cleared[begin:end] = folding.OTHER * (end - begin)
    for run in _DIGIT_RUN.finditer("".join(cleared)):
        if len(folding.extract_digits(run[0])) >= MIN_DIGITS:
            has_plus = text[: run.start()].endswith(("+", "＋"))
            yield run.start() - has_plus, run.end()


def _replace(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, position = [], 0
    for begin, end in sorted(spans):
        if begin >= position:
            pieces += [text[position:begin], HIDDEN]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def _split_name(text: str) -> tuple[str, ...]:
    return tuple(fold(word) for word in _WORD.findall(text)) if len(text) > 1 else ()
