"""Calls: the history. Everything that is shown is in the URL, so that a view can be kept and passed on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import phonenumbers
from flask import Blueprint, request

from integration import clock
from integration.context import this_house
from integration.dashboard import formats, shell
from integration.dashboard.guard import current_person
from integration.house import notes, views
from integration.house.beside import Readable
from integration.mirror import history, reports, search
from integration.mirror.history import CallFilter, Cursor

blueprint = Blueprint("calls", __name__)

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
COLUMNS = {
    "line": "Line",
    "with": "With",
    "waited": "Waited",
    "talked": "Talked",
    "marks": "Recorded, voicemail",
    "cost": "Cost",
}
"""Columns that a person may hide."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS_BACK = timedelta(days=731)
"""How far back hours of the day are looked for where the view has no beginning."""
READ_SECONDS = 5.0
"""A search that takes longer is cut; the page then says so."""


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
    def narrowed(self) -> int:
        """How many filters besides the range and the search are set."""
        return sum(name in self.args for name in NAMES if name not in ("q", "range", "from", "to"))


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
    spans = None
    if weekday is not None or hour is not None:
        spans = json.dumps(reports.hours(first or today - HOURS_BACK, last or today, zone, weekday, hour))
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


@blueprint.get("/calls")
def index() -> str:
    house, zone = this_house(), formats.zone()
    view = read(
        request.args,
        zone=zone,
        today=formats.today(),
        calling_code=calling_code(house.settings.dashboard.country),
        house=house.house,
    )
    asked = replace(view.asked, only_user=shell.only_user())
    if asked.wanted is not None:
        search.catch_up(house.mirror)
    cursor = Cursor.read(request.args.get("before"), "before") or Cursor.read(
        request.args.get("after"), "after"
    )
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        page = history.page(connection, asked, cursor)
        total = history.count(connection, asked)
        elsewhere = 0
        if not total and (asked.since or asked.until):
            elsewhere = history.count(connection, asked.without_range())
        anything = total or history.count(connection, CallFilter(only_user=asked.only_user), 1)
        people, numbers = history.people(connection), history.numbers(connection)
    with house.house.read() as connection:
        saved = views.saved(connection, current_person().id, "calls")
        hidden = views.hidden(connection, current_person().id, "calls")
        labels = notes.known_labels(connection)
    return shell.page(
        "calls",
        "calls.html",
        saved=saved,
        hidden=hidden,
        labels=labels,
        query=view.url().partition("?")[2],
        me=current_person().id,
        q=view.args.get("q", ""),
        view=view,
        days=_by_day(page.rows),
        calls=page,
        total=total,
        more_than=history.COUNTED if total > history.COUNTED else None,
        elsewhere=elsewhere,
        anything=anything,
        people=people,
        numbers=numbers,
        chips=_chips(view),
        export=_export(view),
        COLUMNS=COLUMNS,
        WEEKDAYS=WEEKDAYS,
        RANGES=RANGES,
        OUTCOMES=OUTCOMES,
        WAYS=WAYS,
    )


def _by_day(rows: list[Any]) -> list[tuple[str, list[Any]]]:
    """Rows under the day they began in the display zone."""
    return [
        (day, list(calls)) for day, calls in groupby(rows, key=lambda row: formats.day_of(row["started_at"]))
    ]


def _chips(view: View) -> list[tuple[str, str, bool]]:
    """(word, URL, whether it is on): one click on, one click off."""
    chips = []
    for name in ("today", "week", "month", "all"):
        url = view.url(range=None if name == DEFAULT_RANGE else name, **_NO_DAYS)
        chips.append((RANGES[name], url, view.range == name))
    for word, name, value in (
        ("Missed", "outcome", "not_talked"),
        ("Recorded", "recorded", "1"),
        ("Voicemail", "voicemail", "1"),
    ):
        on = view.args.get(name) == value
        chips.append((word, view.url(**{name: None if on else value}), on))
    return chips


_NO_DAYS: dict[str, str | None] = {"from": None, "to": None}


def _export(view: View) -> str:
    """The calls of this view, all its pages: the export reads the same parameters."""
    return "/exports/call-history.csv?" + urlencode({"view": view.url().partition("?")[2]})
