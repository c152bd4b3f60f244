"""Page In words: a period in sentences with links to its calls."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import date
from typing import Any

from flask import Blueprint

from integration.access.rights import EXPORTS_ONLY
from integration.context import app_context
from integration.core.calendar_periods import find_period
from integration.dashboard.calls.report_period import (
    FEW_CALLS,
    READ_SECONDS,
    Period,
    parse_request,
    read_missed,
    read_page_values,
    read_sums,
)
from integration.dashboard.site import layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries.call_view import WEEKDAYS
from integration.mirror.page_queries.missed_calls import REASONS, CountingRules, MissedSums
from integration.mirror.page_queries.reports import Figures, ReportSums

blueprint = Blueprint("report_summary", __name__)

MIN_MISSED_IN_HOUR = 3
"""Missed calls below which no hour of the week is the worst one."""
REASON_CLAUSES = {
    "rang": "rang and were not answered",
    "none-free": "found no one free",
    "outside": "came outside your opening hours",
    "voicemail": "left a voicemail",
}


@dataclass(frozen=True, slots=True)
class WorstHour:
    """Hour of the week with most missed calls. `weekday` 0 is Monday."""

    weekday: int
    hour: int
    figures: Figures

    @property
    def label(self) -> str:
        """Name of the hour, such as 'Thursdays from 11:00 to 12:00'."""
        return f"{WEEKDAYS[self.weekday]}s from {self.hour}:00 to {self.hour + 1}:00"


@blueprint.get("/reports/summary")
@requires("supervisor", EXPORTS_ONLY)
def index() -> str:
    requested = parse_request(default="last-month")
    with app_context().mirror_db.read(seconds=READ_SECONDS) as connection:
        story = read_story(connection, requested.period, requested.before, requested.rules, requested.today)
        page_values = read_page_values(connection, requested, story["earlier_totals"].inbound)
    return layout.render_page("reports", "reports_summary.html", **page_values, **story)


def read_story(
    connection: sqlite3.Connection, period: Period, before: Period, rules: CountingRules, today: date
) -> dict[str, Any]:
    """Return the values of the sentences about a period (`_story.html`), except those of the comparison.

    `before`: the compared period.
    """
    sums = read_sums(connection, period, rules, today)
    missed = read_missed(connection, period, rules, today)
    return {
        "heading": describe_period(period),
        "is_over": period.last < today,
        "totals": sums.total,
        "earlier_totals": read_sums(connection, before, rules, today, with_shares=False).total,
        "missed": missed.total,
        "reasons": _list_reasons(missed),
        "worst": find_worst_hour(sums),
        "few": FEW_CALLS,
        "level": rules.level,
    }


def describe_period(period: Period) -> str:
    """Return the heading.

    'Your October 2026', 'Your week, 9–15 November 2026' or 'Your calls, …'.
    """
    for frequency in ("month", "week"):
        found = find_period(frequency, period.first)
        if period.first == found.first_day and period.days == (found.end_day - found.first_day).days:
            return f"Your {period.first:%B %Y}" if frequency == "month" else f"Your week, {period.label}"
    return f"Your calls, {period.label}"


def find_worst_hour(sums: ReportSums) -> WorstHour | None:
    """Return the hour of the week with most missed calls.

    None if it has few calls, or if two hours have equally many.
    """
    hours = sorted(
        (WorstHour(weekday, hour, figures) for (weekday, hour), figures in sums.week.items()),
        key=lambda found: found.figures.unanswered,
    )
    if not hours:
        return None
    worst = hours[-1]
    is_tied = len(hours) > 1 and hours[-2].figures.unanswered == worst.figures.unanswered
    if is_tied or worst.figures.inbound < FEW_CALLS or worst.figures.unanswered < MIN_MISSED_IN_HOUR:
        return None
    return worst


def _list_reasons(missed: MissedSums) -> list[tuple[str, str, int]]:
    """Return (key, clause, calls) of each reason, most calls first."""
    found = [(key, REASON_CLAUSES[key], missed.get("reason", key).calls) for key in REASONS if key != "early"]
    return sorted((reason for reason in found if reason[2]), key=lambda reason: -reason[2])
