"""Page Reports: totals, charts and shares of calls.

Every count links to its rows in the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from urllib.parse import quote_plus, urlencode
from zoneinfo import ZoneInfo

from flask import Blueprint, Response, request

from integration.context import app_context
from integration.core import clock
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import requires
from integration.exports.call_filter import PARAMETERS, parse_day
from integration.mirror.calls import backlog
from integration.mirror.page_queries import report_rollups, reports
from integration.mirror.page_queries.reports import Figures, ReportSums, Share, Span

blueprint = Blueprint("reports", __name__)

DEFAULT_RANGE = "week"
RANGES: Mapping[str, tuple[str, int, int]] = {
    "today": ("Today", 0, 1),
    "yesterday": ("Yesterday", 1, 1),
    "week": ("7 days", 6, 7),
    "month": ("30 days", 29, 30),
    "quarter": ("90 days", 89, 90),
    "year": ("365 days", 364, 365),
}
"""Label, days from its first day to today, length in days."""
MAX_RANGE = timedelta(days=3660)
"""Maximum time between the first and the last day of a custom range."""
MAX_DAILY_DAYS, MAX_WEEKLY_DAYS = 62, 400
"""Maximum days of a range with daily and with weekly bars. Longer ranges have monthly bars."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HEAT_SHADES = 5
"""Shades of the heat map, without that of an hour without calls."""
BREAKDOWNS: Mapping[str, tuple[str, str, str]] = {
    "person": ("By person", "answered calls in both directions", "Person unknown"),
    "line": ("By number", "inbound calls", "Number unknown"),
    "group": ("By ring group and queue", "inbound calls", "No ring group or queue"),
    "country": ("By country", "of the other party", "Withheld or unknown"),
}
"""Heading, its explanation, and the name of the row of calls without a share."""
READ_SECONDS = 10.0
"""Seconds after which the queries of a report are cancelled."""

_quote_cached = lru_cache(4096)(quote_plus)
"""Cached, because the page of a year has 700 links with few distinct values."""


