"""Reports: what the owner reads in a few minutes. Every count leads to its rows in the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from urllib.parse import quote_plus
from zoneinfo import ZoneInfo

from flask import Blueprint, Response, request

from integration.context import this_house
from integration.core import clock
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import needs
from integration.exports.call_filter import NAMES, read_day
from integration.mirror.calls import backlog
from integration.mirror.page_queries import report_rollups as summary
from integration.mirror.page_queries import reports
from integration.mirror.page_queries.reports import Figures, Span, Sums

blueprint = Blueprint("reports", __name__)

DEFAULT = "week"
RANGES: Mapping[str, tuple[str, int, int]] = {
    "today": ("Today", 0, 1),
    "yesterday": ("Yesterday", 1, 1),
    "week": ("7 days", 6, 7),
    "month": ("30 days", 29, 30),
    "quarter": ("90 days", 89, 90),
    "year": ("A year", 364, 365),
}
"""A word, days before today that the range begins, and how many it has."""
LONGEST = timedelta(days=3660)
DAILY, WEEKLY = 62, 400
"""A bar is a day in ranges up to so many days, else a week, else a month."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HEATS = 5
"""Shades of the heat map, beside none."""
SHARES: Mapping[str, tuple[str, str]] = {
    "person": ("By person", "answered, or placed and answered"),
    "line": ("By number", "calls that came in"),
    "group": ("By ring group and queue", "calls that came in"),
    "country": ("By country", "of the number outside"),
}
READ_SECONDS = 10.0

_quoted = lru_cache(4096)(quote_plus)
"""A year's page has seven hundred links of the same few words."""


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days of the display zone, both included. `name` is a key of RANGES or 'custom'."""

    name: str
    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    def span(self, zone: ZoneInfo, level: int) -> Span:
        after = self.last + timedelta(days=1)
        return Span(formats.midnight(self.first, zone), formats.midnight(after, zone), level)

    def rows(self, **filters: object) -> str:
        """The address of the calls of these days that the filters leave; `begin`, `end` instead of them."""
        asked = {"from": filters.pop("begin", self.first), "to": filters.pop("end", self.last), **filters}
        given = ((name, asked[name]) for name in NAMES if asked.get(name) is not None)
        return "/calls?" + "&".join(f"{name}={_quoted(str(value))}" for name, value in given)

    def export(self, form: str) -> str:
        """The address of a file of the calls that these days count."""
        view = self.rows(direction="external").partition("?")[2]
        return f"/exports/call-history.{form}?view={_quoted(view)}"


@dataclass(frozen=True, slots=True)
class Bar:
    """One place of the chart over time."""

    label: str
    title: str
    figures: Figures
    rows: Callable[..., str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One hour of the week: calls that came in, their shade, and where they stand."""

    count: int
    heat: int
    href: str


def period(args: Mapping[str, str], today: date) -> Period:
    """What the URL asks for; the last seven days for what makes no sense."""
    first, last = read_day(args.get("from")), read_day(args.get("to"))
    if first or last:
        first, last = first or last or today, last or today
        first, last = min(first, last), max(first, last)
        return Period("custom", max(first, last - LONGEST), last)
    name = args.get("range", DEFAULT)
    _, back, length = RANGES.get(name, RANGES[DEFAULT])
    begin = today - timedelta(days=back)
    return Period(name if name in RANGES else DEFAULT, begin, begin + timedelta(days=length - 1))


@blueprint.app_template_filter()
def ceiling(most: float) -> float:
    """The end of an axis, whose half is a whole number too: the next of 2, 4, 6, 8, 10, 20, 40, 60 …"""
    size = 1
    while 10 * size < most:
        size *= 10
    return next(step * size for step in (2, 4, 6, 8, 10) if step * size >= most)


