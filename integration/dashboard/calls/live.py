"""Live: one row per call that goes on, people and queues beside it; and what the stream tells of changes."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from flask import Blueprint, abort, get_template_attribute, render_template

from integration.access.people import Person
from integration.access.visibility import only_calls_of
from integration.context import House, this_house
from integration.core import clock
from integration.dashboard.calls import actions
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.mirror.page_queries import call_detail as one_call
from integration.mirror.page_queries import contacts, history, live, messages, phones
from integration.sqlite.transaction import Change
from integration.workspace import callbacks, notes

blueprint = Blueprint("live", __name__)

RECENT = timedelta(hours=12)
"""How far back calls count as just ended, and a person's last call as 'free since'."""
EARLIER = 99
"""Earlier calls of a caller are counted up to here."""

GROUPS = (
    ("ringing", "Ringing"),
    ("talking", "Talking"),
    ("on_hold", "On hold"),
    ("unconfirmed", "Unconfirmed"),
    ("ended", "Just ended"),
)


@dataclass(slots=True)
class Group:
    """A section of the list: calls in one state."""

    key: str
    word: str
    calls: list[sqlite3.Row] = field(default_factory=list)


@blueprint.get("/")
@blueprint.get("/live")
def index() -> str:
    house, only = this_house(), shell.only_user()
    recent = clock.stamp(clock.now() - RECENT)
    with house.mirror.read() as connection:
        going = live.open_calls(connection, only)
        ended = live.just_ended(connection, recent, only)
        groups = grouped([*going, *ended])
        earlier = {call["id"]: before(connection, call, only) for call in going}
        values = {
            "groups": groups,
            "open": len(going),
            "history": earlier,
            "figures": figures(connection, house, only),
            "people": live.people_now(connection, recent),
            "queues": live.queues_now(connection),
            "unreachable": shell.unreachable_since(connection),
            "heard": bool(ended or going),
            "own": only is not None,
        }
    return shell.page("live", "live.html", **values)


@blueprint.get("/calls/<int:number>/beside")
def beside(number: int) -> str:
    """The drawer: what one wants to know of a caller without leaving the list."""
    house, only = this_house(), shell.only_user()
    with house.mirror.read() as connection:
        call = history.find(connection, number)
        if call is None or (only is not None and call["user_id"] != only):
            abort(404)
        before_it = history.earlier(connection, call["party_e164"], clock.stamp(), call["id"], only_user=only)
        key = messages.digits(call["party_e164"] or call["party"])
        texts = messages.thread(connection, key, limit=3) if key and only is None else []
        acts = actions.acts(connection, call)
        contact = contacts.of_number(connection, call["party_e164"])
        proposed = phones.call_labels(connection)
        legs = [call["id"], *(leg["leg_id"] for leg in one_call.legs(connection, call["id"]))]
    with house.house.read() as connection:
        missed = callbacks.open_for(connection, call["party_e164"] or call["party"])
        labels = notes.labels_of(connection, legs)
        written = notes.notes_of(connection, legs)
        known = notes.known_labels(connection)
    return render_template(
        "_beside.html",
        call=call,
        earlier=before_it,
        texts=texts,
        missed=missed,
        key=key,
        acts=acts,
        contact=contact,
        labels=labels,
        notes=written,
        known_labels=sorted({*known, *map(str, proposed)}, key=str.casefold),
    )


def grouped(calls: list[sqlite3.Row]) -> list[Group]:
    groups = {key: Group(key, word) for key, word in GROUPS}
    for call in calls:
        kind = formats.kind(call) if call["state"] != "ended" else "ended"
        groups["ringing" if kind == "dialling" else kind].calls.append(call)
    return list(groups.values())


def before(
    connection: sqlite3.Connection, call: sqlite3.Row, only: int | None
) -> tuple[int, sqlite3.Row | None] | None:
    """How many calls this party had before (up to EARLIER) and the last of them, of those the person may see;
    None without a number."""
    if not call["party_e164"]:
        return None
    rows = history.earlier(
        connection, call["party_e164"], call["started_at"], call["id"], EARLIER, only_user=only
    )
    return len(rows), rows[0] if rows else None


