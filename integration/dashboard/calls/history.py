"""Page Calls: the call history.

The URL holds the entire view, so that it can be saved and shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, request

from integration.context import app_context
from integration.core import clock
from integration.core.calendar_periods import RANGES
from integration.dashboard.calls.call_range import read_range
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import current_person
from integration.mirror.calls import backlog
from integration.mirror.page_queries import call_detail, history, search_index
from integration.mirror.page_queries.call_labels import OUTCOME_LABELS, STATE_LABELS
from integration.mirror.page_queries.call_view import (
    DEFAULT_RANGE,
    DIRECTIONS,
    RANGE_NAMES,
    ROW_COUNTS,
    WEEKDAYS,
    CallView,
    describe_filters,
    parse_day,
    parse_view,
)
from integration.mirror.page_queries.history import CallFilter, Cursor
from integration.workspace import call_labels, notes, person_settings, saved

blueprint = Blueprint("calls", __name__)

COLUMNS = {
    "line": "Line",
    "with": "Person",
    "waited": "Waited",
    "talked": "Talked",
    "marks": "Recorded, voicemail",
    "cost": "Cost",
    "labels": "Labels",
}
"""Columns that a dashboard user may hide."""
FOUND_NOTES = 500
"""Newest notes whose matches are shown in a search."""
READ_SECONDS = 5.0
"""Seconds after which a search is cancelled; the page then shows an error."""


@blueprint.get("/calls")
def index() -> str:
    context, zone = app_context(), formats.display_zone()
    now, rules = clock.now().astimezone(zone), context.rules.counting

    def parse(args: Mapping[str, str]) -> CallView:
        view = parse_view(args, context.settings)
        return replace(view, call_filter=call_labels.add_noted_legs(view, context.app_db, context.mirror_db))

    view = parse(request.args)
    jump = parse_day(request.args.get("on"))
    if jump is not None and not _is_in_range(view, jump):
        view = parse({**view.args, "from": "", "to": "", "range": "all"})
    viewer = layout.get_visibility()
    call_filter = viewer.restrict_search(replace(view.call_filter, user_scope=viewer.user_scope))
    cursor = Cursor.parse(request.args.get("before"), "before") or Cursor.parse(
        request.args.get("after"), "after"
    )
    if cursor is None and jump is not None:
        cursor = Cursor(clock.midnight(jump + timedelta(days=1), zone), 0, "before")
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        call_filter = history.resolve_search(connection, call_filter)
        size = int(view.args.get("rows", ROW_COUNTS[0]))
        page = history.fetch_page(connection, call_filter, cursor, size=size)
        if cursor is None and page.older is None:
            # The first page holds all matches, so no count query is needed.
            total, is_exact = len(page.rows), True
        else:
            total, is_exact = history.count_up_to_limit(connection, call_filter)
            total = max(total, len(page.rows))
        count_outside_range = count_unfiltered = 0
        if not total:
            unfiltered = CallFilter(
                since=call_filter.since, until=call_filter.until, user_scope=call_filter.user_scope
            )
            if call_filter.since or call_filter.until:
                count_outside_range = history.count(connection, call_filter.without_range())
            count_unfiltered = history.count(connection, unfiltered)
        has_any_calls = total or history.count(connection, CallFilter(user_scope=call_filter.user_scope), 1)
        call_range = read_range(connection, view, call_filter, total if is_exact else None, rules, now, parse)
        users, numbers = history.list_users(connection), history.list_account_numbers(connection)
        matched = (
            search_index.find_matching_lines(
                connection, [call["id"] for call in page.rows], call_filter.search_terms
            )
            if call_filter.search_terms is not None
            else {}
        )
        call_ids_by_leg = call_detail.map_legs_to_calls(connection, [call["id"] for call in page.rows])
        backlog_state = backlog.get_state(connection)
    with context.app_db.read() as connection:
        visible_views = saved.all_of(connection, saved.VIEWS, "calls", current_person().id)
        for note in notes.search(connection, view.args.get("q", ""), FOUND_NOTES):
            if note["leg_id"] in call_ids_by_leg:
                matched[call_ids_by_leg[note["leg_id"]]] = note["text"]
        hidden_columns = person_settings.load(connection, current_person().id, "hidden columns") or ""
        with context.mirror_db.read(seconds=READ_SECONDS) as mirror:
            labels = call_labels.list_used(mirror, connection)
            labels_by_call = call_labels.load_by_call(mirror, connection, call_ids_by_leg)
    return layout.render_page(
        "calls",
        "calls.html",
        saved=visible_views,
        hidden=hidden_columns.split(),
        labels=labels,
        labels_of=labels_by_call,
        filters=_active_filters(view, users, page.rows),
        query=view.url().partition("?")[2],
        me=current_person().id,
        q=view.args.get("q", ""),
        matched=matched,
        excerpt=formats.excerpt,
        view=view,
        days=formats.group_by_day(page.rows, lambda call: call["started_at"]),
        calls=page,
        found=call_range,
        jump=jump,
        row_counts=ROW_COUNTS,
        page_rows=view.args.get("rows", ROW_COUNTS[0]),
        today=now.date(),
        total=total,
        max_count=history.MAX_COUNT,
        waiting=backlog_state
        if backlog_state is not None and backlog_state.may_contain(call_filter.since)
        else None,
        more_than=None if is_exact else total,
        elsewhere=count_outside_range,
        hides=count_unfiltered,
        anything=has_any_calls,
        people=users,
        numbers=numbers,
        chips=_build_chips(view),
        export=_export_url(view),
        audio_columns=AUDIO_COLUMNS,
        COLUMNS=COLUMNS,
        WEEKDAYS=WEEKDAYS,
        OUTCOMES=OUTCOME_LABELS,
        WAYS=DIRECTIONS,
    )


def _is_in_range(view: CallView, day: date) -> bool:
    return (view.first_day is None or view.first_day <= day) and (
        view.last_day is None or day <= view.last_day
    )


def _build_chips(view: CallView) -> list[tuple[str, str, bool]]:
    """Return the quick filters as (label, URL for toggling, is active)."""
    chips = []
    for name in RANGE_NAMES:
        url = view.url(range=None if name == DEFAULT_RANGE else name, **_CLEARED_DAYS)
        chips.append((RANGES[name], url, view.range == name))
    for label, name, value in (
        (STATE_LABELS["missed"].text, "outcome", "not_talked"),
        ("Recorded", "recorded", "1"),
        (STATE_LABELS["voicemail"].text, "voicemail", "1"),
    ):
        is_active = view.args.get(name) == value
        chips.append((label, view.url(**{name: None if is_active else value}), is_active))
    return chips


def _active_filters(view: CallView, users: list[Any], rows: list[Any]) -> list[tuple[str, str]]:
    """Return active filters as (description, URL without it). Quick filters are omitted."""
    return [
        (description, view.url(**{name: None}))
        for name, description in describe_filters(view, users, formats.national, rows)
        if name not in ("recorded", "voicemail") and (name, view.args[name]) != ("outcome", "not_talked")
    ]


AUDIO_COLUMNS = "timestamp_local,caller,called,user_name,duration_hms,file,file_state_label"
"""Columns of the list in the ZIP with the recordings of calls: no codes and ids."""
_CLEARED_DAYS: dict[str, str | None] = {"from": None, "to": None}


def _export_url(view: CallView) -> str:
    """Return the URL of the export of all pages of this view.

    Its times are those of the page. The export accepts the same parameters.
    """
    parameters = {"view": view.url().partition("?")[2], **formats.export_style()}
    return f"/exports/call-history.csv?{urlencode(parameters)}"
