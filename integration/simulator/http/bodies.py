"""Request bodies: which fields an operation takes and what each may hold.

A wrong body is answered with all its wrong fields at once (observed.md §5). Fields that an operation does
not know are ignored, null empties a field that is not needed. How strict the real platform is, is not shown.
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
from integration.simulator.http.responses import Answered, invalid

Record = dict[str, Any]
Check = Callable[[Any], Any]

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def sent() -> Record:
    """The request's JSON object. Raises Answered."""
    found = _parsed() if request.get_data() else {}
    if not isinstance(found, dict):
        raise Answered(400, "Validation error")
    return found


def sent_list() -> list[Record]:
    """The request's JSON array of objects, as bulk changes send it. Raises Answered."""
    found = _parsed()
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise Answered(400, "Validation error")
    return found


def _parsed() -> Any:
    """What nobody could send back – lone surrogates, unfinished text – is refused here."""
    try:
        return orjson.loads(request.get_data())
    except orjson.JSONDecodeError as error:
        raise Answered(400, "Validation error") from error


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a body and the check of each; `needed` must be there when a record is made."""

    checks: Mapping[str, Check]
    needed: tuple[str, ...] = ()

    def read(self, body: Record, *, change: bool = False) -> Record:
        """The known fields of `body`, each as its check gives it. Raises Answered naming all wrong ones."""
        kept: Record = {}
        wrong: list[str] = []
        for name, check in self.checks.items():
            if name not in body:
                if name in self.needed and not change:
                    wrong.append(name)
            elif body[name] is None and name not in self.needed:
                kept[name] = None
            else:
                try:
                    kept[name] = check(body[name])
                except ValueError:
                    wrong.append(name)
        if wrong:
            raise invalid(*wrong)
        return kept


def named(names: str) -> list[str]:
    """Names in a text with blanks, for tables that would be long otherwise."""
    return names.split()


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def filled(value: Any) -> str:
    if not text(value).strip():
        raise ValueError
    return str(value)


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError
    found = int(value)
    if abs(found) >= 2**63:
        raise ValueError
    return found


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    return float(value)


def flag(value: Any) -> bool:
    if value not in (True, False, 0, 1):
        raise ValueError
    return bool(value)


def digits(value: Any) -> str:
    """A telephone number or extension, without its plus."""
    found = str(value).removeprefix("+") if isinstance(value, (str, int)) else ""
    if not (found.isascii() and found.isdigit()):
        raise ValueError
    return found


def moment(value: Any) -> str:
    """'YYYY-MM-DD HH:MM:SS' or a bare date, kept as its midnight."""
    found = clock.parse_stamp(value)
    if found is None:
        raise ValueError
    return clock.stamp(found)


def email(value: Any) -> str:
    if not _EMAIL.fullmatch(text(value)):
        raise ValueError
    return str(value)


def url(value: Any) -> str:
    if not text(value).startswith(("https://", "http://")):
        raise ValueError
    return str(value)


def anything(value: Any) -> Any:
    return value


def mapping(value: Any) -> Record:
    if not isinstance(value, dict):
        raise ValueError
    return value


def one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return check


def listed(each: Check = anything) -> Check:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [each(entry) for entry in value]

    return check


def joined(value: Any) -> str:
    """An array of words or ids, kept as the text with commas that its record shows."""
    if not isinstance(value, list) or not all(isinstance(entry, (str, int)) for entry in value):
        raise ValueError
    return ",".join(str(entry) for entry in value)


def sound(value: Any) -> bytes:
    """An MP3, MP4, WAV or AAC file in base64."""
    try:
        data = base64.b64decode(text(value), validate=True)
    except binascii.Error as error:
        raise ValueError from error
    mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    if not (mpeg or data.startswith((b"ID3", b"RIFF", b"ADIF")) or data[4:8] == b"ftyp"):
        raise ValueError
    return data
