"""Requests to the own API: their caller, rights and parameters."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import flask

from integration.access.authenticator import check_right
from integration.access.keys import Key
from integration.access.visibility import Visibility
from integration.access.visibility import of as visibility_of
from integration.context import AppContext
from integration.core import clock
from integration.core.api_responses import INVALID_VALUE_CODE, ApiError
from integration.core.ids import parse_id
from integration.web.api_requests import QUERY_TIMEOUT_SECONDS

MAX_LIMIT = 500
DEFAULT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of a local key.

    `http_request` is that of Flask, `key` the key that sent it.
    """

    context: AppContext
    http_request: flask.Request
    key: Key

    @property
    def who(self) -> str:
        """Name of the client in the audit log and in call-back items."""
        return f"key {self.key.name}"

    @property
    def visibility(self) -> Visibility:
        return visibility_of(self.key)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.context.settings.dashboard.timezone)

    @contextmanager
    def open_databases(self) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        """Open `mirror.db` and `house.db` for reading."""
        context = self.context
        with context.mirror_db.read(seconds=QUERY_TIMEOUT_SECONDS) as mirror, context.app_db.read() as app:
            yield mirror, app

    # --- rights --------------------------------------------------------------------------------------

    def check_collection(self, collection: str) -> None:
        """Raise ApiError 403 if the key has no access to `collection`."""
        if not self.key.can_access(collection):
            raise ApiError(403, f"The key {self.key.name!r} has no access to the collection {collection}.")

    def check_right(self, right: str) -> None:
        """Raise ApiError 403 if the key lacks a right of `access/rights`."""
        check_right(self.key, right)

    def has_right(self, right: str) -> bool:
        return right in self.key.limits.rights

    # --- parameters ----------------------------------------------------------------------------------

    def check_names(self, allowed: Collection[str]) -> None:
        """Raise ApiError 400 for a parameter that is unknown or given twice."""
        for name, values in self.http_request.args.lists():
            if name not in allowed:
                raise invalid(name, f"Unknown parameter. Parameters are {', '.join(allowed) or 'none'}.")
            if len(values) > 1:
                raise invalid(name, "The parameter is given more than once.")

    def text(self, name: str) -> str | None:
        """Return a parameter without surrounding spaces, None if it is missing or empty."""
        return self.http_request.args.get(name, "").strip() or None

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        text = self.text(name)
        if text is not None and text not in choices:
            raise invalid(name, f"{_shorten(text)} is not one of {', '.join(choices)}.")
        return text

    def identifier(self, name: str) -> int | None:
        text = self.text(name)
        number = parse_id(text or "")
        if text is not None and number is None:
            raise invalid(name, f"{_shorten(text)} is not an id.")
        return number

    def limit(self) -> int:
        text = self.text("limit")
        if text is None:
            return DEFAULT_LIMIT
        if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= MAX_LIMIT):
            raise invalid("limit", f"{_shorten(text)} is not a number from 1 to {MAX_LIMIT}.")
        return int(text)

    def moment(self, name: str, *, is_end: bool = False) -> str | None:
        """Return a parameter with a time as UTC text.

        A day (`2026-10-31`) is one of the display zone. With `is_end` the day counts in full, so its end is
        returned. Other times are UTC, such as `2026-10-31T10:00:00Z`.
        """
        text = self.text(name)
        if text is None:
            return None
        if len(text) == len("2026-10-31"):
            day = parse_day(name, text)
            return clock.midnight(day + timedelta(days=is_end), self.zone)
        moment = clock.parse_utc(text)
        if moment is None:
            raise invalid(
                name, f"{_shorten(text)} is no time. Use 2026-10-31, or 2026-10-31T10:00:00Z (UTC)."
            )
        return clock.utc_text(moment)


def parse_day(name: str, text: str) -> date:
    """Return the day `text`. Raises ApiError 400 that names the parameter `name`."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    # Outside these years a local midnight has no UTC text.
    if not 1970 <= day.year < 9000:
        raise invalid(name, f"{_shorten(text)} is no day such as 2026-10-31.")
    return day


def invalid(name: str, reason: str) -> ApiError:
    """Return the ApiError 400 for a parameter or a member of the body."""
    entry = {"code": INVALID_VALUE_CODE, "field": _shorten(name)[1:-1], "message": reason}
    return ApiError(400, f"Invalid value of {_shorten(name)}. {reason}", errors=[entry])


def _shorten(text: str) -> str:
    return repr(text[:60] + "…" if len(text) > 60 else text)
