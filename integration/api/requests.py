"""Requests to the own API: their caller, rights and parameters."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import flask

from integration.access.authenticator import Caller, check_collection, check_right
from integration.access.keys import Key
from integration.context import AppContext
from integration.core import clock
from integration.core.api_responses import INVALID_VALUE_CODE, ApiError
from integration.core.ids import parse_id
from integration.events import feed
from integration.mirror.page_queries.call_view import parse_day
from integration.mirror.page_queries.history import Cursor
from integration.web.api_requests import QUERY_TIMEOUT_SECONDS

MAX_LIMIT = 500
DEFAULT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of a local key.

    `http_request` is that of Flask. `caller` has a key. Its name is used in the audit log and in call-back
    items. `response_headers` are added to a successful response.
    """

    context: AppContext
    http_request: flask.Request
    caller: Caller
    response_headers: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        assert self.caller.key is not None
        return self.caller.key

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
        check_collection(self.key, collection)

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
                raise build_value_error(
                    name, f"Unknown parameter. Parameters are {', '.join(allowed) or 'none'}."
                )
            if len(values) > 1:
                raise build_value_error(name, "The parameter is given more than once.")

    def text(self, name: str) -> str | None:
        """Return a parameter without surrounding spaces, None if it is missing or empty."""
        return self.http_request.args.get(name, "").strip() or None

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        text = self.text(name)
        if text is not None and text not in choices:
            raise build_value_error(name, f"{_shorten(text)} is not one of {', '.join(choices)}.")
        return text

    def identifier(self, name: str) -> int | None:
        text = self.text(name)
        number = parse_id(text or "")
        if text is not None and number is None:
            raise build_value_error(name, f"{_shorten(text)} is not an id.")
        return number

    def limit(self) -> int:
        return self.number("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)

    def number(self, name: str, least: int, most: int, default: int) -> int:
        """Return a parameter from `least` to `most`."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 3 and least <= int(text) <= most):
            raise build_value_error(name, f"{_shorten(text)} is not a number from {least} to {most}.")
        return int(text)

    def cursor(self) -> Cursor | None:
        """Return the position after which a page begins, None for the first page."""
        text = self.text("next")
        cursor = Cursor.parse(text, "before")
        if text is not None and cursor is None:
            raise build_value_error("next", "Use the value of `next` in an earlier response.")
        return cursor

    def change(self, name: str, mirror: sqlite3.Connection, text: str) -> int:
        """Return the number of the change that `text`, the parameter `name`, states.

        Raises ApiError 400, or 410 for a cursor that is not valid any more.
        """
        try:
            return feed.parse_cursor(mirror, text, user_scope=self.caller.visibility.user_scope)
        except feed.UnknownCursor as error:
            raise ApiError(410, str(error)) from error
        except ValueError as error:
            raise build_value_error(name, f"{error} Use `next`, or the `id` of an event.") from error

    def moment(self, name: str, *, is_end: bool = False) -> str | None:
        """Return a parameter with a time as UTC text.

        A day (`2026-10-31`) is one of the display zone. With `is_end` the day counts in full, so its end is
        returned. Other times are UTC, such as `2026-10-31T10:00:00Z`.
        """
        text = self.text(name)
        if text is None:
            return None
        if len(text) == len("2026-10-31"):
            day = require_day(name, text)
            return clock.midnight(day + timedelta(days=is_end), self.zone)
        moment = clock.parse_utc(text)
        if moment is None:
            raise build_value_error(
                name, f"{_shorten(text)} is not a time. Use 2026-10-31, or 2026-10-31T10:00:00Z (UTC)."
            )
        return clock.utc_text(moment)


def require_day(name: str, text: str) -> date:
    """Return the day `text`. Raises ApiError 400 that names the parameter `name`."""
    day = parse_day(text)
    if day is None:
        raise build_value_error(name, f"{_shorten(text)} is not a day such as 2026-10-31.")
    return day


def build_value_error(name: str, reason: str) -> ApiError:
    """Return the ApiError 400 for a parameter or a member of the body."""
    entry = {"code": INVALID_VALUE_CODE, "field": _shorten(name)[1:-1], "message": reason}
    return ApiError(400, f"Invalid value of {_shorten(name)}. {reason}", errors=[entry])


def _shorten(text: str) -> str:
    return repr(text[:60] + "…" if len(text) > 60 else text)
