"""The wallboard: big figures for a screen on the wall. Its token is its only key, and shows no caller."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, abort, render_template

from integration.context import this_house
from integration.core import clock
from integration.dashboard.calls.reports import compared
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.mirror.page_queries import live, reports
from integration.mirror.page_queries.reports import Span
from integration.workspace import wallboards

blueprint = Blueprint("wall", __name__)
"""Open in the guard: it asks for its own token."""

NEVER = "9999"
"""Since when nobody's last call matters here."""


@dataclass(frozen=True, slots=True)
class Big:
    """One figure: its word, its text, what it is measured by in words, and whether that is met (None: can't
    be, or nothing is asked)."""

    word: str
    text: str
    target: str = ""
    met: bool | None = None
    since: str | None = None
    """UTC text from which it counts up by itself."""


@blueprint.get("/wall/<token>")
def index(token: str) -> str:
    house = this_house()
    board = wallboards.find(house.house, token)
    if board is None:
        # Guesses are not counted: nobody guesses 192 bits, and a screen whose board was revoked would use up
        # its office's attempts to log in.
        abort(404)
    now = clock.now().astimezone(formats.zone())
    level = house.settings.calls.service_level_seconds
    span = Span(formats.midnight(now.date(), formats.zone()), clock.stamp(now.timestamp() + 60), level)
    with house.mirror.read() as connection:
        counts = live.counts(connection)
        waiting = [
            call["started_at"]
            for call in live.open_calls(connection)
            if call["direction"] == "in" and call["state"] == "ringing" and not call["unconfirmed"]
        ]
        today = reports.totals(connection, span)
        then = reports.totals(connection, compared(now, level, formats.zone())[1][1])
        people = live.people_now(connection, NEVER)
        age = shell.age(connection, house)
    missed = shell.open_callbacks(house, None)
    longest = min(waiting, default=None)
    waited = (formats.since(longest) or 0) if longest else 0
    share = today.service_level
    free = sum(person.state == "idle" for person in people)
    figures = [
        Big(
            "Waiting",
            str(len(waiting)),
            f"{free} {'is' if free == 1 else 'are'} free" if people else "",
            len(waiting) <= free if waiting and people else None,
        ),
        Big(
            "Longest wait",
            formats.duration(waited) if longest else formats.NOTHING,
            f"at most {formats.duration(board.wait_target)}",
            waited <= board.wait_target if longest else None,
            longest,
        ),
        Big(
            "Talking",
            str(counts.talking + counts.on_hold),
            f"of {len(people)} {'person' if len(people) == 1 else 'people'}" if people else "",
        ),
        Big(
            "To call back",
            str(missed),
            f"at most {board.missed_target}",
            missed <= board.missed_target,
        ),
        Big(
            f"Answered within {level} s today",
            formats.NOTHING if share is None else f"{share:.0f}\u202f%",
            f"at least {board.level_target}\u202f%",
            None if share is None else share >= board.level_target,
        ),
        Big(
            "Calls today",
            str(today.calls) if today.calls else formats.NOTHING,
            f"{then.calls} by now last {now:%A}" if then.calls else "",
        ),
    ]
    return render_template(
        "wall.html", board=board, figures=figures, age=age, now=int(clock.unix() * 1000), clock=f"{now:%H:%M}"
    )
