"""Calls: the history. Everything that is shown is in the URL, so that a view can be kept and passed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, request

from integration.context import this_house
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import current_person
from integration.exports.call_filter import (
    DEFAULT_RANGE,
    OUTCOMES,
    RANGES,
    WAYS,
    WEEKDAYS,
    View,
    calling_code,
    read,
)
from integration.mirror.calls import backlog
from integration.mirror.page_queries import call_detail as one_call
from integration.mirror.page_queries import history
from integration.mirror.page_queries import search_index as search
from integration.mirror.page_queries.history import CallFilter, Cursor
from integration.workspace import notes
from integration.workspace import saved_views as views

blueprint = Blueprint("calls", __name__)

COLUMNS = {
    "line": "Line",
    "with": "With",
    "waited": "Waited",
    "talked": "Talked",
    "marks": "Recorded, voicemail",
    "cost": "Cost",
    "labels": "Labels",
}
"""Columns that a person may hide."""
READ_SECONDS = 5.0
"""A search that takes longer is cut; the page then says so."""


@blueprint.get("/calls")
def index() -> str:
    house, zone = this_house(), formats.zone()
    view = read(
        request.args,
        zone=zone,
        today=formats.today(),
        calling_code=calling_code(house.settings.dashboard.country),
        house=house.house,
    )
    asked = replace(view.asked, only_user=shell.only_user())
    if asked.wanted is not None:
        search.catch_up(house.mirror)
    cursor = Cursor.read(request.args.get("before"), "before") or Cursor.read(
        request.args.get("after"), "after"
    )
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        asked = history.searched(connection, asked)
        page = history.page(connection, asked, cursor)
        if cursor is None and page.older is None:
            # The page is all there is.
            total, whole = len(page.rows), True
        else:
            total, whole = history.count_some(connection, asked)
            total = max(total, len(page.rows))
        elsewhere = hides = 0
        if not total:
            unnarrowed = CallFilter(since=asked.since, until=asked.until, only_user=asked.only_user)
            if asked.since or asked.until:
                elsewhere = history.count(connection, asked.without_range())
            hides = history.count(connection, unnarrowed)
        anything = total or history.count(connection, CallFilter(only_user=asked.only_user), 1)
        people, numbers = history.people(connection), history.numbers(connection)
        legs = one_call.calls_of_legs(connection, [call["id"] for call in page.rows])
        waiting = backlog.waiting(connection)
    with house.house.read() as connection:
        saved = views.saved(connection, current_person().id, "calls")
        hidden = views.hidden(connection, current_person().id, "calls")
        labels = notes.known_labels(connection)
        labelled = notes.labels_by_leg(connection, list(legs))
    labels_of: dict[int, dict[str, None]] = {}
    for leg, words in labelled.items():
        labels_of.setdefault(legs[leg], {}).update(dict.fromkeys(words))
    return shell.page(
        "calls",
        "calls.html",
        saved=saved,
        hidden=hidden,
        labels=labels,
        labels_of=labels_of,
        filters=_filters(view, people, page.rows),
        query=view.url().partition("?")[2],
        me=current_person().id,
        q=view.args.get("q", ""),
        view=view,
        days=_by_day(page.rows),
        calls=page,
        total=total,
        waiting=waiting if waiting is not None and waiting.within(asked.since) else None,
        more_than=None if whole else total,
        elsewhere=elsewhere,
        hides=hides,
        anything=anything,
        people=people,
        numbers=numbers,
        chips=_chips(view),
        export=_export(view),
        COLUMNS=COLUMNS,
        WEEKDAYS=WEEKDAYS,
        RANGES=RANGES,
        OUTCOMES=OUTCOMES,
        WAYS=WAYS,
    )


def _by_day(rows: list[Any]) -> list[tuple[str, list[Any]]]:
    """Rows under the day they began in the display zone."""
    return [
        (day, list(calls)) for day, calls in groupby(rows, key=lambda row: formats.day_of(row["started_at"]))
    ]


def _chips(view: View) -> list[tuple[str, str, bool]]:
    """(word, URL, whether it is on): one click on, one click off."""
    chips = []
    for name in ("today", "week", "month", "all"):
        url = view.url(range=None if name == DEFAULT_RANGE else name, **_NO_DAYS)
        chips.append((RANGES[name], url, view.range == name))
    for word, name, value in (
        ("Missed", "outcome", "not_talked"),
        ("Recorded", "recorded", "1"),
        ("Voicemail", "voicemail", "1"),
    ):
        on = view.args.get(name) == value
        chips.append((word, view.url(**{name: None if on else value}), on))
    return chips


def _filters(view: View, people: list[Any], rows: list[Any]) -> list[tuple[str, str]]:
    """(what narrows the view, in words; the URL without it). What a quick filter shows is left out."""
    words: dict[str, Callable[[str], str | None]] = {
        "direction": WAYS.get,
        "outcome": OUTCOMES.get,
        "person": {str(person["id"]): person["name"] for person in people}.get,
        "line": formats.national,
        "min": "talked at least {} s".format,
        "max": "talked at most {} s".format,
        "waited": "waited at most {} s".format,
        "country": "country +{}".format,
        "cost": "cost at least {}".format,
        "label": "label {}".format,
        "weekday": lambda number: WEEKDAYS[int(number)],
        "hour": lambda hour: f"{hour}:00 to {hour}:59",
        "begin": "from {}".format,
        "end": "until {}".format,
        "clock": "until {}".format,
        # All that are shown are of the one group.
        "group": lambda name: (rows and rows[0]["group_name"]) or name.partition(":")[0],
        "charged": lambda _: "with a cost",
    }
    found = []
    for name in view.filters:
        value = view.args[name]
        if name in ("recorded", "voicemail") or (name, value) == ("outcome", "not_talked"):
            continue
        said = words[name](value) or value
        found.append((said, view.url(**{name: None})))
    return found


_NO_DAYS: dict[str, str | None] = {"from": None, "to": None}


def _export(view: View) -> str:
    """The calls of this view, all its pages: the export reads the same parameters."""
    return "/exports/call-history.csv?" + urlencode({"view": view.url().partition("?")[2]})