@blueprint.get("/reports")
@needs("supervisor")
def index() -> str | Response:
    house, zone, today = this_house(), formats.zone(), formats.today()
    level = house.settings.calls.service_level_seconds
    chosen = period(request.args, today)
    now = clock.now().astimezone(zone)
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        sums = summary.read(connection, chosen.first, chosen.last, zone, level, today)
        whole = sums.whole
        shares = [(kind, *words, reports.ranked(connection, sums, kind)) for kind, words in SHARES.items()]
        sofar, before = compared(now, level, zone)
        waiting, begin = backlog.waiting(connection), min(chosen.span(zone, level).since, before[1].since)
        values = {
            "sofar": (reports.totals(connection, sofar[1]), *sofar),
            "before": (reports.totals(connection, before[1]), *before),
            "currency": reports.currency(connection),
            "waiting": waiting if waiting is not None and waiting.within(begin) else None,
            "anything": whole.calls or reports.first_day(connection, zone),
        }
    return shell.page(
        "reports",
        "reports.html",
        chosen=chosen,
        ranges=RANGES,
        whole=whole,
        bars=bars(chosen, sums),
        heat=heat(chosen, sums),
        shares=shares,
        level=level,
        short=house.settings.calls.short_seconds,
        weekdays=WEEKDAYS,
        clock=f"{now:%H:%M}",
        weekday=f"{now:%A}",
        today=today,
        **values,
    )


def compared(
    now: datetime, level: int, zone: ZoneInfo
) -> tuple[tuple[Callable[..., str], Span], tuple[Callable[..., str], Span]]:
    """Today so far and the same weekday last week up to the same minute: their rows and their spans."""
    today = Period("today", now.date(), now.date())
    week = timedelta(days=7)
    earlier = Period("custom", today.first - week, today.last - week)
    minute = now.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
    span = earlier.span(zone, level)
    if minute.date() != now.date():
        return (today.rows, today.span(zone, level)), (earlier.rows, span)
    until = clock.stamp((minute - week).replace(tzinfo=zone))

    def rows(**filters: object) -> str:
        return earlier.rows(**{"clock": f"{minute:%H:%M}", **filters})

    return (today.rows, today.span(zone, level)), (rows, Span(span.since, until, level))


def bars(chosen: Period, sums: Sums) -> list[Bar]:
    """The range in hours, days, weeks or months, those without calls too."""
    if chosen.days == 1:
        return [_hour_bar(chosen, hour, sums.hours.get(hour, Figures())) for hour in range(24)]
    found: dict[date, Figures] = {}
    for day, figures in sums.days.items():
        found.setdefault(_begin(day, chosen), Figures()).add(figures)
    made = []
    begin = _begin(chosen.first, chosen)
    while begin <= chosen.last:
        after = _begin(begin + timedelta(days=31 if chosen.days > WEEKLY else 7), chosen)
        if chosen.days <= DAILY:
            after = begin + timedelta(days=1)
        first, last = max(begin, chosen.first), min(after - timedelta(days=1), chosen.last)
        made.append(_day_bar(chosen, first, last, found.get(begin, Figures())))
        begin = after
    return made


def _begin(day: date, chosen: Period) -> date:
    """The first day of the bar that `day` belongs to."""
    if chosen.days <= DAILY:
        return day
    if chosen.days <= WEEKLY:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1)


def _hour_bar(chosen: Period, hour: int, figures: Figures) -> Bar:
    def rows(**filters: object) -> str:
        return chosen.rows(**{"hour": hour, **filters})

    return Bar(f"{hour:02}", f"{hour:02}:00–{hour + 1:02}:00", figures, rows)


def _day_bar(chosen: Period, first: date, last: date, figures: Figures) -> Bar:
    def rows(**filters: object) -> str:
        return chosen.rows(**{"begin": first, "end": last, **filters})

    title = f"{first:%a} {first.day} {first:%b %Y}"
    if last != first:
        title += f" to {last.day} {last:%b %Y}"
    label = f"{first:%b}" if chosen.days > WEEKLY else f"{first.day} {first:%b}"
    return Bar(label, title, figures, rows)


def heat(chosen: Period, sums: Sums) -> list[list[Cell]]:
    """Calls that came in, by weekday (Monday first) and hour."""
    most = max(sums.week.values(), default=0)
    return [
        [
            Cell(
                count := sums.week[day, hour],
                -(-HEATS * count // most) if count else 0,
                _heat_rows(chosen, day, hour),
            )
            for hour in range(24)
        ]
        for day in range(7)
    ]


def _heat_rows(chosen: Period, weekday: int, hour: int) -> str:
    return chosen.rows(direction="in", weekday=weekday, hour=hour)
