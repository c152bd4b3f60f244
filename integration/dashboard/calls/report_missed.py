"""Page Missed and called back: reasons, and how soon callers were reached."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from flask import Blueprint

from integration.access.rights import EXPORTS_ONLY
from integration.context import app_context
from integration.dashboard.calls.report_period import (
    READ_SECONDS,
    parse_request,
    read_missed,
    read_page_values,
)
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import missed_calls
from integration.mirror.page_queries.missed_calls import REASONS, MissedShare, MissedSums

blueprint = Blueprint("report_missed", __name__)

BREAKDOWNS: Mapping[str, tuple[str, str, str]] = {
    "reason": ("By reason", "", "reason"),
    "person": ("By person", "whose phone rang; a call counts for each", "rang"),
    "group": ("By ring group and queue", "", "group"),
    "line": ("By number", "", "line"),
    "hour": ("By hour of the day", "", "hour"),
}
"""By kind of missed calls: heading, its explanation and the parameter of Calls."""


@dataclass(frozen=True, slots=True)
class MissedRow:
    """Row of a table: missed calls of a key in both periods."""

    name: str
    share: MissedShare
    before: MissedShare
    filters: Mapping[str, object]


@blueprint.get("/reports/missed")
@requires("supervisor", EXPORTS_ONLY)
def index() -> str:
    context, requested = app_context(), parse_request()
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        sums, sums_before = (
            read_missed(connection, period, requested.rules, requested.today)
            for period in (requested.period, requested.before)
        )
        early, early_before = sums.get("reason", "early"), sums_before.get("reason", "early")
        tables = [
            (kind, heading, about, rows)
            for kind, (heading, about, parameter) in BREAKDOWNS.items()
            if (rows := _build_rows(kind, parameter, sums, sums_before, connection))
        ]
        page_values = read_page_values(connection, requested, sums_before.total.calls + early_before.calls)
    return layout.render_page(
        "reports",
        "reports_missed.html",
        **page_values,
        total=sums.total,
        earlier_total=sums_before.total,
        hung_up=MissedRow(REASONS["early"], early, early_before, {"reason": "early"}),
        tables=tables,
        short=context.settings.calls.short_seconds,
        callback_seconds=requested.rules.callback_seconds,
    )


def _build_rows(
    kind: str, parameter: str, sums: MissedSums, before: MissedSums, connection: sqlite3.Connection
) -> list[MissedRow]:
    """Return the rows of a table, most missed calls first.

    Hours in their order.
    """
    keys = [key for key in {**sums.shares[kind], **before.shares[kind]} if (kind, key) != ("reason", "early")]
    rows = []
    for key in keys:
        share, earlier = sums.get(kind, key), before.get(kind, key)
        filters: dict[str, object] = {"direction": "in", "outcome": "not_talked", parameter: key}
        name = share.name or earlier.name or key
        if kind == "reason":
            filters, name = {"reason": key}, REASONS[key]
        elif kind == "person":
            name = missed_calls.find_user_name(connection, key)
        elif kind == "line":
            name = formats.national(key)
        elif kind == "hour":
            filters[parameter] = int(key)
            name = f"{key}:00–{int(key) + 1:02}:00"
        rows.append(MissedRow(name, share, earlier, filters))
    if kind == "hour":
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (-row.share.calls, row.name))
