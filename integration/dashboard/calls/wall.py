"""Wallboard: large figures for a screen.

The token is its only credential. The page shows no callers. Its address has the choices: figures, queue or
line, theme and night hours. Without parameters: the usual figures of all calls.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from flask import Blueprint, Response, make_response, render_template, request
from werkzeug.datastructures import MultiDict

from integration.access import visibility
from integration.alerts.rules import is_within_hours
from integration.context import AppContext, app_context
from integration.core import clock
from integration.core.errors import DomainError
from integration.dashboard.calls.live import is_waiting
from integration.dashboard.site import error_pages, formats, layout
from integration.mirror.page_queries import history, live, reports
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.live import UserStatus
from integration.mirror.page_queries.reports import ReportSums, Span
from integration.workspace import callbacks, wallboards
from integration.workspace.wallboards import Wallboard

blueprint = Blueprint("wall", __name__)
"""Needs no login: the route checks its token."""

TILES = {
    "waiting": "Waiting",
    "wait": "Longest wait",
    "talking": STATE_LABELS["talking"].text,
    "callbacks": "To call back",
    "level": "Service level",
    "calls": "Calls today",
    "missed": f"{STATE_LABELS['missed'].text} today",
}
"""Labels in the form, by value of `tile` and `hero`."""
USUAL_TILES = ("waiting", "wait", "talking", "callbacks", "level", "calls")
THEMES = ("dark", "light")
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")

FAR_FUTURE = "9999"
"""Start of the search for users' last calls. The wallboard does not show them."""
UNKNOWN_WALLBOARD = (
    "This wallboard was revoked, or its URL is incomplete. Ask an administrator for a new one."
)
USUAL_HOURS = (8, 18)
"""Hours that the day curve has at least."""


@dataclass(frozen=True, slots=True)
class WallDisplay:
    """Choices of a wallboard.

    `hero` is the large figure, `tiles` are the others. `queue_id` or `line` limits the figures to one queue
    and one number of the account. `dim_from` and `dim_to` are 'HH:MM' in the display zone, '' for never.
    """

    hero: str
    tiles: tuple[str, ...]
    theme: str
    queue_id: int | None = None
    line: str = ""
    dim_from: str = ""
    dim_to: str = ""

    @property
    def is_filtered(self) -> bool:
        return self.queue_id is not None or bool(self.line)

    def is_dimmed(self, now: datetime) -> bool:
        """Return whether the screen is dim at `now` (display zone)."""
        return bool(self.dim_from) and is_within_hours(now, self.dim_from, self.dim_to)


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


@dataclass(frozen=True, slots=True)
class Lamp:
    """State of a queue, or of all calls without one: 'calm', 'waiting' or 'late', with its description."""

    name: str
    state: str
    text: str
    since: str | None = None


@dataclass(frozen=True, slots=True)
class DayCurve:
    """Calls by hour of today and of the same weekday before.

    `now` and `before` are points (x, y) of a square of 100, y downwards. `hours` are (hour, x) below them.
    """

    now: list[tuple[float, float]]
    before: list[tuple[float, float]]
    hours: list[tuple[int, float]]
    most: int
    description: str


def _judge(is_met: bool, unreachable_at: str | None) -> bool | None:
    """Return `is_met`, but None while unknown calls could change it."""
    return None if is_met and unreachable_at else is_met


@blueprint.get("/wall/<token>", strict_slashes=False)
def index(token: str) -> str | Response:
    context = app_context()
    board = wallboards.find(context.app_db, token)
    if board is None:
        # Unknown tokens do not count for the login throttle: 192 bits cannot be guessed, and a screen with a
        # revoked token would use up the login attempts of its office's address.
        return error_pages.render_error(404, UNKNOWN_WALLBOARD)
    now = clock.now().astimezone(formats.display_zone())
    with context.mirror_db.read() as connection:
        queues = live.list_queue_status(connection)
        lines = {row["e164"] for row in history.list_account_numbers(connection)}
        try:
            display = parse_display(request.args, {queue["id"] for queue in queues}, lines)
        except DomainError as error:
            return make_response(error_pages.render_error(400, str(error)))
        is_partial = layout.is_history_partial(connection)
        sums, before, day_before = _read_days(connection, context, display, now)
        if is_partial:
            before = day_before = ReportSums()
        data_age = layout.read_data_age(connection, context)
        unreachable_at = layout.unreachable_since(connection)
        figures = _make_figures(connection, context, board, display, unreachable_at, sums, before)
        if is_partial:
            figures["callbacks"] = WallFigure(TILES["callbacks"], formats.NOTHING, "history not read yet")
        direct = [
            call["started_at"]
            for call in live.list_live_calls(connection)
            if is_waiting(call) and call["group_kind"] != "queue"
        ]
    shown = [queue for queue in queues if display.queue_id in (None, queue["id"])] if not display.line else []
    lamps = [
        _light(queue["name"] or str(queue["id"]), queue["waiting"], queue["longest"], board, unreachable_at)
        for queue in shown
    ]
    if lamps and not display.is_filtered:
        # So that the lamps add up to the figure "Waiting".
        lamps.append(_light("Direct numbers", len(direct), min(direct, default=None), board, unreachable_at))
    return render_template(
        "wall.html",
        board=board,
        display=display,
        place=", ".join(
            [queue["name"] for queue in shown if display.queue_id]
            + ([formats.national(display.line)] if display.line else [])
        ),
        hero=figures[display.hero],
        figures=[figures[name] for name in display.tiles],
        lamps=lamps,
        curve=_draw(sums, day_before, now),
        is_dimmed=display.is_dimmed(now),
        queues=queues,
        tiles=TILES,
        themes=THEMES,
        age=data_age,
        away=unreachable_at,
        now=int(clock.unix() * 1000),
        clock=f"{now:%H:%M}",
    )


