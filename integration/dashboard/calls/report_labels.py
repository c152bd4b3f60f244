"""Page Labels of the reports: number of calls by label."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint

from integration.access.rights import EXPORTS_ONLY
from integration.context import app_context
from integration.core import clock
from integration.dashboard.calls.report_period import READ_SECONDS, parse_request, read_page_values
from integration.dashboard.site import layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import platform_labels
from integration.mirror.page_queries.platform_labels import LabelCounts
from integration.workspace import notes

blueprint = Blueprint("report_labels", __name__)

CLOCK_DIFFERENCE = timedelta(days=1)
"""Largest difference between the clocks of the platform and of this computer.

Local labels are dated here, calls by the platform.
"""


@blueprint.get("/reports/labels")
@requires("supervisor", EXPORTS_ONLY)
def index() -> str:
    context, requested = app_context(), parse_request()
    spans = [requested.span(period) for period in (requested.period, requested.before)]
    oldest = clock.parse_utc(min(span.since for span in spans))
    with context.app_db.read() as app:
        labels = notes.list_labels_since(app, clock.utc_text(oldest - CLOCK_DIFFERENCE) if oldest else "")
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        counts, counts_before = (platform_labels.count_calls(connection, labels, span) for span in spans)
        colours = platform_labels.load_colours(connection)
        page_values = read_page_values(connection, requested, len(counts_before))
    rows = [
        (name, counts.get(name, LabelCounts()), counts_before.get(name, LabelCounts()))
        for name in {*counts, *counts_before}
    ]
    return layout.render_page(
        "reports",
        "reports_labels.html",
        **page_values,
        rows=sorted(rows, key=lambda row: (-row[1].calls, row[0].casefold())),
        colours=colours,
    )
