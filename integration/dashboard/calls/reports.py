"""Page Reports: totals, charts and shares of calls in two periods.

Every count links to its rows in the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from flask import Blueprint, request

from integration.access.rights import EXPORTS_ONLY
from integration.context import app_context
from integration.dashboard.calls import report_charts
from integration.dashboard.calls.report_period import (
    FEW_CALLS,
    READ_SECONDS,
    Period,
    parse_request,
    read_page_values,
    read_sums,
)
from integration.dashboard.site import layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import reports
from integration.mirror.page_queries.call_view import WEEKDAYS
from integration.mirror.page_queries.reports import Figures, ReportSums, Share
from integration.settings.model import Calls

blueprint = Blueprint("reports", __name__)

BREAKDOWNS: Mapping[str, tuple[str, str, str]] = {
    "person": ("By person", "answered calls in both directions", "Person unknown"),
    "line": ("By number", "inbound calls", "Number unknown"),
    "group": ("By ring group and queue", "inbound calls", "No ring group or queue"),
    "country": ("By country", "of the other party", "Withheld or unknown"),
}
"""Heading, its explanation, and the name of the row of calls without a share."""


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
@requires("supervisor", EXPORTS_ONLY)
def index() -> str:
    context, requested = app_context(), parse_request()
    period, period_before, rules = requested.period, requested.before, requested.rules
    heat_mode = request.args.get("heat", "calls")
    heat_mode = heat_mode if heat_mode in report_charts.HEAT_MODES else "calls"
    today = Period("today", requested.today, requested.today, open_only=period.open_only)
    week_ago = today.find_compared({}, requested.now)
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        sums = read_sums(connection, period, rules, requested.today)
        sums_before = read_sums(connection, period_before, rules, requested.today, with_shares=False)
        totals = sums.total
        page_values = read_page_values(
            connection, requested, sums_before.total.calls, requested.span(week_ago).since
        )
        shares = [
            (breakdown, *labels, *_divide(connection, sums, totals, breakdown))
            for breakdown, labels in BREAKDOWNS.items()
        ]
        sofar, before = (
            (reports.compute_totals(connection, requested.span(day)), day.calls_url)
            for day in (today, week_ago)
        )
        undecided_outbound = reports.count_undecided_outbound(connection, requested.span(period))
        currency = reports.get_currency(connection)
    calls = context.settings.calls
    return layout.render_page(
        "reports",
        "reports.html",
        **page_values,
        earlier_totals=sums_before.total,
        totals=totals,
        bars=report_charts.build_bars(
            period, sums, (period_before, sums_before) if page_values["is_compared"] else None
        ),
        unit=report_charts.describe_unit(period),
        heat=report_charts.build_heatmap(period, sums, heat_mode, rules.level),
        heat_mode=heat_mode,
        HEAT_MODES=report_charts.HEAT_MODES,
        shares=shares,
        sofar=sofar,
        before=before,
        undecided_outbound=undecided_outbound,
        currency=currency,
        level=rules.level,
        level_target=calls.service_level_target,
        missed_target=calls.missed_target,
        targets=judge_targets(totals, calls),
        few=FEW_CALLS,
        pale_below=report_charts.PALE_BELOW_CALLS,
        short=calls.short_seconds,
        weekdays=[name[:3] for name in WEEKDAYS],
        weekday=f"{requested.now:%A}",
    )


def judge_targets(totals: Figures, calls: Calls) -> dict[str, bool | None]:
    """Return which targets are met: 'level', 'missed' and 'wait'. None for too few calls."""
    level, wait = totals.service_level, totals.average_wait
    return {
        "level": level >= calls.service_level_target
        if totals.offered >= FEW_CALLS and level is not None
        else None,
        "missed": 100 * totals.unanswered <= calls.missed_target * totals.inbound
        if totals.inbound >= FEW_CALLS
        else None,
        "wait": wait <= calls.service_level_seconds
        if totals.timed >= FEW_CALLS and wait is not None
        else None,
    }


def _divide(
    connection: sqlite3.Connection, sums: ReportSums, totals: Figures, breakdown: str
) -> tuple[list[Share], Figures, Figures]:
    """Return shares, figures of calls without a share, and total."""
    shares = reports.rank_shares(connection, sums, breakdown)
    if breakdown == "person":
        # The bars show these counts, so they also give the order.
        shares.sort(key=lambda share: (-share.figures.answered, -share.figures.outbound))
    total = reports.compute_share_total(totals, breakdown)
    return shares, reports.compute_rest(total, shares), total
