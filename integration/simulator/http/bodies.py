"""Validation of request bodies by field.

The error for an invalid body lists all invalid fields (docs/platform.md#5-errors). Unknown fields are
ignored. null clears a field that is not required. The strictness of the real platform is undocumented.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from flask import request

from integration.core import clock
from integration.simulator.http.responses import ErrorResponse, make_validation_error

Record = dict[str, Any]
Check = Callable[[Any], Any]


def read_object() -> Record:
    """Return the JSON object of the request body.

    An empty body is {}. Raises ErrorResponse.
    """
    body = _parse_body() if request.get_data() else {}
    if not isinstance(body, dict):
        raise ErrorResponse(400, "Validation error")
    return body


def read_list() -> list[Record]:
    """Return the array of objects in the body of a bulk change.

    Raises ErrorResponse.
    """
    entries = _parse_body()
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ErrorResponse(400, "Validation error")
    return entries


def _parse_body() -> Any:
    """Parse the body as JSON. Lone surrogates and incomplete text are refused."""
    try:
        return orjson.loads(request.get_data())
    except orjson.JSONDecodeError as error:
        raise ErrorResponse(400, "Validation error") from error


@dataclass(frozen=True, slots=True)
class Form:
    """Checks of body fields by name.

    `required` fields are mandatory when a record is created.
    """

    checks: Mapping[str, Check]
    required: tuple[str, ...] = ()

    def read(self, body: Record, *, is_change: bool = False) -> Record:
        """Return the known fields of `body`, converted by their checks.

        Raises ErrorResponse with the names of all invalid fields.
        """
        fields: Record = {}
        invalid_fields: list[str] = []
        for name, check in self.checks.items():
            if name not in body:
                if name in self.required and not is_change:
                    invalid_fields.append(name)
            elif body[name] is None and name not in self.required:
                fields[name] = None
            else:
                try:
                    fields[name] = check(body[name])
                except ValueError:
                    invalid_fields.append(name)
        if invalid_fields:
            raise make_validation_error(*invalid_fields)
        return fields


def make_check(*types: type, accepts: Callable[[Any], object] = lambda _: True) -> Check:
    """Make a check that a value has one of `types` and that `accepts` is true for it."""

    def check(value: Any) -> Any:
        # In Python True is an int; in a body it is no number.
        if (
            not isinstance(value, types)
            or (isinstance(value, bool) and bool not in types)
            or not accepts(value)
        ):
            raise ValueError
        return value

    return check


text = make_check(str)
non_empty_text = make_check(str, accepts=str.strip)
email = make_check(str, accepts=re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+").fullmatch)
url = make_check(str, accepts=lambda value: value.startswith(("https://", "http://")))
json_object = make_check(dict)


def integer(value: Any) -> int:
    parsed = int(make_check(int, str)(value))
    if abs(parsed) >= 2**63:
        raise ValueError
    return parsed


def number(value: Any) -> float:
    return float(make_check(int, float, str)(value))


def boolean(value: Any) -> bool:
    return bool(one_of(True, False)(value))


def phone_digits(value: Any) -> str:
    """Return a telephone number or extension without its plus."""
    digits = str(make_check(str, int)(value)).removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError
    return digits


def timestamp(value: Any) -> str:
    """Return 'YYYY-MM-DD HH:MM:SS'; a date without a time means its midnight."""
    parsed = clock.parse_utc(value)
    if parsed is None:
        raise ValueError
    return clock.utc_text(parsed)


def any_value(value: Any) -> Any:
    return value


def one_of(*choices: Any) -> Check:
    def check(value: Any) -> Any:
        if value not in choices:
            raise ValueError
        return value

    return check


def list_of(check_entry: Check = any_value) -> Check:
    return lambda value: [check_entry(entry) for entry in make_check(list)(value)]


def comma_joined(value: Any) -> str:
    """Join an array of words or ids to comma-separated text."""
    return ",".join(str(entry) for entry in list_of(make_check(str, int, bool))(value))


def audio_file(value: Any) -> bytes:
    """Decode an MP3, MP4, WAV or AAC file from base64."""
    data = base64.b64decode(text(value), validate=True)
    is_mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    if not (is_mpeg or data.startswith((b"ID3", b"RIFF", b"ADIF")) or data[4:8] == b"ftyp"):
        raise ValueError
    return data
