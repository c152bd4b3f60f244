"""Wallboard: large figures for a screen.

The token is its only credential. The page shows no callers.
"""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, abort, render_template

from integration.access import visibility
from integration.context import app_context
from integration.core import clock
from integration.dashboard.calls.reports import comparison_spans
from integration.dashboard.site import formats, layout
from integration.mirror.page_queries import live, reports
from integration.mirror.page_queries.reports import Span
from integration.workspace import wallboards

blueprint = Blueprint("wall", __name__)
"""Needs no login: the route checks its token."""

FAR_FUTURE = "9999"
"""Start of the search for users' last calls. The wallboard does not show them."""


@dataclass(frozen=True, slots=True)
class WallFigure:
    """Figure with label, text and description of its target.

    `is_met` is None if there is no target or no value.
    """

    label: str
    text: str
    target: str = ""
    is_met: bool | None = None
    since: str | None = None
    """UTC text from which the page counts up the seconds."""


def _judge(is_met: bool, unreachable_at: str | None) -> bool | None:
    """Return `is_met`, but None while unknown calls could change it."""
    return None if is_met and unreachable_at else is_met


@blueprint.get("/wall/<token>")
def index(token: str) -> str:
    context = app_context()
    board = wallboards.find(context.app_db, token)
    if board is None:
        # Unknown tokens do not count for the login throttle: 192 bits cannot be guessed, and a screen with a
        # revoked token would use up the login attempts of its office's address.
        abort(404)
    now = clock.now().astimezone(formats.display_zone())
    service_level_seconds = context.settings.calls.service_level_seconds
    span = Span(
        clock.midnight(now.date(), formats.display_zone()),
        clock.utc_text(now.timestamp() + 60),
        service_level_seconds,
    )
    with context.mirror_db.read() as connection:
        counts = live.count_live_calls(connection)
        waiting = [
            call["started_at"]
            for call in live.list_live_calls(connection)
            if call["direction"] == "in" and call["state"] == "ringing" and not call["unconfirmed"]
        ]
        today = reports.compute_totals(connection, span)
        last_week = reports.compute_totals(
            connection, comparison_spans(now, service_level_seconds, formats.display_zone())[1][1]
        )
        people = live.list_user_status(connection, FAR_FUTURE)
        data_age = layout.read_data_age(connection, context)
        unreachable_at = layout.unreachable_since(connection)
    open_callbacks = layout.count_open_callbacks(context, visibility.UNLIMITED)
    longest_since = min(waiting, default=None)
    longest_wait_seconds = (formats.seconds_since(longest_since) or 0) if longest_since else 0
    service_level = today.service_level
    free_count = sum(person.state == "idle" for person in people)
    figures = [
        WallFigure(
            "Waiting",
            str(len(waiting)),
            f"{free_count} available" if people else "",
            len(waiting) <= free_count if waiting and people else None,
        ),
        WallFigure(
            "Longest wait",
            formats.duration(longest_wait_seconds) if longest_since else formats.NOTHING,
            f"target {formats.duration(board.wait_target)}",
            longest_wait_seconds <= board.wait_target if longest_since else None,
            longest_since,
        ),
        WallFigure(
            "Talking",
            str(counts.talking + counts.on_hold),
            f"of {len(people)} {'person' if len(people) == 1 else 'people'}" if people else "",
        ),
        WallFigure(
            "To call back",
            str(open_callbacks),
            f"target {board.missed_target}",
            _judge(open_callbacks <= board.missed_target, unreachable_at),
        ),
        WallFigure(
            f"Answered within {service_level_seconds} s today",
            formats.NOTHING if service_level is None else f"{service_level:.0f}\u202f%",
            f"target {board.level_target}\u202f%",
            None if service_level is None else _judge(service_level >= board.level_target, unreachable_at),
        ),
        WallFigure(
            "Calls today",
            str(today.calls) if today.calls else formats.NOTHING,
            f"{last_week.calls} last {now:%A}, same time" if last_week.calls else "",
        ),
    ]
    return render_template(
        "wall.html",
        board=board,
        figures=figures,
        age=data_age,
        away=unreachable_at,
        now=int(clock.unix() * 1000),
        clock=f"{now:%H:%M}",
    )
