"""Lossless parser for records of the platform.

A `JsonRecord` is one record: its compact text (same keys, order and values as received) and its values for
the columns. Bodies are parsed with orjson. Where orjson could change a value (numbers beyond 64 bits or
beyond the digits of a double, lone surrogates, extreme nesting), a slower scanner keeps the text as received.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from integration.core.body_encodings import STORED_CHARSET, to_utf8
from integration.core.errors import PlatformBroken, RecordTooLarge, UnusableBody
from integration.core.ids import MAX_ID, MIN_ID

_INEXACT_PATTERN = re.compile(rb"[0-9][0-9.]{16,}|\\u[dD][89a-fA-F]|[0-9][eE][+-]?[0-9]{3}")
"""Matches numbers beyond 64 bits or a double, surrogates, exponents of three digits."""

_FLATTEN_TABLE = bytes(
    ord("0" if byte in b"0123456789." else "e" if byte in b"eE" else "+" if byte in b"+-" else " ")
    for byte in range(256)
)
"""Byte map for a fast pre-check of `_INEXACT_PATTERN`.

In the mapped text a match is found by plain searches, with few false matches.
"""

_TOKEN_PATTERN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_SCALAR_PATTERN = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|NaN|-?Infinity")


MAX_RECORD_BYTES = 4 * 1024 * 1024
"""Bytes of the largest record that is read. The largest documented field has a few kilobytes.

Each step of a sync copies the text of a record, in up to four bytes for each character.
"""


class RawJson(str):
    """Unparsed JSON text of a nested value or an overlong number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Record of the platform.

    `text`: compact JSON with the content as received. `values`: values by field name. `links`: compact JSON
    of the links that the platform sent beside the record; None without any.
    """

    text: str
    values: dict[str, Any]
    links: str | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Page of a collection.

    `total`: None if absent or not a number. `too_large`: a description of each record above
    MAX_RECORD_BYTES, which is not among `records`.
    `is_object`: `data` is an object, which counts as one record.
    """

    records: Sequence[JsonRecord]
    total: int | None
    is_object: bool = False
    too_large: Sequence[str] = ()


def read_page(body: bytes) -> RecordPage:
    """Parse `{data: [...], total}` (specification, Response envelopes).

    An object as `data` counts as one record. Records above MAX_RECORD_BYTES are omitted. Raises
    PlatformBroken for any other body.
    """
    page = _parse_page(body)
    return page if len(body) <= MAX_RECORD_BYTES else _omit_large_records(page)


def _parse_page(body: bytes) -> RecordPage:
    if not _needs_exact_parser(body):
        parsed = _loads(body)
        if parsed is not None:
            data = parsed.get("data")
            is_object = isinstance(data, dict)
            if is_object:
                data = [data]
            if not isinstance(data, list) or not all(isinstance(record, dict) for record in data):
                raise PlatformBroken("the response has no list of records in `data`")
            return RecordPage(
                [JsonRecord(orjson.dumps(record).decode(), record) for record in data],
                _parse_total(parsed.get("total")),
                is_object,
            )
    return _scan_page(body)


def read_item(body: bytes) -> JsonRecord:
    """Parse `{data: {...}, links}`, or a bare object.

    Login bodies are bare objects (docs/platform.md#2-sign-in). Raises PlatformBroken if the body is not a
    JSON object, RecordTooLarge above MAX_RECORD_BYTES.
    """
    if len(body) > MAX_RECORD_BYTES:
        raise RecordTooLarge(_describe_size(len(body)))
    if not _needs_exact_parser(body):
        parsed = _loads(body)
        if parsed is not None:
            if not isinstance(parsed.get("data"), dict):
                return JsonRecord(orjson.dumps(parsed).decode(), parsed)
            record, links = parsed["data"], parsed.get("links")
            links_text = orjson.dumps(links).decode() if isinstance(links, dict) and links else None
            return JsonRecord(orjson.dumps(record).decode(), record, links_text)
    outer = _scan_object(_tokenize(body))
    inner, raw_links = outer.get("data"), outer.get("links")
    if isinstance(inner, RawJson) and inner.startswith("{"):
        has_links = isinstance(raw_links, RawJson) and raw_links.startswith("{") and raw_links != "{}"
        return replace(_scan_record(inner), links=str(raw_links) if has_links else None)
    return JsonRecord("".join(_tokenize(body)), outer)