@dataclass(frozen=True, slots=True)
class Period:
    """Days of the display zone from `first` to `last`, both included.

    `name` is a key of RANGES or 'custom'.
    """

    name: str
    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    def span(self, zone: ZoneInfo, service_level_seconds: int) -> Span:
        day_after = self.last + timedelta(days=1)
        return Span(clock.midnight(self.first, zone), clock.midnight(day_after, zone), service_level_seconds)

    def calls_url(self, **filters: object) -> str:
        """Return the URL of the calls of these days with `filters`.

        The filters `begin` and `end` replace the days.
        """
        parameters = {
            "from": filters.pop("begin", self.first),
            "to": filters.pop("end", self.last),
            **filters,
        }
        items = ((name, parameters[name]) for name in PARAMETERS if parameters.get(name) is not None)
        return "/calls?" + "&".join(f"{name}={_quote_cached(str(value))}" for name, value in items)

    def export_url(self, file_format: str) -> str:
        """Return the export URL of the calls counted in these days."""
        view = self.calls_url(direction="external").partition("?")[2]
        style = urlencode(formats.export_style())
        return f"/exports/call-history.{file_format}?view={_quote_cached(view)}&{style}"


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of the chart over time.

    `calls_url` returns the URL of its calls for given filters.
    """

    label: str
    title: str
    figures: Figures
    calls_url: Callable[..., str]


@dataclass(frozen=True, slots=True)
class Cell:
    """Hour of the week in the heat map.

    `count` is the number of inbound calls, `shade` is 0 to HEAT_SHADES.
    """

    count: int
    shade: int
    url: str


def parse_period(args: Mapping[str, str], today: date) -> Period:
    """Parse the period. Missing or invalid parameters mean the last seven days."""
    first, last = parse_day(args.get("from")), parse_day(args.get("to"))
    if first or last:
        first, last = first or last or today, last or today
        first, last = min(first, last), max(first, last)
        return Period("custom", max(first, last - MAX_RANGE), last)
    name = args.get("range", DEFAULT_RANGE)
    _, days_back, length = RANGES.get(name, RANGES[DEFAULT_RANGE])
    begin = today - timedelta(days=days_back)
    return Period(name if name in RANGES else DEFAULT_RANGE, begin, begin + timedelta(days=length - 1))


@blueprint.app_template_filter()
def ceiling(maximum: float) -> float:
    """Return a round end of an axis for values up to `maximum`.

    The result is one of 2, 4, 6, 8, 10, 20, 40, 60 …, so that its half is an integer.
    """
    magnitude = 1
    while 10 * magnitude < maximum:
        magnitude *= 10
    return next(step * magnitude for step in (2, 4, 6, 8, 10) if step * magnitude >= maximum)


@blueprint.get("/reports")
@requires("supervisor")
def index() -> str | Response:
    context, zone, today = app_context(), formats.display_zone(), formats.today()
    service_level_seconds = context.settings.calls.service_level_seconds
    period = parse_period(request.args, today)
    now = clock.now().astimezone(zone)
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        sums = report_rollups.read_sums(
            connection, period.first, period.last, zone, service_level_seconds, today
        )
        totals = sums.total
        shares = [
            (breakdown, *labels, *_divide(connection, sums, totals, breakdown))
            for breakdown, labels in BREAKDOWNS.items()
        ]
        today_so_far, last_week = comparison_spans(now, service_level_seconds, zone)
        backlog_state, earliest = (
            backlog.get_state(connection),
            min(period.span(zone, service_level_seconds).since, last_week[1].since),
        )
        values = {
            "sofar": (reports.compute_totals(connection, today_so_far[1]), *today_so_far),
            "before": (reports.compute_totals(connection, last_week[1]), *last_week),
            "currency": reports.get_currency(connection),
            "waiting": backlog_state
            if backlog_state is not None and backlog_state.may_contain(earliest)
            else None,
            "anything": totals.calls or reports.find_first_day(connection, zone),
        }
    return layout.render_page(
        "reports",
        "reports.html",
        chosen=period,
        ranges=RANGES,
        totals=totals,
        bars=build_bars(period, sums),
        heat=build_heatmap(period, sums),
        shares=shares,
        level=service_level_seconds,
        short=context.settings.calls.short_seconds,
        weekdays=WEEKDAYS,
        clock=f"{now:%H:%M}",
        weekday=f"{now:%A}",
        today=today,
        **values,
    )


def _divide(
    connection: sqlite3.Connection, sums: ReportSums, totals: Figures, breakdown: str
) -> tuple[list[Share], Figures, Figures]:
    """Return shares, figures of calls without a share, and total."""
    shares = reports.rank_shares(connection, sums, breakdown)
    total = reports.compute_share_total(totals, breakdown)
    return shares, reports.compute_rest(total, shares), total


def comparison_spans(
    now: datetime, service_level_seconds: int, zone: ZoneInfo
) -> tuple[tuple[Callable[..., str], Span], tuple[Callable[..., str], Span]]:
    """Return (URL of calls, span) of today and of last week.

    Last week is the same weekday, up to the end of the current minute. Each URL is a function of filters.
    """
    today = Period("today", now.date(), now.date())
    week = timedelta(days=7)
    last_week = Period("custom", today.first - week, today.last - week)
    minute = now.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
    span = last_week.span(zone, service_level_seconds)
    if minute.date() != now.date():
        return (today.calls_url, today.span(zone, service_level_seconds)), (last_week.calls_url, span)
    until = clock.utc_text((minute - week).replace(tzinfo=zone))

    def calls_url(**filters: object) -> str:
        return last_week.calls_url(**{"clock": f"{minute:%H:%M}", **filters})

    return (today.calls_url, today.span(zone, service_level_seconds)), (
        calls_url,
        Span(span.since, until, service_level_seconds),
    )


def build_bars(period: Period, sums: ReportSums) -> list[Bar]:
    """Return bars of hours, days, weeks or months, including empty bars."""
    if period.days == 1:
        return [_build_hour_bar(period, hour, sums.hours.get(hour, Figures())) for hour in range(24)]
    figures_by_start: dict[date, Figures] = {}
    for day, figures in sums.days.items():
        figures_by_start.setdefault(_bar_start(day, period), Figures()).add(figures)
    chart_bars = []
    begin = _bar_start(period.first, period)
    while begin <= period.last:
        next_begin = _bar_start(begin + timedelta(days=31 if period.days > MAX_WEEKLY_DAYS else 7), period)
        if period.days <= MAX_DAILY_DAYS:
            next_begin = begin + timedelta(days=1)
        first, last = max(begin, period.first), min(next_begin - timedelta(days=1), period.last)
        chart_bars.append(_build_day_bar(period, first, last, figures_by_start.get(begin, Figures())))
        begin = next_begin
    return chart_bars


def _bar_start(day: date, period: Period) -> date:
    """Return the first day of the bar that includes `day`.

    The first day may be before the period.
    """
    if period.days <= MAX_DAILY_DAYS:
        return day
    if period.days <= MAX_WEEKLY_DAYS:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1)


def _build_hour_bar(period: Period, hour: int, figures: Figures) -> Bar:
    def calls_url(**filters: object) -> str:
        return period.calls_url(**{"hour": hour, **filters})

    return Bar(f"{hour:02}", f"{hour:02}:00–{hour + 1:02}:00", figures, calls_url)


def _build_day_bar(period: Period, first: date, last: date, figures: Figures) -> Bar:
    def calls_url(**filters: object) -> str:
        return period.calls_url(**{"begin": first, "end": last, **filters})

    title = f"{first:%a} {first.day} {first:%b %Y}"
    if last != first:
        title += f" to {last.day} {last:%b %Y}"
    label = f"{first:%b}" if period.days > MAX_WEEKLY_DAYS else f"{first.day} {first:%b}"
    return Bar(label, title, figures, calls_url)


def build_heatmap(period: Period, sums: ReportSums) -> list[list[Cell]]:
    """Return inbound calls by weekday (Monday first) and hour."""
    maximum = max(sums.week.values(), default=0)
    return [
        [
            Cell(
                count := sums.week[day, hour],
                -(-HEAT_SHADES * count // maximum) if count else 0,
                _heat_cell_url(period, day, hour),
            )
            for hour in range(24)
        ]
        for day in range(7)
    ]


def _heat_cell_url(period: Period, weekday: int, hour: int) -> str:
    return period.calls_url(direction="in", weekday=weekday, hour=hour)
