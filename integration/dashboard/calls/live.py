"""Page Live: live calls, people and queues; events of the live stream."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, get_template_attribute

from integration.access import visibility
from integration.access.people import Person
from integration.access.rights import has
from integration.access.visibility import Visibility
from integration.context import AppContext, app_context
from integration.core import clock
from integration.dashboard.calls import actions
from integration.dashboard.calls.report_charts import Bar
from integration.dashboard.site import first_steps, formats, layout
from integration.dashboard.site.guard import current_person
from integration.mirror.page_queries import call_detail, history, live, phones
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.crm_address import build_address_of_call
from integration.mirror.page_queries.reports import Figures
from integration.sqlite.transaction import Change
from integration.workspace import call_labels
from integration.workspace.call_labels import CallLabel

blueprint = Blueprint("live", __name__)

RECENT_PERIOD = timedelta(hours=12)
"""Maximum age of calls that are shown as just ended or count for 'free since' of users."""
OUTCOME_PERIOD = timedelta(minutes=15)
"""Time after a call in which its outcome is requested."""
SLOT_SECONDS, SLOTS = 300, 12
"""Bars of the last hour. The last one is the current five minutes."""
CALL_STATES = ("ringing", "dialling", "talking", "on_hold")
STATE_ORDER = (*CALL_STATES, "idle", "dnd")
"""Order of the tiles of users."""
MAX_OPEN_TILES = 16
"""People without a call who are shown at once. More are behind their number."""
MAX_EARLIER_CALLS = 99
"""Limit for the count of earlier calls of a caller."""

STATE_GROUPS = (
    *((state, STATE_LABELS[state].text) for state in (*CALL_STATES, "unconfirmed")),
    ("ended", "Just ended"),
)


@blueprint.get("/")
@blueprint.get("/live")
def index() -> str:
    context, viewer = app_context(), layout.get_visibility()
    user_scope = viewer.user_scope
    recent_since = clock.utc_text(clock.now() - RECENT_PERIOD)
    with context.mirror_db.read() as connection:
        open_calls = live.list_live_calls(connection, user_scope)
        ended_calls = live.list_just_ended(connection, recent_since, user_scope)
        groups = group_calls([*open_calls, *ended_calls])
        earlier_calls = {call["id"]: count_earlier_calls(connection, call, user_scope) for call in open_calls}
        values = {
            "groups": groups,
            "open": len(open_calls),
            "history": earlier_calls,
            "figures": build_figures(connection, context, viewer),
            "people": sorted(
                live.list_user_status(connection, recent_since), key=lambda one: STATE_ORDER.index(one.state)
            ),
            "MAX_OPEN_TILES": MAX_OPEN_TILES,
            "queues": live.list_queue_status(connection),
            "hour": build_last_hour(connection, user_scope),
            "ringing_at": {call["id"]: list_ringing_users(connection, call) for call in open_calls},
            "own": user_scope is not None,
            "can_see_call": viewer.can_see_call,
        }
    person = current_person()
    phone = actions.find_phone(context, person) if has(person, "agent") else None
    values |= {"phone": phone, "finished": phone and find_finished_call(context, phone.id)}
    steps = first_steps.list_steps(context, current_person())
    return layout.render_page("live", "live.html", steps=steps, **values)


def group_calls(calls: list[sqlite3.Row]) -> list[tuple[str, str, list[sqlite3.Row]]]:
    """Return (key, label, calls) of each section of the list."""
    groups: dict[str, list[sqlite3.Row]] = {key: [] for key, _ in STATE_GROUPS}
    for call in calls:
        groups["ended" if call["state"] == "ended" else formats.state_key(call)].append(call)
    return [(key, label, groups[key]) for key, label in STATE_GROUPS]


def find_finished_call(context: AppContext, user_id: int) -> tuple[sqlite3.Row, list[CallLabel]] | None:
    """Return the last call of a user and the offered outcomes.

    None if the call has a label, is too old, or there is nothing to choose.
    """
    with context.app_db.read() as app, context.mirror_db.read() as mirror:
        outcomes = call_labels.list_outcomes(mirror, context.settings.calls.outcomes)
        since = clock.utc_text(clock.now() - OUTCOME_PERIOD)
        call = live.find_last_talk(mirror, user_id, since) if outcomes else None
        if call is None:
            return None
        leg_ids = [leg["leg_id"] for leg in call_detail.list_legs(mirror, call["id"])]
        is_labelled = bool(call_labels.load_for_call(mirror, app, call["id"], leg_ids))
    return None if is_labelled else (call, outcomes)


def list_ringing_users(connection: sqlite3.Connection, call: sqlite3.Row) -> list[int]:
    """Return the users at whose phones an inbound call rings."""
    if call["direction"] != "in" or call["state"] != "ringing":
        return []
    return [
        leg.user_id
        for leg in phones.list_live_legs(connection, call["id"])
        if leg.state == "RINGING" and leg.user_id is not None
    ]


def build_last_hour(connection: sqlite3.Connection, user_scope: int | None) -> list[Bar]:
    """Return bars of five minutes with external calls of the last hour."""
    zone = formats.display_zone()
    first = (int(clock.unix()) // SLOT_SECONDS - SLOTS + 1) * SLOT_SECONDS
    counts = live.count_by_slot(connection, first, SLOT_SECONDS, user_scope)
    bars = []
    for slot in range(SLOTS):
        begin, end = (
            datetime.fromtimestamp(first + SLOT_SECONDS * number, zone) for number in (slot, slot + 1)
        )
        calls, missed, voicemail = counts.get(slot, (0, 0, 0))
        day = begin.date().isoformat()
        query = {"from": day, "to": day, "begin": f"{begin:%H:%M}", "end": f"{end:%H:%M}"}
        bars.append(
            Bar(
                f"{begin:%H:%M}",
                f"{begin:%H:%M}–{end:%H:%M}",
                Figures(calls=calls, missed=missed, voicemail=voicemail),
                partial(_link_calls, query),
            )
        )
    return bars


def _link_calls(query: dict[str, str], **filters: object) -> str:
    return "/calls?" + urlencode({**query, "direction": "external", **filters})


def count_earlier_calls(
    connection: sqlite3.Connection, call: sqlite3.Row, user_scope: int | None
) -> tuple[int, sqlite3.Row | None] | None:
    """Return (number of earlier calls with this party, the last of them).

    Calls outside the user scope do not count. The number is at most MAX_EARLIER_CALLS. The result is None for
    a call without a telephone number.
    """
    if not call["party_e164"]:
        return None
    rows = history.list_earlier_calls(
        connection,
        call["party_e164"],
        call["started_at"],
        call["id"],
        MAX_EARLIER_CALLS,
        user_scope=user_scope,
    )
    return len(rows), rows[0] if rows else None


def build_figures(
    connection: sqlite3.Connection, context: AppContext, viewer: Visibility
) -> list[dict[str, Any]]:
    """Return the figures above the list, with links to their rows."""
    user_scope = viewer.user_scope
    counts = live.count_live_calls(connection, user_scope)
    today_start = clock.midnight(formats.today(), formats.display_zone())
    # Without internal calls, as on the page Reports.
    calls_today = history.count(
        connection,
        history.CallFilter(since=today_start, direction="external", user_scope=user_scope),
    )
    waiting_since = next(
        (call["started_at"] for call in live.list_live_calls(connection, user_scope) if is_waiting(call)),
        None,
    )
    open_callbacks = layout.count_final_callbacks(context, viewer)
    return [
        *(
            {"key": state, "word": STATE_LABELS[state].text, "value": count, "link": f"#group-{state}"}
            for state, count in (
                ("ringing", counts.ringing),
                ("talking", counts.talking),
                ("on_hold", counts.on_hold),
            )
        ),
        {
            "key": "waiting",
            "word": "Longest wait",
            "value": 1 if waiting_since else 0,
            "since": waiting_since,
        },
        {"key": "missed", "word": "To call back", "value": open_callbacks, "link": "/missed"},
        {
            "key": "today",
            "word": "Calls today",
            "value": calls_today,
            "link": "/calls?range=today&direction=external",
        },
    ]


def is_waiting(call: sqlite3.Row) -> bool:
    """Return whether a caller waits for an answer."""
    return bool(call["direction"] == "in" and call["state"] == "ringing" and not call["unconfirmed"])


# --- live stream ---------------------------------------------------------------------------------------


def render_change(change: Change, person: Person) -> list[tuple[str, dict[str, Any]]]:
    """Return the stream events for one change.

    Events are `call` with its row, `call_gone`, `note`, `sms`, `callback` and `alert`; other changes have
    none. Runs in an application context without a request, because all viewers of equal visibility share the
    result (integration/live/stream.py).
    """
    context = app_context()
    viewer = visibility.of(person, context.settings.dashboard.agents_see)
    if change.topic == "call":
        return _render_call_change(int(change.key), context, viewer)
    if change.topic == "call_gone":
        return [_render_removal(int(change.key), context, viewer)]
    if change.topic in ("alert", "sms"):
        return [(change.topic, {"now": int(clock.unix() * 1000)})]
    if change.topic == "note":
        with context.mirror_db.read() as connection:
            call = live.find_call(connection, int(change.key))
        is_visible = call is not None and viewer.can_see_call(call["user_id"])
        return [("note", {"id": int(change.key)})] if is_visible else []
    if change.topic == "callback":
        return [("callback", {"counts": _live_counts(context, viewer)})]
    return []


def render_heartbeat() -> dict[str, Any]:
    """Return the data of the event `beat`.

    `now` is the server's time in milliseconds since 1970.
    """
    with app_context().mirror_db.read() as connection:
        age = layout.read_data_age(connection, app_context())
    html = get_template_attribute("_age.html", "age")(age)
    return {"now": int(clock.unix() * 1000), "age": str(html), "title": age.title}


def _render_removal(call_id: int, context: AppContext, viewer: Visibility) -> tuple[str, dict[str, Any]]:
    return "call_gone", {"id": call_id, "counts": _live_counts(context, viewer)}


def _render_call_change(
    call_id: int, context: AppContext, viewer: Visibility
) -> list[tuple[str, dict[str, Any]]]:
    with context.mirror_db.read() as connection:
        call = live.find_call(connection, call_id)
        # A call that the viewer cannot see may have been in their scope before a transfer.
        if call is None or not viewer.can_see_call(call["user_id"]):
            return [_render_removal(call_id, context, viewer)]
        has_ended = call["state"] == "ended"
        if has_ended and (call["ended_at"] or call["started_at"] or "") < clock.utc_text(
            clock.now() - RECENT_PERIOD
        ):
            # The initial sync changes thousands of old calls; send no rows, but remove a call shown as live.
            return [("call_gone", {"id": call_id})]
        earlier_calls = None if has_ended else count_earlier_calls(connection, call, viewer.user_scope)
        ringing_users = list_ringing_users(connection, call)
    render_row = get_template_attribute("_calls.html", "live_row")
    render_party_name = get_template_attribute("_calls.html", "party_name")
    state = formats.state_key(call)
    rings = state == "ringing" and call["direction"] == "in"
    data = {
        "id": call["id"],
        "state": state,
        "ended": has_ended,
        "party": call["party_e164"] or call["party"],
        "html": str(render_row(call, earlier_calls, ringing_users)),
        "say": f"Call ringing from {str(render_party_name(call)).strip()}" if rings else "",
        "crm": build_address_of_call(context, call) if rings else None,
        "counts": _live_counts(context, viewer),
        "now": int(clock.unix() * 1000),
    }
    return [("call", data)]


def _live_counts(context: AppContext, viewer: Visibility) -> dict[str, Any]:
    with context.mirror_db.read() as connection:
        counts = live.count_live_calls(connection, viewer.user_scope)
    return {
        "ringing": counts.ringing,
        "talking": counts.talking,
        "on_hold": counts.on_hold,
        "live": counts.total,
        "missed": layout.count_final_callbacks(context, viewer),
    }