def find_item(body: bytes) -> JsonRecord | None:
    """Parse `{data: {...}, links}`. Returns None for any other body, and above MAX_RECORD_BYTES."""
    if len(body) > MAX_RECORD_BYTES:
        return None
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("data"), dict):
        return None
    try:
        return read_item(body)
    except PlatformBroken:
        return None


def read_record_bytes(body: bytes) -> JsonRecord:
    """Parse the body of a webhook, in Unicode or STORED_CHARSET.

    Raises PlatformBroken for a body that is not an object.
    """
    try:
        return read_record(to_utf8(body, STORED_CHARSET).decode())
    except UnicodeDecodeError as error:
        raise UnusableBody(f"the body is neither Unicode nor {STORED_CHARSET}") from error


def read_record(text: str) -> JsonRecord:
    """Parse a record from its stored text."""
    body = text.encode("utf-8", "surrogatepass")
    if not _needs_exact_parser(body):
        parsed = _loads(body)
        if parsed is not None:
            return JsonRecord(text, parsed)
    return _scan_record(text)


def serialize_values(values: Mapping[str, Any]) -> str:
    """Return the compact text of a record.

    Values that are RawJson are inserted unchanged. The text can be stored.
    """
    members = (
        f"{json.dumps(name, ensure_ascii=False)}:"
        + (
            value
            if isinstance(value, RawJson)
            else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        )
        for name, value in values.items()
    )
    return escape_surrogates("{" + ",".join(members) + "}")


def escape_surrogates(text: str) -> str:
    """Return a JSON text with lone surrogates escaped, for encoding as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def replace_values(
    text: str, matches: Callable[[str], bool], replacement: str, exempt_fields: re.Pattern[str]
) -> str:
    """Replace matching strings, keys and numbers in a JSON text.

    Returns the text as compact JSON. A string or key for which `matches` is true becomes `replacement`, a
    number becomes null unless `exempt_fields` matches the name of its field. Raises PlatformBroken for
    malformed JSON.
    """
    tokens, field_name, replacement_token = _tokenize(text), "", json.dumps(replacement)
    for index, token in enumerate(tokens):
        if token.startswith('"'):
            value = _parse_scalar(token)
            if tokens[index + 1 : index + 2] == [":"]:
                field_name = value
            if matches(value):
                tokens[index] = replacement_token
        elif token[0] in "-0123456789" and matches(token) and not exempt_fields.search(field_name):
            tokens[index] = "null"
    return "".join(tokens)


def to_column_value(value: Any) -> Any:
    """Convert a field to a column value.

    Values that SQLite cannot store become text, nested values JSON text.
    """
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if MIN_ID <= value <= MAX_ID else str(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return json.dumps(value)[1:-1]
        return str(value)
    return orjson.dumps(value).decode()


def _omit_large_records(page: RecordPage) -> RecordPage:
    records, too_large = list[JsonRecord](), list[str]()
    for record in page.records:
        size, key = len(record.text.encode("utf-8", "backslashreplace")), record.values.get("id")
        if size <= MAX_RECORD_BYTES:
            records.append(record)
        elif page.is_object:
            raise RecordTooLarge(_describe_size(size))
        else:
            place = f"record {str(key)[:64]}" if key is not None else "a record without a readable id"
            too_large.append(f"{place}: {_describe_size(size)}")
    return replace(page, records=records, too_large=too_large)


def _describe_size(size: int) -> str:
    return (
        f"it has {size:,} bytes, more than the {MAX_RECORD_BYTES:,} bytes of the largest record that is read"
    )


def _needs_exact_parser(body: bytes) -> bool:
    """Return whether orjson could change a value.

    The regular expression retries at each digit and takes three times as long as parsing the page. It is used
    only if one of the plain text searches matches.
    """
    flat = body.translate(_FLATTEN_TABLE)
    is_suspect = (
        b"0" * 17 in flat or b"0e000" in flat or b"0e+000" in flat or b"\\ud" in body or b"\\uD" in body
    )
    return is_suspect and _INEXACT_PATTERN.search(body) is not None


def _loads(body: bytes) -> dict[str, Any] | None:
    """Return the parsed object, None if orjson fails.

    The body may be valid JSON all the same. Raises PlatformBroken for JSON that is not an object.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict):
        raise PlatformBroken("the response is JSON, but not an object")
    return parsed