def _read_days(
    connection: sqlite3.Connection, context: AppContext, display: WallDisplay, now: datetime
) -> tuple[ReportSums, ReportSums, ReportSums]:
    """Return the sums of today, and of that weekday a week ago.

    The last two are up to this minute, and of the complete day.
    """
    zone, rules = formats.display_zone(), context.rules.counting
    call_filter = CallFilter(
        direction="external",
        account_number=display.line or None,
        group=None if display.queue_id is None else f"queue:{display.queue_id}",
    )

    def read(day: date, until: datetime | None) -> ReportSums:
        end = clock.midnight(day + timedelta(days=1), zone)
        if until is not None:
            end = min(end, clock.utc_text(until.timestamp() + 60))
        span = Span(clock.midnight(day, zone), end, rules.level)
        if not display.is_filtered:
            return reports.compute_sums(connection, span, zone, with_shares=False)
        narrowed = replace(call_filter, since=span.since, until=span.until)
        return reports.sum_filtered(connection, narrowed, span, rules, by_hour=True)

    week_before = now - timedelta(days=7)
    return read(now.date(), now), read(week_before.date(), week_before), read(week_before.date(), None)


def _make_figures(
    connection: sqlite3.Connection,
    context: AppContext,
    board: Wallboard,
    display: WallDisplay,
    unreachable_at: str | None,
    sums: ReportSums,
    before: ReportSums,
) -> dict[str, WallFigure]:
    """Return all figures by their key in TILES."""
    calls = [call for call in live.list_live_calls(connection) if not call["unconfirmed"]]
    if display.queue_id is not None:
        calls = [
            call for call in calls if (call["group_kind"], call["group_id"]) == ("queue", display.queue_id)
        ]
    if display.line:
        calls = [call for call in calls if display.line in (call["our_e164"], call["our_number"])]
    waiting = [call["started_at"] for call in calls if is_waiting(call)]
    talking = sum(call["state"] in ("talking", "on_hold") for call in calls)
    people = _list_people(connection, display)
    free_count = sum(person.state == "idle" for person in people)
    open_callbacks = _count_callbacks(connection, context, display)
    longest_since = min(waiting, default=None)
    longest_wait_seconds = (formats.seconds_since(longest_since) or 0) if longest_since else 0
    today, last_week = sums.total, before.total
    service_level = today.service_level
    return {
        "waiting": WallFigure(
            TILES["waiting"],
            str(len(waiting)),
            f"{free_count} available" if people else "",
            len(waiting) <= free_count if waiting and people else None,
        ),
        "wait": WallFigure(
            TILES["wait"],
            formats.duration(longest_wait_seconds),
            f"target {formats.duration(board.wait_target)}",
            longest_wait_seconds <= board.wait_target if longest_since else None,
            longest_since,
        ),
        "talking": WallFigure(
            TILES["talking"],
            str(talking),
            f"of {len(people)} {'person' if len(people) == 1 else 'people'}" if people else "",
        ),
        "callbacks": WallFigure(
            TILES["callbacks"],
            str(open_callbacks),
            "" if board.callback_target is None else f"target {board.callback_target}",
            None
            if board.callback_target is None
            else _judge(open_callbacks <= board.callback_target, unreachable_at),
        ),
        "level": WallFigure(
            TILES["level"],
            formats.NOTHING if service_level is None else f"{service_level:.0f}\u202f%",
            f"≥ {board.level_target}\u202f% in {context.settings.calls.service_level_seconds}\u202fs",
            None if service_level is None else _judge(service_level >= board.level_target, unreachable_at),
        ),
        "calls": WallFigure(
            TILES["calls"],
            str(today.calls) if today.calls else formats.NOTHING,
            f"{last_week.calls} a week ago" if last_week.calls else "",
        ),
        "missed": WallFigure(
            TILES["missed"],
            str(today.missed) if today.calls else formats.NOTHING,
            f"{last_week.missed} a week ago" if last_week.calls else "",
        ),
    }


