"""What stands on every page around its content: rail with counts, display zone, age of the data."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask import Flask, g, render_template
from jinja2 import pass_context
from jinja2.runtime import Context

from integration.access.people import Person
from integration.access.visibility import only_calls_of
from integration.alerts import rules as alert_rules
from integration.alerts.rules import Finding
from integration.context import House, this_house
from integration.core import clock
from integration.dashboard.site import formats
from integration.dashboard.site.guard import current_person
from integration.mirror.page_queries import faxes, live, messages
from integration.mirror.page_queries import media_lists as audio
from integration.workspace import callbacks, heard
from integration.workspace import reads as seen

LATE_SECONDS = 300
"""What the mirror lists may be this old (design.md §1: 'within five minutes'); older shows amber."""


FAXES = "faxes"
"""What stands for all faxes among the threads that a person has read."""

UNREAD = timedelta(days=30)
"""Older messages do not count as unread: whoever comes back from afar begins with a page, not a number."""


NOTICES = 3
"""Shown on every page; more are counted."""


@dataclass(frozen=True, slots=True)
class Tab:
    """One entry of the rail. `key` follows `g` on the keyboard; `badge` is the class of its count."""

    page: str
    path: str
    word: str
    icon: str
    key: str
    badge: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Age:
    """How old what people see may be: a word, the UTC text it counts from, a hue, a sentence."""

    word: str
    stamp: str | None
    hue: str
    title: str


def only_user() -> int | None:
    """The platform user whose calls alone the person may see; None for everyone's."""
    return only_calls_of(current_person(), this_house().settings.dashboard.agents_see)


def age(connection: sqlite3.Connection, house: House) -> Age:
    """Of the CDRs, which everything is settled by."""
    state = live.freshness(connection)
    last = state.last_success_at
    if last is None:
        if state.last_error:
            return Age("no data yet", None, "bad", f"The platform could not be read: {state.last_error}")
        return Age("first walk", None, "wary", "The first walk of the platform has not finished yet.")
    seconds = formats.since(last) or 0.0
    late = max(LATE_SECONDS, 2 * house.settings.sync.recent_interval)
    when = formats.at_full(last)
    if state.last_error:
        return Age("unreachable, data from", last, "bad", f"Last read {when}. Since then: {state.last_error}")
    return Age("data from", last, "wary" if seconds > late else "", f"Call records were last read {when}.")


def unreachable_since(connection: sqlite3.Connection) -> str | None:
    """UTC text since when the platform can't be read; None while it can."""
    state = live.freshness(connection)
    if not state.last_error:
        return None
    return state.last_success_at or state.last_error_at or clock.stamp()


def open_callbacks(house: House, only: int | None) -> int:
    """Callers to call back; under `own` those of the person's calls and of groups."""
    with house.house.read() as connection:
        if only is None:
            return callbacks.count_open(connection)
        calls = callbacks.open_calls(connection)
    with house.mirror.read() as connection:
        return live.count_theirs(connection, calls, only)


def unread_threads(house: House, person: Person) -> set[str]:
    """Contacts (digits) that wrote since the person last read their thread; FAXES if a fax came since."""
    if only_user() is not None:
        return set()
    since = max(person.created_at, clock.stamp(clock.now() - UNREAD))
    with house.mirror.read() as connection:
        latest = messages.latest_received(connection, since)
        if (faxed := faxes.last_received(connection, since)) is not None:
            latest[FAXES] = faxed
    if not latest:
        return set()
    with house.house.read() as connection:
        marks = seen.marks(connection, person.id)
    return {contact for contact, at in latest.items() if at > marks.get(contact, "")}


def notices(house: House, only: int | None) -> list[tuple[str, Finding, int]]:
    """What alert rules that tell the dashboard find now, newest first; they name callers, so that who sees
    their own calls only is told nothing."""
    if only is not None:
        return []
    with house.house.read() as connection:
        return alert_rules.noticed(connection, NOTICES + 1)


def tabs(counts: live.Counts, missed: int, unread: int, unheard: int, trouble: bool) -> list[Tab]:
    supervises, hears = current_person().may("supervisor"), current_person().may("recordings")
    return [
        Tab("live", "/", "Live", "live", "l", "live", counts.open),
        Tab("missed", "/missed", "Missed", "missed", "m", "alarm", missed),
        Tab("calls", "/calls", "Calls", "calls", "c"),
        Tab("messages", "/messages", "Messages", "messages", "s", "live", unread),
        *([Tab("voicemail", "/voicemail", "Voicemail", "voicemail", "v", "live", unheard)] if hears else []),
        Tab("contacts", "/contacts", "Contacts", "contacts", "o"),
        Tab("account", "/account", "Account", "account", "a"),
        *([Tab("reports", "/reports", "Reports", "reports", "r")] if supervises else []),
        Tab("system", "/system", "System", "system", "y", "alarm" if trouble else "", int(trouble)),
    ]


def shell(person: Person) -> dict[str, Any]:
    house = this_house()
    only = only_user()
    with house.house.read() as connection:
        heard_here = heard.ids(connection)
    with house.mirror.read() as connection:
        counts = live.counts(connection, only)
        change = g.get("change") or live.change_number(connection)
        data_age = age(connection, house)
        away = unreachable_since(connection)
        unheard = audio.count_new(connection, only, heard_here)
    settings = house.settings.dashboard
    return {
        "person": person,
        "notices": notices(house, only),
        "tabs": tabs(
            counts,
            open_callbacks(house, only),
            len(unread_threads(house, person)),
            unheard,
            house.health.report()["status"] != "ok",
        ),
        "counts": counts,
        "change": change,
        "age": data_age,
        "away": away,
        "zone": settings.timezone.replace("_", " "),
        "now": int(clock.unix() * 1000),
    }


def page(name: str, template: str, **values: Any) -> str:
    """Render a page inside the shell. `name` marks its tab."""
    return render_template(template, page=name, shell=shell(current_person()), **values)


@pass_context
def _allowed(context: Context, role_or_right: str) -> bool:
    person = context.get("person")
    return isinstance(person, Person) and person.may(role_or_right)


def _note_change() -> None:
    """Before anything of a page is read: what is committed between that and here its stream tells."""
    if g.get("person") is not None:
        with this_house().mirror.read() as connection:
            g.change = live.change_number(connection)


def register(app: Flask) -> None:
    """Templates get `may('agent')`. After the guard's `before_request`."""
    app.before_request(_note_change)
    app.jinja_env.globals["may"] = _allowed
    app.jinja_env.globals["NOTHING"] = formats.NOTHING
