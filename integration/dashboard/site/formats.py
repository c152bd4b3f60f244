"""Formats of times, durations, numbers and states on pages.

`register` adds them as Jinja filters. Times are UTC text and are shown in the display zone
(`dashboard.timezone`). Filters return '—' for a missing value, never a zero, and a text that is not a time in
that zone as received.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from flask import Flask

from integration.catalogue import get_resource
from integration.catalogue.collection_titles import get_title
from integration.context import app_context
from integration.core import clock, phone_numbers
from integration.core.phone_numbers import clean_name, is_withheld
from integration.mirror.calls.reading import parse_number
from integration.mirror.page_queries import contacts
from integration.mirror.page_queries.call_labels import DIRECTION_LABELS, STATE_LABELS
from integration.mirror.sync_state import collection_state
from integration.workspace.callback_items import CallbackItem

NOTHING = "—"
EXCERPT_CONTEXT, EXCERPT_LENGTH = 60, 240
"""Characters before and after a match."""
_Row = TypeVar("_Row")
TIME_UNKNOWN = "Time unknown"
"""Text for a call whose CDR has no readable time."""


def display_zone() -> ZoneInfo:
    return ZoneInfo(app_context().settings.dashboard.timezone)


def export_style() -> dict[str, str]:
    """Return the parameters of exports that are opened from a page.

    They have times in the display zone and headings in words.
    """
    return {"tz": display_zone().key, "headings": "words"}


def to_display_zone(timestamp: str | None) -> datetime | None:
    """Convert UTC text to the display zone. None for an invalid time."""
    return clock.to_zone(clock.parse_utc(timestamp), display_zone())


def _format(timestamp: str | None, form: Callable[[datetime], str]) -> str:
    moment = to_display_zone(timestamp)
    return (timestamp or NOTHING) if moment is None else form(moment)


def today() -> date:
    return clock.now().astimezone(display_zone()).date()


def unix(timestamp: str | None) -> int | None:
    moment = clock.parse_utc(timestamp)
    return None if moment is None else int(moment.timestamp())


def iso(timestamp: str | None) -> str:
    """Format for the attribute `datetime` of <time>; '' for a missing time."""
    return timestamp.replace(" ", "T") + "Z" if timestamp else ""


def at_time(timestamp: str | None) -> str:
    """Format as '14:03'."""
    return _format(timestamp, lambda moment: f"{moment:%H:%M}")


def at_second(timestamp: str | None) -> str:
    """Format as '14:03:27'."""
    return _format(timestamp, lambda moment: f"{moment:%H:%M:%S}")


def at_full(timestamp: str | None) -> str:
    """Format as 'Fri 20 Nov 2026, 14:03:27 GMT', for titles and details."""
    return _format(timestamp, lambda moment: f"{moment:%a} {moment.day} {moment:%b %Y, %H:%M:%S %Z}")


def at_short(timestamp: str | None) -> str:
    """Format a time, with less detail for older times.

    '14:03' today, '19 Nov 14:03' tomorrow or less than 180 days ago, else '19 Nov 2025'.
    """
    return _format(timestamp, _format_short)


def _format_short(moment: datetime) -> str:
    days = (today() - moment.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    if -1 <= days < 180:
        return f"{moment.day} {moment:%b %H:%M}"
    return f"{moment.day} {moment:%b %Y}"


def day_name(day: date) -> str:
    """Format as 'Today', 'Yesterday' or 'Thursday 19 November'.

    The year is added unless it is the current year.
    """
    now = today()
    if day == now:
        return "Today"
    if day == now - timedelta(days=1):
        return "Yesterday"
    return f"{day:%A} {day.day} {day:%B}" + (f" {day.year}" if day.year != now.year else "")


def group_by_day(
    rows: Iterable[_Row], get_time: Callable[[_Row], str | None]
) -> list[tuple[str, list[_Row]]]:
    """Group rows that are sorted by time: (day in words, rows)."""
    return [(day, list(found)) for day, found in groupby(rows, key=lambda row: day_of(get_time(row)))]


def day_of(timestamp: str | None) -> str:
    return _format(timestamp, lambda moment: day_name(moment.date())) if timestamp else TIME_UNKNOWN


def short_day(day: str) -> str:
    """Format a day of the completeness table: '1 Nov 2026', or 'all' for '*'."""
    if day == "*":
        return "all"
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%b %Y}"


def collection_title(collection: str) -> str:
    """Return the title of a collection: 'Call detail records'."""
    return get_title(get_resource(collection))


def duration(seconds: object) -> str:
    """Format seconds as '0:07', '12:31' or '1:02:09'.

    Returns '—' if the platform sent no number.
    """
    parsed = parse_number(seconds)
    if parsed is None:
        return NOTHING
    total_seconds = max(0, int(parsed))
    hours, remainder = divmod(total_seconds, 3600)
    minutes, remainder = divmod(remainder, 60)
    return f"{hours}:{minutes:02}:{remainder:02}" if hours else f"{minutes}:{remainder:02}"


def format_age(seconds: float | None) -> str:
    """Format seconds as '7 s', '4 min', '3 h' or '2 d'."""
    if seconds is None:
        return NOTHING
    seconds = max(0, int(seconds))
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return f"{seconds} s"


def ago(timestamp: str | None) -> str:
    moment = clock.parse_utc(timestamp)
    return NOTHING if moment is None else format_age(clock.unix() - moment.timestamp())


def size(byte_count: float | None) -> str:
    """Format bytes as '3.4 MB' (1 MB = 1,000,000 bytes)."""
    if byte_count is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if byte_count < 1000 or unit == "GB":
            return (
                f"{byte_count:.0f} {unit}" if unit == "B" or byte_count >= 100 else f"{byte_count:.1f} {unit}"
            )
        byte_count /= 1000
    raise AssertionError


def thousands(count: int | None) -> str:
    """Format as '12 480'.

    The separator is a narrow no-break space, which is unambiguous in every country.
    """
    return NOTHING if count is None else f"{count:,}".replace(",", "\u202f")


def money(amount: float | None) -> str:
    return NOTHING if amount is None else f"{amount:.2f}"


def national(number: object) -> str:
    return app_context().phone_numbers.format_national(number) if number else ""


def international(number: object) -> str:
    return app_context().phone_numbers.format_display(number)[1] if number else ""


def contact_number(contact: str) -> str:
    """Return the number of a message's contact, or its name (`PhoneNumbers.restore_contact`)."""
    return app_context().phone_numbers.restore_contact(contact)


