"""Reports of the own API: `GET /api/reports/{period}`, the figures of the page *Reports*."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, timedelta
from typing import Any

from integration.api.requests import ApiRequest, build_value_error, require_day
from integration.core import clock
from integration.core.api_responses import ApiError
from integration.core.calendar_periods import find_period
from integration.mirror.derived import report_sums
from integration.mirror.page_queries import reports
from integration.mirror.page_queries.reports import Figures

Json = dict[str, Any]

MAX_DAYS = 400
PARTS = {"people": "person", "lines": "line", "groups": "group", "countries": "country"}
"""Kind of `reports.rank_shares`, by member of the response."""


def read_report(request: ApiRequest, period: str) -> Json:
    """Return the figures of a period: `{"data": {"from", "to", "timezone", "currency", "total", "days", …}}`.

    `period` is today, week, month (from Monday or the first until today), or `FROM..TO` with days of the
    display zone, both included, at most 400. Durations are seconds, charges are in the account's currency.
    Raises ApiError 400 or 403.
    """
    request.check_right("workspace")
    request.check_collection("cdrs")
    request.check_names(())
    if request.caller.visibility.user_scope is not None:
        raise ApiError(403, "This key sees only its own user's records.")
    today = clock.now().astimezone(request.zone).date()
    first, last = _parse_period(period, today)
    rules = request.context.rules.counting
    with request.open_databases() as (mirror, _):
        sums = report_sums.read_sums(mirror, first, last, rules, today)
        missed = report_sums.read_missed(mirror, first, last, rules, today)
        shares = {
            name: [
                {"key": share.key, "name": share.name, **_describe(share.figures)}
                for share in reports.rank_shares(mirror, sums, kind)
            ]
            for name, kind in PARTS.items()
        }
        currency = reports.get_currency(mirror)
    total = missed.total
    return {
        "data": {
            "from": first.isoformat(),
            "to": last.isoformat(),
            "timezone": rules.zone.key,
            "currency": currency or None,
            "total": _describe(sums.total),
            "called_back": {
                "unanswered": total.calls,
                "within_an_hour": total.in_hour,
                "within_a_day": total.in_hour + total.in_day,
            },
            "days": [{"day": day.isoformat(), **_describe(sums.days[day])} for day in sorted(sums.days)],
            **shares,
        }
    }


def _parse_period(text: str, today: date) -> tuple[date, date]:
    if text == "today":
        return today, today
    if text in ("week", "month"):
        return find_period("week" if text == "week" else "month", today).first_day, today
    first_text, separator, last_text = text.partition("..")
    if not separator:
        raise build_value_error(
            "period", "Use today, week, month, or two days such as 2026-10-01..2026-10-31."
        )
    first, last = require_day("period", first_text), require_day("period", last_text)
    if first > last:
        raise build_value_error("period", "The first day is after the last one.")
    if last - first >= timedelta(days=MAX_DAYS):
        raise build_value_error("period", f"A period has at most {MAX_DAYS} days.")
    return first, last


def _describe(figures: Figures) -> Json:
    """Return the figures and what the pages compute from them, null where nothing can be computed."""
    return {
        **asdict(figures),
        "unanswered": figures.unanswered,
        "service_level_percent": figures.service_level,
        "average_wait": figures.average_wait,
        "average_talk": figures.average_talk,
    }