def _list_people(connection: sqlite3.Connection, display: WallDisplay) -> list[UserStatus]:
    """Return the people who answer the calls of the display.

    Empty for a number, because people belong to queues, and for a queue whose record lists no users.
    """
    if display.line:
        return []
    people = live.list_user_status(connection, FAR_FUTURE)
    if display.queue_id is None:
        return people
    members = live.find_queue_users(connection, display.queue_id) or ()
    return [person for person in people if person.id in members]


def _count_callbacks(connection: sqlite3.Connection, context: AppContext, display: WallDisplay) -> int:
    """Count the open call-backs of the display.

    The last missed call decides to which queue and number a call-back belongs.
    """
    if not display.is_filtered:
        return layout.count_open_callbacks(context, visibility.UNLIMITED)
    with context.app_db.read() as app_connection:
        call_ids = [item.last_call_id for item in callbacks.list_items(app_connection)]
    return len(live.select_calls(connection, call_ids, display.queue_id, display.line))


def _light(
    name: str, waiting: int, longest: str | None, board: Wallboard, unreachable_at: str | None
) -> Lamp:
    """Return the lamp of a queue. `longest`: UTC text since when the first caller waits."""
    if not waiting:
        return Lamp(name, "calm", "none known" if unreachable_at else "no one waiting")
    is_late = (formats.seconds_since(longest) or 0) > board.wait_target
    text = f"{waiting} waiting" + (" too long" if is_late else "")
    return Lamp(name, "late" if is_late else "waiting", text, longest)


def _draw(sums: ReportSums, before: ReportSums, now: datetime) -> DayCurve:
    """Return the curves of today and of a week ago."""
    counts = {hour: figures.calls for hour, figures in sums.hours.items()}
    counts_before = {hour: figures.calls for hour, figures in before.hours.items()}
    hours = {*USUAL_HOURS, now.hour, *counts, *counts_before}
    first, last = min(hours), max(hours)
    most = max([4, *counts.values(), *counts_before.values()])

    def points(found: dict[int, int], end: int) -> list[tuple[float, float]]:
        width = last - first
        return [
            (round(100 * (hour - first) / width, 1), round(100 - 100 * found.get(hour, 0) / most, 1))
            for hour in range(first, end + 1)
        ]

    listed = ", ".join(f"{hour:02}:00 {counts[hour]}" for hour in sorted(counts)) or "none yet"
    step = max(1, round((last - first) / 5))
    return DayCurve(
        points(counts, now.hour),
        points(counts_before, last) if counts_before else [],
        [(hour, 100 * (hour - first) / (last - first)) for hour in range(first, last + 1, step)],
        most,
        f"Calls of each hour today: {listed}. The hour with most calls last {now:%A} had"
        f" {max(counts_before.values(), default=0)}.",
    )


# --- choices in the address -------------------------------------------------------------------------------


def parse_display(parameters: MultiDict[str, str], queue_ids: set[int], lines: set[str]) -> WallDisplay:
    """Return the choices of an address. Raises DomainError for an invalid one."""
    hero = _choose(parameters.get("hero", "waiting"), TILES, "figure")
    tiles = tuple(_choose(name, TILES, "figure") for name in parameters.getlist("tile")) or USUAL_TILES
    queue, line = parameters.get("queue", ""), parameters.get("line", "")
    if queue and queue not in {str(queue_id) for queue_id in queue_ids}:
        raise DomainError(
            f"There is no queue {queue[:20]!r}. Remove “queue=” from the address, then choose one."
        )
    if line and line not in lines:
        raise DomainError(
            f"The account has no number {line[:20]!r}. Enter one of its numbers as in +442079460001."
        )
    dim_from, dim_to = parameters.get("dim_from", ""), parameters.get("dim_to", "")
    night = (dim_from, dim_to)
    if any(night) and not all(_TIME.fullmatch(time) for time in night):
        raise DomainError("Enter both times of the night as in 20:00, or neither.")
    return WallDisplay(
        hero=hero,
        tiles=tuple(dict.fromkeys(name for name in tiles if name != hero)),
        theme=_choose(parameters.get("theme", "dark"), THEMES, "theme"),
        queue_id=int(queue) if queue else None,
        line=line,
        dim_from=dim_from,
        dim_to=dim_to,
    )


def _choose(value: str, offered: dict[str, str] | tuple[str, ...], what: str) -> str:
    if value not in offered:
        raise DomainError(f"There is no {what} {value[:20]!r}. Choose one of {', '.join(offered)}.")
    return value