def tel(number: object) -> str | None:
    """Return E.164 for a `tel:` link.

    Returns None for a text that cannot be dialled.
    """
    return app_context().phone_numbers.to_e164(number)


def far_end_name(call: sqlite3.Row) -> str:
    """Return the name of the outside party; '' if it is unknown.

    For an outbound call to a number without a contact the platform sends the name of a region
    ('United Kingdom Mobile'). It is not the name of a party and is dropped.
    """
    name = str(call["party_name"] or "")
    if not name or call["direction"] != "out" or not call["party_e164"]:
        return name
    with app_context().mirror_db.read() as connection:
        return name if contacts.find_by_number(connection, call["party_e164"]) else ""


def party_name(item: CallbackItem) -> str:
    """Return the name or number of the caller of a call-back item."""
    if is_withheld(item.party):
        return "Withheld"
    return item.party_name or national(item.party)


def destination(call: sqlite3.Row) -> str:
    """Return the region of a call without a `far_end_name`.

    'London, UK'; '' if it is unknown.
    """
    return phone_numbers.format_destination(str(call["party_name"] or ""))


def explain_missing_name() -> str:
    """Return why a number has no name."""
    with app_context().mirror_db.read() as connection:
        is_unread = collection_state.get_state(connection, "contacts").awaits_first_sync
    return "contacts not read yet" if is_unread else "not in contacts"


def excerpt(text: object, search_text: str, context: int = EXCERPT_CONTEXT) -> tuple[str, str, str]:
    """Split a text into (text before the match, match, text after it), cut to a few lines.

    The match is that of all words of `search_text`, else of the first word that occurs. Without a match, the
    first is the beginning of the text. `context`: largest number of characters before the match.
    """
    complete = " ".join(str(text or "").split())
    # Not with case-folded texts: "ß" folds to two letters, which shifts all later positions.
    matches = (
        re.search(re.escape(words), complete, re.IGNORECASE) for words in (search_text, *search_text.split())
    )
    match = next(filter(None, matches), None) if search_text else None
    if match is None:
        return shorten(complete, EXCERPT_LENGTH), "", ""
    before, after = complete[: match.start()], complete[match.end() :]
    if len(before) > context:
        before = "…" + before[-context:].partition(" ")[2]
    return before, match[0], shorten(after, EXCERPT_LENGTH)


def shorten(text: str, length: int) -> str:
    """Cut a text at the end of a word."""
    return text if len(text) <= length else text[:length].rpartition(" ")[0] + " …"


def indent_json(text: str) -> str:
    """Return JSON with indents. Text that cannot be read stays unchanged."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def state_key(call: sqlite3.Row) -> str:
    """Return the key of a call in STATE_LABELS.

    The key is the state of a live call, or 'unconfirmed', and the outcome of an ended call.
    """
    if call["state"] != "ended":
        return "unconfirmed" if call["unconfirmed"] else str(call["state"])
    return str(call["outcome"] or "ended")


def state_limits(state: str) -> tuple[int, int] | None:
    """Return the limits (amber, red) of a state in seconds (settings `calls.*_seconds`)."""
    call_settings = app_context().settings.calls
    bounds = {
        "ringing": call_settings.ring_seconds,
        "dialling": call_settings.ring_seconds,
        "on_hold": call_settings.hold_seconds,
        "talking": call_settings.talk_seconds,
    }.get(state)
    return None if bounds is None else (int(bounds[0]), int(bounds[1]))


def threshold_colour(seconds: float | None, state: str) -> str:
    """Return '', 'amber' or 'red' for the seconds in a state."""
    bounds = state_limits(state)
    if bounds is None or seconds is None or seconds < bounds[0]:
        return ""
    return "red" if seconds >= bounds[1] else "amber"


def seconds_since(timestamp: str | None) -> float | None:
    """Return the seconds since a UTC text, at least 0.

    Returns None for an invalid time.
    """
    moment = clock.parse_utc(timestamp)
    return None if moment is None else max(0.0, clock.unix() - moment.timestamp())


LONG_WORD = 16
"""Letters above which a word may be broken in a narrow column."""


def has_long_word(text: str) -> bool:
    return any(len(word) > LONG_WORD for word in text.split())


FILTERS: tuple[Callable[..., Any], ...] = (
    ago, at_full, at_second, at_short, at_time, collection_title, contact_number, day_of, destination,
    duration, far_end_name, format_age, has_long_word, international, iso, money, national, seconds_since,
    short_day, size, state_key, state_limits, tel, thousands, threshold_colour, unix, clock.utc_text,
    is_withheld, clean_name,
)  # fmt: skip


def register(app: Flask) -> None:
    for function in FILTERS:
        app.jinja_env.filters[function.__name__] = function
    app.jinja_env.globals.update(
        STATES=STATE_LABELS,
        DIRECTIONS=DIRECTION_LABELS,
        TIME_UNKNOWN=TIME_UNKNOWN,
        explain_missing_name=explain_missing_name,
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
