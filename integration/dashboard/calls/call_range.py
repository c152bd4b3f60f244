"""Totals and histogram of the calls that the page Calls lists."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from integration.dashboard.calls.report_charts import Bar, build_bars
from integration.dashboard.calls.report_period import Period, read_sums
from integration.mirror.derived import report_sums
from integration.mirror.page_queries import history, reports
from integration.mirror.page_queries.call_view import CallView
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.missed_calls import CountingRules
from integration.mirror.page_queries.reports import Figures, ReportSums

MAX_UNSUMMED_CALLS = 50_000
"""Most calls of days without stored sums that are summed for a page; 50,000 take 0.1 s.

During an initial sync, and for some minutes afterwards, no day has stored sums.
"""
MAX_FILTERED_CALLS = 5_000
"""Calls up to which a filtered view is summed: 15 ms. Views without filters have stored sums."""
HOUR_FILTERS = ("hour", "begin", "end")
"""Filters of which a view of one day has no bars."""


@dataclass(frozen=True, slots=True)
class CallRange:
    """Totals and bars of the calls of a view.

    `before` has the totals of the period before, None without calls to compare with: the history is shorter,
    the period has none, or the view is a search. `calls_url` and `earlier_url` return the URL of the calls
    counted there, for given filters. `base_url` is the URL of the view without days. Stored sums have no
    internal calls: `is_external` is then true, and `internal` the number of the others.
    """

    totals: Figures
    bars: list[Bar]
    calls_url: Callable[..., str]
    is_external: bool
    base_url: str
    has_days: bool
    internal: int = 0
    before: Figures | None = None
    earlier_label: str = ""
    earlier_url: Callable[..., str] | None = None


def read_range(
    connection: sqlite3.Connection,
    view: CallView,
    call_filter: CallFilter,
    total: int | None,
    rules: CountingRules,
    now: datetime,
    parse: Callable[[dict[str, str]], CallView],
) -> CallRange | None:
    """Return totals and bars of a view.

    None if it has too many calls for a sum. `total` is the number of its calls, None if it is not known
    exactly. `parse` parses the parameters of another view.
    """
    oldest = reports.find_first_day(connection, rules.zone)
    if oldest is None:
        return None
    today = now.date()
    last = min(view.last_day or today, today) if view.first_day is None or view.first_day <= today else None
    first = max(view.first_day or oldest, oldest)
    if last is None or first > last:
        return None
    # The days before the oldest call have no bars; those of the period stay comparable.
    period = Period("custom", view.first_day or first, last, view.args.get("clock"))
    is_stored = not (set(view.filter_names) - {"direction", "clock"}) and "q" not in view.args
    is_stored = (
        is_stored and view.args.get("direction") in (None, "external") and call_filter.user_scope is None
    )
    if "since" in view.args or (period.days == 1 and any(name in view.args for name in HOUR_FILTERS)):
        return None
    if is_stored:
        limit = MAX_UNSUMMED_CALLS + 1
        if report_sums.count_direct_calls(connection, first, last, rules, today, limit) == limit:
            return None
    elif total is None or total > MAX_FILTERED_CALLS:
        return None

    def read(chosen: Period, chosen_filter: CallFilter) -> ReportSums:
        if is_stored:
            return read_sums(connection, chosen, rules, today, with_shares=False)
        span = chosen.span(rules.zone, rules.level)
        return reports.sum_filtered(connection, chosen_filter, span, rules, by_hour=chosen.days == 1)

    sums = read(period, call_filter)
    internal = 0
    if "direction" not in view.args and total is not None:
        internal_filter = replace(call_filter, direction="internal")
        internal = total - sums.total.calls if is_stored else history.count(connection, internal_filter)
    external: dict[str, object] = {"direction": "external"} if is_stored else {}
    found = CallRange(
        sums.total,
        [
            replace(bar, calls_url=_link(view, bar.calls_url, external))
            for bar in build_bars(replace(period, first=first), sums)
        ],
        _link(view, period.calls_url, external),
        is_stored,
        view.url(**{"from": None, "to": None, "range": None, "clock": None}),
        period.days > 1,
        internal,
    )
    if view.first_day is None or "q" in view.args:
        return found
    earlier = period.find_compared({}, now) if period.clock is None else None
    if earlier is None or earlier.first < oldest:
        return found
    days = {"from": str(earlier.first), "to": str(earlier.last), "clock": earlier.clock or ""}
    others = {name: text for name, text in view.args.items() if name not in ("range", "from", "to", "clock")}
    earlier_view = parse({**others, **days})
    earlier_filter = replace(
        earlier_view.call_filter, user_scope=call_filter.user_scope, search_terms=call_filter.search_terms
    )
    if not is_stored:
        earlier_filter = history.resolve_search(connection, earlier_filter)
        if history.count(connection, earlier_filter, MAX_FILTERED_CALLS) > MAX_FILTERED_CALLS:
            return found
    before = read(earlier, earlier_filter).total
    if not before.calls:
        return found
    return replace(
        found,
        before=before,
        earlier_label=earlier.describe_beside(period) + (", same time" if earlier.clock else ""),
        earlier_url=_link(earlier_view, earlier.calls_url, external),
    )


def _link(view: CallView, calls_url: Callable[..., str], fixed: dict[str, object]) -> Callable[..., str]:
    """Return `calls_url` with the filters of `view`."""
    kept = {name: text for name, text in view.args.items() if name not in ("range", "from", "to", "clock")}
    return partial(calls_url, **{**kept, **fixed})
