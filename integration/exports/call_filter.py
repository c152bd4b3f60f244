"""What the URL of Calls asks for, read into a filter: the page, saved views and exports share it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import phonenumbers

from integration.core import clock
from integration.dashboard.site import formats
from integration.mirror.page_queries import search_index as search
from integration.mirror.page_queries.history import CallFilter
from integration.sqlite.beside import Readable
from integration.workspace import notes

DEFAULT_RANGE = "week"
RANGES = {
    "today": "Today",
    "yesterday": "Yesterday",
    "week": "7 days",
    "month": "30 days",
    "all": "Everything",
}
DAYS = {"today": (0, 1), "yesterday": (1, 1), "week": (6, 7), "month": (29, 30)}
"""Days before today that a range begins, and how many days it has."""
OUTCOMES = {
    "answered": "Answered",
    "not_talked": "Missed or voicemail",
    "missed": "Missed",
    "voicemail": "Voicemail",
    "abandoned": "Hung up early",
    "not_answered": "No answer (outbound)",
    "internal": "Internal",
    "open": "Going on",
}
WAYS = {"in": "Inbound", "out": "Outbound", "external": "In and out", "internal": "Internal"}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS_BACK = timedelta(days=731)
"""How far back hours of the day are looked for where the view has no beginning."""


@dataclass(frozen=True, slots=True)
class View:
    """What the URL asks for. `args` holds only what is set."""

    args: Mapping[str, str]
    range: str
    asked: CallFilter

    def url(self, **changes: str | None) -> str:
        """This view with some parameters changed (None: without), on its first page."""
        merged = {**self.args, **changes}
        kept = [(name, merged[name]) for name in NAMES if merged.get(name)]
        return "/calls" + (f"?{urlencode(kept)}" if kept else "")

    @property
    def filters(self) -> list[str]:
        """Names of the parameters that narrow it, besides the range and the search."""
        return [name for name in NAMES if name in self.args and name not in ("q", "range", "from", "to")]

    @property
    def cleared(self) -> str:
        """The URL with the search and the named range alone."""
        return self.url(**{name: None for name in NAMES if name not in ("q", "range")})


NAMES = (
    "q",
    "range",
    "from",
    "to",
    "direction",
    "outcome",
    "person",
    "line",
    "min",
    "max",
    "recorded",
    "voicemail",
    "waited",
    "group",
    "country",
    "charged",
    "cost",
    "label",
    "weekday",
    "hour",
    "begin",
    "end",
    "clock",
)


def read(
    args: Mapping[str, str],
    *,
    zone: ZoneInfo,
    today: date,
    calling_code: str | None,
    house: Readable | None = None,
) -> View:
    """The view that URL parameters ask for. What makes no sense is left out, not refused: links get old.

    Labels and notes are looked up in `house`; without it the view has none.
    """
    kept = {name: args[name].strip()[:200] for name in NAMES if args.get(name, "").strip()}
    first, last = read_day(kept.get("from")), read_day(kept.get("to"))
    if first is None:
        kept.pop("from", None)
    if last is None:
        kept.pop("to", None)
    named = kept.get("range", DEFAULT_RANGE)
    if first or last:
        named = "custom"
        kept.pop("range", None)
    elif named not in RANGES:
        named = DEFAULT_RANGE
        kept.pop("range", None)
    elif named in DAYS:
        back, length = DAYS[named]
        first = today - timedelta(days=back)
        last = first + timedelta(days=length - 1)
    for name, known in (("direction", WAYS), ("outcome", OUTCOMES)):
        if kept.get(name) not in known:
            kept.pop(name, None)
    for name in ("person", "min", "max", "waited", "country", "weekday", "hour"):
        if not (kept.get(name, "").isdecimal() and len(kept[name]) <= 12):
            kept.pop(name, None)
    weekday, hour = _at_most(kept, "weekday", 6), _at_most(kept, "hour", 23)
    begin, end = _time_of(kept, "begin"), _time_of(kept, "end")
    if hour is not None:
        begin, end = time(hour), time((hour + 1) % 24)
    spans = None
    if weekday is not None or begin or end:
        days = (first or today - HOURS_BACK, last or today)
        spans = json.dumps(clock_spans(*days, zone, weekday, begin or time(), end or time()))
    if _amount(kept.get("cost")) is None:
        kept.pop("cost", None)
    minute = _minute(kept.get("clock"))
    if minute is None or last is None:
        kept.pop("clock", None)
        minute = None
    asked = CallFilter(
        since=formats.midnight(first, zone) if first else None,
        until=_until(last, minute, zone),
        wanted=search.wanted(kept.get("q", ""), calling_code),
        user_id=_number(kept.get("person")),
        our_number=kept.get("line"),
        direction=kept.get("direction"),
        outcome=kept.get("outcome"),
        at_least=_number(kept.get("min")),
        at_most=_number(kept.get("max")),
        recorded=kept.get("recorded") == "1",
        voicemail=kept.get("voicemail") == "1",
        waited_at_most=_number(kept.get("waited")),
        group=kept.get("group"),
        country=kept.get("country"),
        charged=kept.get("charged") == "1",
        charge_at_least=_amount(kept.get("cost")),
        hours=spans,
    )
    if house is not None:
        asked = _with_notes(asked, kept, house)
    return View(kept, named, asked)


def _with_notes(asked: CallFilter, kept: Mapping[str, str], house: Readable) -> CallFilter:
    """Labels and notes are ours, and lie in another database than the calls."""
    with house.read() as connection:
        if "label" in kept:
            asked = replace(asked, labelled=json.dumps(notes.legs_with_label(connection, kept["label"])))
        if asked.wanted is not None and (legs := notes.legs_noted(connection, kept["q"])):
            asked = replace(asked, noted=json.dumps(legs))
    return asked


def _amount(text: str | None) -> float | None:
    try:
        return max(0.0, float((text or "").replace(",", "."))) if text and len(text) < 12 else None
    except ValueError:
        return None


def read_day(text: str | None) -> date | None:
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    # Beyond these a zone's offset can't be taken off any more.
    return day if 1970 <= day.year < 9000 else None


def _minute(text: str | None) -> time | None:
    try:
        return time.fromisoformat(text or "").replace(tzinfo=None)
    except ValueError:
        return None


def _until(last: date | None, minute: time | None, zone: ZoneInfo) -> str | None:
    """The end of the last day, or the minute of it at which the view stops."""
    if last is None:
        return None
    if minute is None:
        return formats.midnight(last + timedelta(days=1), zone)
    return clock.stamp(datetime.combine(last, minute, zone))


def clock_spans(
    first: date, last: date, zone: ZoneInfo, weekday: int | None, begin: time, end: time
) -> list[list[str]]:
    """The part of the day from `begin` until `end` as spans of UTC text, [since, until): of the days from
    `first` to `last` that are a `weekday` (0 is Monday), or of all. An `end` not after `begin` is the next
    day's; an hour that the clock shows twice is one long span."""
    over_midnight = timedelta(days=end <= begin)
    first -= over_midnight  # for the early hours of the first day
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [
        [
            clock.stamp(datetime.combine(day, begin, zone).astimezone(UTC)),
            clock.stamp(datetime.combine(day + over_midnight, end, zone).astimezone(UTC)),
        ]
        for day in days
        if weekday is None or day.weekday() == weekday
    ]


def _time_of(kept: dict[str, str], name: str) -> time | None:
    """A time of day; what is none is left out of the view."""
    found = _minute(kept.get(name))
    if found is None:
        kept.pop(name, None)
    return found


def _at_most(kept: dict[str, str], name: str, most: int) -> int | None:
    """A number from 0 to `most`; anything else is left out of the view."""
    number = _number(kept.get(name))
    if number is not None and number > most:
        del kept[name]
        return None
    return number


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def calling_code(country: str | None) -> str | None:
    """'44' for 'GB'."""
    code = phonenumbers.country_code_for_region(country.upper()) if country else 0
    return str(code) if code else None
