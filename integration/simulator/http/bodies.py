"""Validation of request bodies by field.

The error for an invalid body lists all invalid fields (docs/platform.md#5-errors). Unknown fields are
ignored. null clears a field that is not required. The strictness of the real platform is undocumented.
"""

from __future__ import annotations

import base64
import binascii
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

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


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


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def non_empty_text(value: Any) -> str:
    if not text(value).strip():
        raise ValueError
    return str(value)


def integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError
    parsed = int(value)
    if abs(parsed) >= 2**63:
        raise ValueError
    return parsed


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    return float(value)


def boolean(value: Any) -> bool:
    if value not in (True, False, 0, 1):
        raise ValueError
    return bool(value)


def phone_digits(value: Any) -> str:
    """Return a telephone number or extension without its plus."""
    candidate = str(value).removeprefix("+") if isinstance(value, (str, int)) else ""
    if not (candidate.isascii() and candidate.isdigit()):
        raise ValueError
    return candidate


def timestamp(value: Any) -> str:
    """Return 'YYYY-MM-DD HH:MM:SS'; a date without a time means its midnight."""
    parsed = clock.parse_utc(value)
    if parsed is None:
        raise ValueError
    return clock.utc_text(parsed)


def email(value: Any) -> str:
    if not _EMAIL.fullmatch(text(value)):
        raise ValueError
    return str(value)


def url(value: Any) -> str:
    if not text(value).startswith(("https://", "http://")):
        raise ValueError
    return str(value)


def any_value(value: Any) -> Any:
    return value


def json_object(value: Any) -> Record:
    if not isinstance(value, dict):
        raise ValueError
    return value


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return check


def list_of(check_entry: Check = any_value) -> Check:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [check_entry(entry) for entry in value]

    return check


def comma_joined(value: Any) -> str:
    """Join an array of words or ids to comma-separated text."""
    if not isinstance(value, list) or not all(isinstance(entry, (str, int)) for entry in value):
        raise ValueError
    return ",".join(str(entry) for entry in value)


def audio_file(value: Any) -> bytes:
    """Decode an MP3, MP4, WAV or AAC file from base64."""
    try:
        data = base64.b64decode(text(value), validate=True)
    except binascii.Error as error:
        raise ValueError from error
    is_mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    if not (is_mpeg or data.startswith((b"ID3", b"RIFF", b"ADIF")) or data[4:8] == b"ftyp"):
        raise ValueError
    return data
