"""Records exactly as the platform sent them.

A `Document` is one record: its compact text (same keys, order and values as received) and its values for
the columns. Pages are read with orjson; where that could change a value (numbers beyond 64 bits or beyond
a double's digits, lone surrogates, absurd depth) a slower scanner keeps the text as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from integration.core.errors import PlatformBroken

_RISKY = re.compile(rb"[0-9][0-9.]{16,}|\\u[dD][89a-fA-F]|[0-9][eE][+-]?[0-9]{3}")
"""Digits that a 64-bit integer or a double may not hold, surrogates, huge exponents."""

_FLAT = bytes(
    ord("0" if byte in b"0123456789." else "e" if byte in b"eE" else "+" if byte in b"+-" else " ")
    for byte in range(256)
)
"""Makes what `_RISKY` looks for findable as plain text, and little else look like it."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_SCALAR = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|NaN|-?Infinity")


class Raw(str):
    """JSON text of a value that is kept unparsed: something nested, or a number too big to hold."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One record: `text` as received (compact JSON), `values` by field name."""

    text: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageDocuments:
    """A collection's answer: its records, `total` (None where absent or not a number), the other keys."""

    documents: list[Document]
    total: int | None
    rest: dict[str, Any] = field(default_factory=dict)


def read_page(body: bytes) -> PageDocuments:
    """The records of `{data: [...], total}` (specification, Response envelopes).

    `data` that is one object counts as one record. Raises PlatformBroken when this is no such answer.
    """
    if not _is_risky(body):
        parsed = _loads(body)
        if parsed is not None:
            data = parsed.pop("data", None)
            if isinstance(data, dict):
                data = [data]
            if not isinstance(data, list) or not all(isinstance(record, dict) for record in data):
                raise PlatformBroken("the answer has no list of records in `data`")
            return PageDocuments(
                [Document(orjson.dumps(record).decode(), record) for record in data],
                _total(parsed.pop("total", None)),
                parsed,
            )
    return _scan_page(body)


def read_item(body: bytes) -> Document:
    """The record of `{data: {...}, links}`, or of a bare object (observed.md §2, login bodies are flat).

    Raises PlatformBroken when the body is no JSON object.
    """
    if not _is_risky(body):
        parsed = _loads(body)
        if parsed is not None:
            record = parsed["data"] if isinstance(parsed.get("data"), dict) else parsed
            return Document(orjson.dumps(record).decode(), record)
    outer = _scan_object(_tokens(body))
    inner = outer.get("data")
    if isinstance(inner, Raw) and inner.startswith("{"):
        return _document(inner)
    return Document("".join(_tokens(body)), outer)


def read_object(text: str) -> Document:
    """One record from its stored text."""
    body = text.encode("utf-8", "surrogatepass")
    if not _is_risky(body):
        parsed = _loads(body)
        if parsed is not None:
            return Document(text, parsed)
    return _document(text)