def _parse_total(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return None


# --- slower, lossless parser -------------------------------------------------------------------------


def _tokenize(body: bytes | str) -> list[str]:
    """Split JSON into tokens without white space. Raises PlatformBroken for malformed JSON."""
    if isinstance(body, bytes):
        try:
            body = body.decode()
        except UnicodeDecodeError as error:
            raise UnusableBody("the response is not UTF-8") from error
    tokens, position = [], 0
    for match in _TOKEN_PATTERN.finditer(body):
        if body[position : match.start()].strip():
            raise UnusableBody(f"malformed JSON near character {position}")
        tokens.append(match.group())
        position = match.end()
    if body[position:].strip() or not tokens:
        raise UnusableBody("malformed JSON: the response is truncated or empty")
    return tokens


def _value_spans(tokens: list[str], start: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the comma-separated values in a bracket.

    `start`: index of the first token in the bracket.
    """
    depth, value_start = 0, start
    for position in range(start, len(tokens)):
        token = tokens[position]
        if token in "{[":
            depth += 1
        elif token in "}]":
            if depth == 0:
                if position != len(tokens) - 1:
                    raise UnusableBody("malformed JSON: text after the end of the object or array")
                if position > value_start:
                    yield value_start, position
                return
            depth -= 1
        elif token == "," and depth == 0:
            yield value_start, position
            value_start = position + 1
    raise UnusableBody("malformed JSON: a bracket is never closed")


def _scan_object(tokens: list[str]) -> dict[str, Any]:
    """Return the top-level values of an object.

    Nested values and overlong numbers are RawJson.
    """
    if tokens[0] != "{" or tokens[-1] != "}":
        raise PlatformBroken("the response is not a JSON object")
    values: dict[str, Any] = {}
    for start, end in _value_spans(tokens, 1):
        if end - start < 3 or tokens[start + 1] != ":" or not tokens[start].startswith('"'):
            raise UnusableBody("malformed JSON: a key without a value")
        values[_parse_scalar(tokens[start])] = _parse_value(tokens[start + 2 : end])
    return values


def _parse_value(tokens: list[str]) -> Any:
    if len(tokens) > 1:
        return RawJson("".join(tokens))
    token = tokens[0]
    if token.startswith('"'):
        return _parse_scalar(token)
    if not _SCALAR_PATTERN.fullmatch(token):
        raise UnusableBody(f"malformed JSON: {token[:20]!r}")
    if len(token) > 18 or "N" in token or "I" in token:
        return RawJson(token)
    return _parse_scalar(token)


def _parse_scalar(token: str) -> Any:
    try:
        return json.loads(token, strict=False)
    except ValueError:
        raise UnusableBody(f"malformed JSON: {token[:20]!r}") from None


def _scan_record(text: str) -> JsonRecord:
    tokens = _tokenize(text)
    return JsonRecord("".join(tokens), _scan_object(tokens))


def _scan_page(body: bytes) -> RecordPage:
    outer = _scan_object(_tokenize(body))
    data = outer.get("data")
    if not isinstance(data, RawJson) or data[0] not in "[{":
        raise PlatformBroken("the response has no list of records in `data`")
    if data.startswith("{"):
        return RecordPage([_scan_record(data)], _parse_total(outer.get("total")), is_object=True)
    tokens = _tokenize(data)
    records = [_scan_record("".join(tokens[start:end])) for start, end in _value_spans(tokens, 1)]
    return RecordPage(records, _parse_total(outer.get("total")))