def figures(connection: sqlite3.Connection, house: House, only: int | None) -> list[dict[str, Any]]:
    """The strip above the list. Every figure leads to its rows."""
    counts = live.counts(connection, only)
    day = formats.midnight(formats.today(), formats.zone())
    today = history.count(connection, history.CallFilter(since=day, only_user=only))
    waiting = next((c["started_at"] for c in live.open_calls(connection, only) if _waits(c)), None)
    missed = shell.open_callbacks(house, only)
    return [
        {"key": "ringing", "word": "Ringing", "value": counts.ringing, "link": "#group-ringing"},
        {"key": "talking", "word": "Talking", "value": counts.talking, "link": "#group-talking"},
        {"key": "on_hold", "word": "On hold", "value": counts.on_hold, "link": "#group-on_hold"},
        {"key": "waiting", "word": "Longest wait", "value": 1 if waiting else 0, "since": waiting},
        {"key": "missed", "word": "To call back", "value": missed, "link": "/missed"},
        {"key": "today", "word": "Calls today", "value": today, "link": "/calls?range=today"},
    ]


def _waits(call: sqlite3.Row) -> bool:
    return bool(call["direction"] == "in" and call["state"] == "ringing" and not call["unconfirmed"])


# --- the stream ----------------------------------------------------------------------------------------


def present(change: Change, person: Person) -> list[tuple[str, dict[str, Any]]]:
    """Events for one change: `call` with its row, `call_gone`, `sms`, `callback`, `alert`; [] for
    anything else.

    Runs in an application context, but in nobody's request (live/stream.py).
    """
    house = this_house()
    only = only_calls_of(person, house.settings.dashboard.agents_see)
    if change.topic == "call":
        return _present_call(change, house, only)
    if change.topic == "call_gone":
        return [("call_gone", {"id": int(change.key), "counts": _counts(house, only)})]
    if change.topic == "alert":
        return [("alert", {"now": int(clock.unix() * 1000)})]
    if change.topic == "sms":
        return [("sms", {"now": int(clock.unix() * 1000)})]
    if change.topic == "callback":
        return [("callback", {"counts": _counts(house, only)})]
    return []


def beat() -> dict[str, Any]:
    """What every open page hears again and again: the server's time, and how old the data are."""
    with this_house().mirror.read() as connection:
        age = shell.age(connection, this_house())
    html = get_template_attribute("_age.html", "age")(age)
    return {"now": int(clock.unix() * 1000), "age": str(html), "title": age.title}


def _present_call(change: Change, house: House, only: int | None) -> list[tuple[str, dict[str, Any]]]:
    number = int(change.key)
    with house.mirror.read() as connection:
        call = live.call(connection, number)
        if call is None:
            return [("call_gone", {"id": number, "counts": _counts(house, only)})]
        if only is not None and call["user_id"] != only:
            # It may have been theirs before it was handed on.
            return [("call_gone", {"id": number, "counts": _counts(house, only)})]
        over = call["state"] == "ended"
        if over and (call["ended_at"] or call["started_at"] or "") < clock.stamp(clock.now() - RECENT):
            # A first walk tells of thousands of these; one may still stand on a page as going on.
            return [("call_gone", {"id": number})]
        earlier = None if over else before(connection, call, only)
    row = get_template_attribute("_calls.html", "live_row")
    name = get_template_attribute("_calls.html", "party_name")
    kind = formats.kind(call)
    data = {
        "id": call["id"],
        "state": kind,
        "ended": over,
        "html": str(row(call, earlier)),
        "say": f"Call ringing from {str(name(call)).strip()}"
        if kind == "ringing" and call["direction"] == "in"
        else "",
        "counts": _counts(house, only),
        "now": int(clock.unix() * 1000),
    }
    return [("call", data)]


def _counts(house: House, only: int | None) -> dict[str, Any]:
    with house.mirror.read() as connection:
        counts = live.counts(connection, only)
    return {
        "ringing": counts.ringing,
        "talking": counts.talking,
        "on_hold": counts.on_hold,
        "live": counts.open,
        "missed": shell.open_callbacks(house, only),
    }