def as_text(values: Mapping[str, Any]) -> str:
    """A record's compact text from its values, what was kept unparsed as it came."""
    parts = (
        f"{json.dumps(name, ensure_ascii=False)}:"
        + (value if isinstance(value, Raw) else json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        for name, value in values.items()
    )
    return "{" + ",".join(parts) + "}"


def rewritten(text: str, names: Callable[[str], bool], by: str, spare: re.Pattern[str]) -> str:
    """The same JSON, compact, with `by` for each string or key that `names` holds of, and null for each such
    number but in a field that `spare` finds. Raises PlatformBroken for what is no JSON."""
    tokens, field_name, instead = _tokens(text), "", json.dumps(by)
    for at, token in enumerate(tokens):
        if token.startswith('"'):
            plain = _plain(token)
            if tokens[at + 1 : at + 2] == [":"]:
                field_name = plain
            if names(plain):
                tokens[at] = instead
        elif token[0] in "-0123456789" and names(token) and not spare.search(field_name):
            tokens[at] = "null"
    return "".join(tokens)


def column_value(value: Any) -> Any:
    """What a column holds for `value`: as it came, a nested one as JSON text (interface.md §6, Mirror)."""
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return json.dumps(value)[1:-1]
        return str(value)
    return orjson.dumps(value).decode()


def _is_risky(body: bytes) -> bool:
    """Whether orjson could change a value. A regular expression begins anew at each digit: of a page it takes
    three times as long as reading it does, so it is asked only where plain searches find something."""
    flat = body.translate(_FLAT)
    found = b"0" * 17 in flat or b"0e000" in flat or b"0e+000" in flat or b"\\ud" in body or b"\\uD" in body
    return found and _RISKY.search(body) is not None


def _loads(body: bytes) -> dict[str, Any] | None:
    """The parsed object; None where orjson gives up on something that may still be JSON."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict):
        raise PlatformBroken("the answer is JSON, but not an object")
    return parsed


def _total(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return None


# --- the slower, exact way ---------------------------------------------------------------------------


def _tokens(body: bytes | str) -> list[str]:
    """JSON tokens without white space. Raises PlatformBroken for what can't be JSON."""
    if isinstance(body, bytes):
        try:
            body = body.decode()
        except UnicodeDecodeError as error:
            raise PlatformBroken("the answer is not UTF-8") from error
    tokens, at = [], 0
    for match in _TOKEN.finditer(body):
        if body[at : match.start()].strip():
            raise PlatformBroken(f"malformed JSON near character {at}")
        tokens.append(match.group())
        at = match.end()
    if body[at:].strip() or not tokens:
        raise PlatformBroken("malformed JSON: the answer ends early")
    return tokens


def _values(tokens: list[str], at: int) -> Iterator[tuple[int, int]]:
    """Spans of the values separated by commas from `tokens[at]` (just inside a bracket) to its end."""
    depth, begin = 0, at
    for position in range(at, len(tokens)):
        token = tokens[position]
        if token in "{[":
            depth += 1
        elif token in "}]":
            if depth == 0:
                if position > begin:
                    yield begin, position
                return
            depth -= 1
        elif token == "," and depth == 0:
            yield begin, position
            begin = position + 1
    raise PlatformBroken("malformed JSON: a bracket is never closed")


def _scan_object(tokens: list[str]) -> dict[str, Any]:
    """Top-level values of an object; nested ones and over-long numbers as Raw."""
    if tokens[0] != "{" or tokens[-1] != "}":
        raise PlatformBroken("the answer is not a JSON object")
    found: dict[str, Any] = {}
    for begin, end in _values(tokens, 1):
        if end - begin < 3 or tokens[begin + 1] != ":" or not tokens[begin].startswith('"'):
            raise PlatformBroken("malformed JSON: a key without a value")
        found[_plain(tokens[begin])] = _value(tokens[begin + 2 : end])
    return found


def _value(tokens: list[str]) -> Any:
    if len(tokens) > 1:
        return Raw("".join(tokens))
    token = tokens[0]
    if token.startswith('"'):
        return _plain(token)
    if not _SCALAR.fullmatch(token):
        raise PlatformBroken(f"malformed JSON: {token[:20]!r}")
    if len(token) > 18 or "N" in token or "I" in token:
        return Raw(token)
    return _plain(token)


def _plain(token: str) -> Any:
    try:
        return json.loads(token, strict=False)
    except ValueError:
        raise PlatformBroken(f"malformed JSON: {token[:20]!r}") from None


def _document(text: str) -> Document:
    tokens = _tokens(text)
    return Document("".join(tokens), _scan_object(tokens))


def _scan_page(body: bytes) -> PageDocuments:
    outer = _scan_object(_tokens(body))
    data = outer.pop("data", None)
    if not isinstance(data, Raw) or data[0] not in "[{":
        raise PlatformBroken("the answer has no list of records in `data`")
    if data.startswith("{"):
        return PageDocuments([_document(data)], _total(outer.pop("total", None)), outer)
    tokens = _tokens(data)
    documents = [_document("".join(tokens[begin:end])) for begin, end in _values(tokens, 1)]
    return PageDocuments(documents, _total(outer.pop("total", None)), outer)
