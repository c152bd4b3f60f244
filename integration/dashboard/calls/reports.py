"""Page Reports: totals, charts and shares of calls in two periods.

Every count links to its rows in the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from flask import Blueprint, Response, request

from integration.access.rights import EXPORTS_ONLY
from integration.context import app_context
from integration.core import clock
from integration.core.calendar_periods import RANGES
from integration.dashboard.calls import report_charts
from integration.dashboard.calls.report_period import (
    OFFERED_RANGES,
    comparison_spans,
    describe_comparison,
    parse_period,
    read_sums,
)
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import requires
from integration.mirror.calls import backlog
from integration.mirror.page_queries import reports
from integration.mirror.page_queries.reports import Figures, ReportSums, Share

blueprint = Blueprint("reports", __name__)

BREAKDOWNS: Mapping[str, tuple[str, str, str]] = {
    "person": ("By person", "answered calls in both directions", "Person unknown"),
    "line": ("By number", "inbound calls", "Number unknown"),
    "group": ("By ring group and queue", "inbound calls", "No ring group or queue"),
    "country": ("By country", "of the other party", "Withheld or unknown"),
}
"""Heading, its explanation, and the name of the row of calls without a share."""
READ_SECONDS = 10.0
"""Seconds after which the queries of a report are cancelled."""
FEW_CALLS = 20
"""Calls below which a report states counts and no percentages."""


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
def index() -> str | Response:
    context, zone, today = app_context(), formats.display_zone(), formats.today()
    rules = context.rules.counting
    period = parse_period(request.args, today)
    now = clock.now().astimezone(zone)
    period_before = period.find_compared(request.args, now)
    heat_mode = request.args.get("heat", "calls")
    heat_mode = heat_mode if heat_mode in report_charts.HEAT_MODES else "calls"
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        sums = read_sums(connection, period, rules, today)
        sums_before = read_sums(connection, period_before, rules, today, with_shares=False)
        totals, first_day = sums.total, reports.find_first_day(connection, zone)
        comparison = describe_comparison(first_day, period, period_before, sums_before.total.calls)
        shares = [
            (breakdown, *labels, *_divide(connection, sums, totals, breakdown))
            for breakdown, labels in BREAKDOWNS.items()
        ]
        today_so_far, last_week = comparison_spans(now, rules.level, zone, open_only=period.open_only)
        backlog_state = backlog.get_state(connection)
        earliest = min(period_before.span(zone, rules.level).since, last_week[1].since)
        values = {
            "sofar": (reports.compute_totals(connection, today_so_far[1]), *today_so_far),
            "before": (reports.compute_totals(connection, last_week[1]), *last_week),
            "undecided_outbound": reports.count_undecided_outbound(
                connection, period.span(zone, rules.level)
            ),
            "currency": reports.get_currency(connection),
            "waiting": backlog_state
            if backlog_state is not None and backlog_state.may_contain(earliest)
            else None,
            "anything": first_day is not None,
            **comparison,
        }
    calls = context.settings.calls
    return layout.render_page(
        "reports",
        "reports.html",
        earlier_totals=sums_before.total,
        ranges={name: RANGES[name] for name in OFFERED_RANGES},
        has_hours=rules.hours.is_entered,
        totals=totals,
        bars=report_charts.build_bars(
            period, sums, (period_before, sums_before) if comparison["is_compared"] else None
        ),
        unit=report_charts.describe_unit(period),
        heat=report_charts.build_heatmap(period, sums, heat_mode, rules.level),
        heat_mode=heat_mode,
        HEAT_MODES=report_charts.HEAT_MODES,
        shares=shares,
        level=rules.level,
        level_target=calls.service_level_target,
        missed_target=calls.missed_target,
        few=FEW_CALLS,
        pale_below=report_charts.PALE_BELOW_CALLS,
        short=calls.short_seconds,
        weekdays=report_charts.WEEKDAYS,
        weekday=f"{now:%A}",
        today=today,
        **values,
    )


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
