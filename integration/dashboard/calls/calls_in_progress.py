"""Calls in progress with a party, so that two people do not call one customer at once.

A call is in progress from the click on *Call* on, and while a confirmed live call with the party exists. Both
are derived: the write log has the click before the request is sent, the mirror has the live calls.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, g

from integration.context import app_context
from integration.core import clock
from integration.core.errors import DomainError
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import current_person
from integration.dashboard.site.person_names import person_name
from integration.mirror.page_queries import history, live, phones
from integration.sync.writing import write_log
from integration.sync.writing.write_log import PlacedCall

PLACING_SECONDS = 20
"""Seconds for which a click counts while its call is not in the mirror. Click-to-call takes up to 15 s."""


class CallNotConfirmed(DomainError):
    """The user must confirm a call, because the party is busy with a colleague or claimed by one."""


@dataclass(frozen=True, slots=True)
class CallsInProgress:
    """Calls in progress at one moment.

    `live_calls` are rows of `_calls` and `clicks` the newest clicks without a call, both by the number of the
    party, in E.164 or as received. `newest_click_id` is the newest entry of the write log among all clicks.
    """

    live_calls: dict[str, sqlite3.Row]
    clicks: dict[str, PlacedCall]
    newest_click_id: int
    own_phone_id: int | None
    """Platform user of the current dashboard user."""

    def describe(self, number: str) -> str | None:
        """Describe the call with `number`: 'Clara Whitfield is talking to them'. None without a call."""
        party = _normalize(number)
        if party in self.live_calls:
            return _describe_live_call(self.live_calls[party], self.own_phone_id)
        return _describe_click(self.clicks[party]) if party in self.clicks else None


def make_check(number: str, claim: str | None) -> Callable[[sqlite3.Connection], None]:
    """Return a function that raises CallNotConfirmed if `number` is being called, or with a `claim`.

    `claim` names the user who claimed the caller. The function must run in the transaction that stores the
    click of this call: of two clicks at the same moment, the second finds the first.
    """
    calls, phone_numbers = read(), app_context().phone_numbers
    reason = calls.describe(number) or claim
    party = _normalize(number)

    def check(connection: sqlite3.Connection) -> None:
        # This runs on the writer's thread, without the request.
        newer_clicks = [click for click in _list_clicks(connection) if click.id > calls.newest_click_id]
        is_called = any((phone_numbers.to_e164(click.to) or click.to) == party for click in newer_clicks)
        if reason or is_called:
            raise CallNotConfirmed(f"{reason or 'A colleague is calling them'}.")

    return check


def read() -> CallsInProgress:
    """Read the calls in progress, once for each request."""
    if "calls_in_progress" not in g:
        g.calls_in_progress = _read()
    calls: CallsInProgress = g.calls_in_progress
    return calls


def _read() -> CallsInProgress:
    context, person = app_context(), current_person()
    # First the clicks: a call that becomes live in between is found twice, not missed.
    with context.app_db.read() as connection:
        clicks = _list_clicks(connection)
    newest_click_id = clicks[0].id if clicks else 0
    clicks_of = {_normalize(click.to): click for click in reversed(clicks)}
    with context.mirror_db.read() as connection:
        live_calls = {
            call["party_e164"] or call["party"]: call
            for call in live.list_live_calls(connection)
            if call["party"] and not call["unconfirmed"]
        }
        calls_since = history.find_last_attempts(
            connection, {party: click.at for party, click in clicks_of.items()}
        )
        phone = phones.find_own_phone(connection, person.platform_user_id, person.email)
    open_clicks = {party: click for party, click in clicks_of.items() if party not in calls_since}
    return CallsInProgress(live_calls, open_clicks, newest_click_id, None if phone is None else phone.id)


def _list_clicks(connection: sqlite3.Connection) -> list[PlacedCall]:
    return write_log.list_placed_calls(connection, clock.utc_text(clock.unix() - PLACING_SECONDS))


def _normalize(number: str) -> str:
    return formats.tel(number) or number


def _describe_click(click: PlacedCall) -> str:
    if click.who == current_person().email:
        return "You are calling them"
    return f"{_name_colleague(person_name(click.who))} is calling them"


def _describe_live_call(call: sqlite3.Row, own_phone_id: int | None) -> str:
    if call["direction"] == "in" and call["state"] == "ringing":
        return "They are calling now"
    action = "calling them" if call["state"] in ("ringing", "dialling") else "talking to them"
    if own_phone_id is not None and call["user_id"] == own_phone_id:
        return f"You are {action}"
    return f"{_name_colleague(call['user_name'] or call['extension'])} is {action}"


def _name_colleague(name: str | None) -> str:
    """Return the name, or 'A colleague' for a user who sees only their own calls."""
    return name if name and layout.get_visibility().user_scope is None else "A colleague"


def register(app: Flask) -> None:
    """Add `call_in_progress(number)` to the templates."""
    app.jinja_env.globals["call_in_progress"] = lambda number: read().describe(number)
