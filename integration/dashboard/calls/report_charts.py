"""Charts of reports: bars over time, heat map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial

from integration.dashboard.calls.report_period import Period
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.reports import Figures, ReportSums

MAX_DAILY_DAYS, MAX_WEEKLY_DAYS = 62, 400
"""Maximum days of a range with daily and with weekly bars. Longer ranges have monthly bars."""
HEAT_SHADES = 5
"""Shades of the heat map, without that of an hour without calls."""
PALE_BELOW_CALLS = 10
"""Calls below which a point or cell of a share is drawn pale, and not joined to others."""
HEAT_MODES = {
    "calls": ("Calls", "inbound calls"),
    "missed": (STATE_LABELS["missed"].text, "missed calls and voicemail"),
    "level": ("Service level", "calls answered in time, in percent"),
    "talk": ("Length", "average talk time of answered calls, inbound and outbound"),
}
"""Label of the switch and description, by value of `heat` in the URL."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of the chart over time.

    `calls_url` returns the URL of its calls for given filters. `before` has the figures of the same days of
    the period compared with, None outside of it. A bar of days has `first` and `last`.
    """

    label: str
    title: str
    figures: Figures
    calls_url: Callable[..., str]
    before: Figures | None = None
    first: date | None = None
    last: date | None = None

    @property
    def is_small(self) -> bool:
        """True if the service level is that of few calls."""
        return self.figures.offered < PALE_BELOW_CALLS


@dataclass(frozen=True, slots=True)
class Cell:
    """Hour of the week in the heat map.

    `value` is None without calls. `count` is the number of calls behind the link. `shade` is 0 to
    HEAT_SHADES.
    """

    value: float | None
    count: int
    shade: int
    url: str
    is_small: bool = False


def describe_unit(period: Period) -> str:
    """Return the unit of a bar: 'hour', 'day', 'week' or 'month'."""
    if period.days == 1:
        return "hour"
    if period.days <= MAX_DAILY_DAYS:
        return "day"
    return "week" if period.days <= MAX_WEEKLY_DAYS else "month"


def build_bars(
    period: Period, sums: ReportSums, before: tuple[Period, ReportSums] | None = None
) -> list[Bar]:
    """Return bars of hours, days, weeks or months, including empty bars."""
    if period.days == 1:
        earlier_hours = before[1].hours if before and before[0].days == 1 else {}
        return [
            Bar(
                f"{hour:02}",
                f"{hour:02}:00–{hour + 1:02}:00",
                sums.hours.get(hour, Figures()),
                partial(period.calls_url, hour=hour),
                earlier_hours.get(hour),
            )
            for hour in range(24)
        ]
    unit, chart_bars = describe_unit(period), []
    begin = _bar_start(period.first, unit)
    while begin <= period.last:
        next_begin = _bar_start(begin + timedelta(days={"day": 1, "week": 7, "month": 31}[unit]), unit)
        first, last = max(begin, period.first), min(next_begin - timedelta(days=1), period.last)
        earlier = None
        if before is not None:
            shift = before[0].first - period.first
            earlier = _sum_days(before[1], first + shift, min(last + shift, before[0].last))
        chart_bars.append(_build_day_bar(period, first, last, _sum_days(sums, first, last), earlier))
        begin = next_begin
    return chart_bars


def _sum_days(sums: ReportSums, first: date, last: date) -> Figures:
    total = Figures()
    for offset in range((last - first).days + 1):
        figures = sums.days.get(first + timedelta(days=offset))
        if figures is not None:
            total.add(figures)
    return total


def _bar_start(day: date, unit: str) -> date:
    """Return the first day of the bar that includes `day`, which may be before the period."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _build_day_bar(period: Period, first: date, last: date, figures: Figures, before: Figures | None) -> Bar:
    title = f"{first:%a} {first.day} {first:%b %Y}"
    if last != first:
        title += f" to {last.day} {last:%b %Y}"
    label = f"{first:%b}" if period.days > MAX_WEEKLY_DAYS else f"{first.day} {first:%b}"
    calls_url = partial(period.calls_url, begin=first, end=last)
    return Bar(label, title, figures, calls_url, before, first, last)


def build_heatmap(period: Period, sums: ReportSums, mode: str, level: int) -> list[list[Cell]]:
    """Return a figure of HEAT_MODES by weekday (Monday first) and hour.

    `level` is the wait of the service level in seconds.
    """
    links: dict[str, dict[str, object]] = {
        "calls": {"direction": "in"},
        "missed": {"direction": "in", "outcome": "not_talked"},
        "level": {"direction": "in", "outcome": "answered", "waited": level},
        "talk": {"direction": "external", "outcome": "answered"},
    }
    weeks = {key: _get_heat_value(figures, mode) for key, figures in sums.week.items()}
    maximum = max((value for value, _, _ in weeks.values() if value is not None), default=0)

    def build_cell(day: int, hour: int) -> Cell:
        value, count, is_small = weeks.get((day, hour), (None, 0, False))
        shade = max(1, -int(-HEAT_SHADES * value // maximum)) if value is not None and maximum else 0
        return Cell(value, count, shade, period.calls_url(weekday=day, hour=hour, **links[mode]), is_small)

    return [[build_cell(day, hour) for hour in range(24)] for day in range(7)]


def _get_heat_value(figures: Figures, mode: str) -> tuple[float | None, int, bool]:
    """Return (value, number of calls behind its link, whether they are few)."""
    if mode == "missed":
        return figures.unanswered or None, figures.unanswered, False
    if mode == "level":
        return figures.service_level, figures.in_time, figures.offered < PALE_BELOW_CALLS
    if mode == "talk":
        return figures.average_talk, figures.talks, False
    return figures.inbound or None, figures.inbound, False
