"""Digest: the page about a period that a schedule sends.

It has the sentences of *In words*, five figures, the open call-backs, the targets and the problems of System.
Each figure links to its calls if `server.public_url` is set. The days are those since the last delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import IO, Any

from flask import Flask

from integration.context import EXTENSION, AppContext
from integration.core import clock
from integration.dashboard.calls.report_period import READ_SECONDS, Period, describe_comparison
from integration.dashboard.calls.report_summary import read_story
from integration.dashboard.calls.reports import judge_targets
from integration.dashboard.system import components
from integration.exports import jobs
from integration.exports.jobs import ExportRun
from integration.mirror.page_queries import reports
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.reports import Figures
from integration.workspace import callbacks, text_back

MAX_CALLBACKS = 10
"""Open call-backs that a digest lists, the oldest first."""


def write_digest(app: Flask, run: ExportRun, incomplete_reason: str | None, file: IO[bytes]) -> int:
    """Write the digest of a run as HTML. Returns the number of calls."""
    context: AppContext = app.extensions[EXTENSION]
    rules = context.rules.counting
    today = clock.now().astimezone(rules.zone).date()
    with context.app_db.read() as connection:
        days = jobs.find_digest_period(connection, run)
        open_count = callbacks.count_open(connection)
        items = callbacks.list_items(connection)
        text_count = text_back.count_this_month(connection, rules.zone)
    period = Period("custom", days.first_day, days.end_day - timedelta(days=1))
    before = period.find_compared({}, clock.now().astimezone(rules.zone))
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        story = read_story(connection, period, before, rules, today)
        first_day = reports.find_first_day(connection, rules.zone)
    comparison = describe_comparison(first_day, period, before, story["earlier_totals"].inbound)
    totals: Figures = story["totals"]
    # The filters of the templates read the settings of the application.
    with app.app_context():
        page = app.jinja_env.get_template("digest.html").render(
            **story,
            **comparison,
            figures=list(_list_figures(totals, story["earlier_totals"])),
            open_count=open_count,
            text_count=text_count,
            items=sorted(items, key=lambda item: item.opened_at)[:MAX_CALLBACKS],
            has_names=bool(run.job.args.get(jobs.NAMES_PARAMETER)),
            targets=judge_targets(totals, context.settings.calls),
            level_target=context.settings.calls.service_level_target,
            missed_target=context.settings.calls.missed_target,
            problems=[
                component.title
                for component in components.list_components(context.health.list_checks())
                if component.has_problem
            ],
            incomplete_reason=incomplete_reason,
            link=(link := _make_link(context.settings.server.public_url)),
            rows=lambda **filters: link(period.calls_url(**filters)),
            earlier_rows=lambda **filters: link(before.calls_url(**filters)),
        )
    file.write(page.encode())
    return totals.calls


def _make_link(public_url: str | None) -> Callable[[str], str]:
    """Return the function that makes a path a URL, or '' without a public address."""
    return lambda path: f"{public_url.rstrip('/')}{path}" if public_url else ""


def _list_figures(totals: Figures, earlier: Figures) -> Iterator[tuple[str, Any, Any, dict[str, Any], str]]:
    """Yield (label, figure, that of the period before, filters of its calls, unit)."""
    for label, name, unit, filters in (
        ("Inbound calls", "inbound", "", {"direction": "in"}),
        (STATE_LABELS["answered"].text, "answered", "", {"direction": "in", "outcome": "answered"}),
        ("Not answered", "unanswered", "", {"direction": "in", "outcome": "not_talked"}),
        ("Service level", "service_level", "%", {}),
        ("Average wait", "average_wait", "s", {}),
    ):
        yield label, getattr(totals, name), getattr(earlier, name), filters, unit
