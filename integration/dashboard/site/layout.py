"""Page shell: rail with counts, alerts, display zone, age of data."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from typing import Any

from flask import Flask, current_app, g, render_template, request
from jinja2 import pass_context
from jinja2.runtime import Context
from werkzeug.exceptions import HTTPException

from integration import __version__
from integration.access import visibility
from integration.access.people import Person
from integration.access.rights import EXPORTS_ONLY, has
from integration.access.visibility import Visibility
from integration.alerts import rules
from integration.alerts.rules import Finding
from integration.context import EXTENSION, AppContext, app_context
from integration.core import clock
from integration.dashboard.site import after_redirect, formats
from integration.dashboard.site.guard import can_open, current_person, describe_viewer
from integration.dashboard.site.help_links import find_help_page
from integration.dashboard.site.news import list_notifications
from integration.dashboard.site.tabs import list_tabs
from integration.mirror.calls import backlog
from integration.mirror.page_queries import faxes, live, media_lists, messages
from integration.mirror.sync_state import collection_state
from integration.platform_api.failures import describe_cause
from integration.settings.demo_marker import is_demo
from integration.workspace import callbacks, reads
from integration.workspace.callback_items import CallbackItem

STALE_SECONDS = 300
"""Seconds after which the data age turns amber. The mirror is at most five minutes old (docs/sync.md)."""


FAX_THREAD = "faxes"
"""Key of all faxes among the read threads of a dashboard user."""

UNREAD_PERIOD = timedelta(days=30)
"""Age limit of unread messages. After a long absence the badge would be useless without it."""


PHONE_TABS = 5
"""Entries of the rail that a phone shows. The others are behind "More"."""

_LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)

MAX_NOTICES = 3
"""Alert rules shown on every page if they have alerts. A link replaces further rules."""


@dataclass(frozen=True, slots=True)
class DataAge:
    """Age of the displayed data.

    `timestamp` is the UTC text from which the age counts, None if there are no data; `title` is a sentence.
    `has_webhooks`: whether the platform has ever sent a webhook.
    """

    label: str
    timestamp: str | None
    css_class: str
    title: str
    has_webhooks: bool


def get_visibility() -> Visibility:
    """Return the visibility of the current dashboard user."""
    return visibility.of(current_person(), app_context().settings.dashboard.agents_see)


def read_data_age(connection: sqlite3.Connection, context: AppContext) -> DataAge:
    """Return the age of the CDRs.

    Other collections do not count: calls are final only with their CDRs.
    """
    state = collection_state.get_state(connection, "cdrs")
    last_success_at, has_webhooks = state.last_success_at, context.inbox.has_received()
    if last_success_at is None:
        if state.last_error:
            return DataAge("Not synced yet", None, "bad", f"Sync failed: {state.last_error}", has_webhooks)
        return DataAge("First sync", None, "warning", "The first sync has not finished yet.", has_webhooks)
    seconds = formats.seconds_since(last_success_at) or 0.0
    stale_after = max(STALE_SECONDS, 2 * context.settings.sync.recent_interval)
    last_read_text = formats.at_full(last_success_at)
    if unreachable_since(connection):
        error = state.last_error if state.is_failing else None
        return DataAge(
            "Phone system unreachable, updated",
            last_success_at,
            "bad",
            f"Last synced {last_read_text}. Since then: {error or 'no response'}",
            has_webhooks,
        )
    return DataAge(
        "Updated",
        last_success_at,
        "warning" if seconds > stale_after else "",
        f"Call records last synced {last_read_text}.",
        has_webhooks,
    )


def unreachable_since(connection: sqlite3.Connection) -> str | None:
    """Return the time (UTC text) since which the platform is unreachable.

    Returns None if the requests of the last read of CDRs succeeded and the circuit breaker is closed. The
    circuit may open long before a read of CDRs fails: then its probes are requests of any collection.
    """
    state = collection_state.get_state(connection, "cdrs")
    if state.is_failing:
        return state.last_success_at or state.last_error_at or clock.utc_text()
    open_since = app_context().platform.budget.state().open_since
    return None if open_since is None else clock.utc_text(open_since)


def describe_outage(connection: sqlite3.Connection) -> tuple[str, bool]:
    """Return (cause, whether `platform.base_url` may be wrong), by the newest error of a sync.

    The cause is a sentence without a full stop, '' if no error is stored.
    """
    errors = [
        (state.last_error_at or "", state.last_error)
        for state in collection_state.list_states(connection)
        if state.last_error and state.is_failing
    ]
    error = max(errors, default=("", ""))[1]
    return describe_cause(error), "platform.base_url" in error


def count_open_callbacks(context: AppContext, viewer: Visibility) -> int:
    """Count the open call-backs that `viewer` sees."""
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        return callbacks.count_visible_open(connection, mirror, viewer)


def count_final_callbacks(context: AppContext, viewer: Visibility) -> int | None:
    """Count the open call-backs, or return None during the first sync.

    Until then callers are listed whose later calls are not read yet, so the number would fall again.
    """
    with context.mirror_db.read() as connection:
        is_partial = is_history_partial(connection)
    return None if is_partial else count_open_callbacks(context, viewer)


def is_history_partial(connection: sqlite3.Connection) -> bool:
    """Return whether the first sync of the calls has not ended."""
    return collection_state.get_state(connection, "cdrs").awaits_first_sync or not backlog.is_empty(
        connection
    )


def find_unread_threads(context: AppContext, person: Person) -> set[str]:
    """Return the contacts (digits) with unread messages.

    FAX_THREAD represents unread faxes. The result is empty for a dashboard user with a user scope, because
    that user sees no messages.
    """
    if get_visibility().user_scope is not None:
        return set()
    since = max(person.created_at, clock.utc_text(clock.now() - UNREAD_PERIOD))
    with context.mirror_db.read() as connection:
        latest = messages.find_last_received(connection, since)
        if (last_fax_at := faxes.find_last_received_at(connection, since)) is not None:
            latest[FAX_THREAD] = last_fax_at
    if not latest:
        return set()
    with context.app_db.read() as connection:
        read_marks = reads.load_read_threads(connection, person.id)
    return {contact for contact, received_at in latest.items() if received_at > read_marks.get(contact, "")}


def list_notices(
    context: AppContext, user_scope: int | None
) -> list[tuple[str, Finding, int, CallbackItem | None]]:
    """List current alerts of rules that notify the dashboard, newest first.

    Each is (rule name, newest alert, number of alerts, call-back item of the alert). Alerts name callers, so
    the list is empty for a dashboard user with a user scope.
    """
    if user_scope is not None:
        return []
    with context.app_db.read() as connection:
        return [
            (rule, finding, count, find_call_back(connection, finding))
            for rule, finding, count in rules.list_dashboard_findings(connection, MAX_NOTICES + 1)
        ]


def find_call_back(connection: sqlite3.Connection, finding: Finding) -> CallbackItem | None:
    """Return the call-back item of an alert, None for other alerts."""
    return callbacks.find_item(connection, int(finding.key)) if "/missed#" in finding.href else None


def build_layout(person: Person) -> dict[str, Any]:
    context = app_context()
    with context.mirror_db.read() as connection:
        data_age = read_data_age(connection, context)
    common = {
        "person": person,
        "viewer": describe_viewer(person, get_visibility()),
        "zone": context.settings.dashboard.timezone.replace("_", " "),
        "now": int(clock.unix() * 1000),
        "help": find_help_page(request.path),
        "tabs": list_tabs(person),
        "message": after_redirect.take_message(),
        "age": data_age,
    }
    if person.role == EXPORTS_ONLY:
        # No counts, alerts or stream.
        return {
            **common,
            "notices": [],
            "tab_counts": {},
            "ringing": 0,
            "news": 0,
            "change": "",
            "away": None,
        }
    viewer = get_visibility()
    user_scope = viewer.user_scope
    with context.app_db.read() as connection:
        played_ids = reads.list_played_ids(connection)
    with context.mirror_db.read() as connection:
        counts = live.count_live_calls(connection, user_scope)
        change_number = g.get("change") or live.get_change_number(connection)
        unreachable_at = unreachable_since(connection)
        outage = describe_outage(connection) if unreachable_at else None
        unplayed = media_lists.count_unplayed(connection, user_scope, played_ids)
        # Counts of half a history would change by themselves.
        if collection_state.get_state(connection, "voicemessages").awaits_first_sync:
            unplayed = 0
        has_messages = not collection_state.get_state(connection, "sms").awaits_first_sync
    return {
        **common,
        "notices": list_notices(context, user_scope),
        "tab_counts": {
            "live": counts.total,
            "missed": count_final_callbacks(context, viewer) or 0,
            "messages": len(find_unread_threads(context, person)) if has_messages else 0,
            "voicemail": unplayed,
            **({"system": "!"} if context.health.status != "ok" else {}),
        },
        "ringing": counts.ringing,
        "news": sum(entry.is_new for entry in list_notifications(context, person, viewer)),
        "change": change_number,
        "away": unreachable_at,
        "outage": outage,
    }


def render_page(tab: str, template: str, **values: Any) -> str:
    """Render a page inside the shell.

    `tab` is the page of the rail entry to mark.
    """
    person = current_person()
    html = render_template(template, page=tab, shell=build_layout(person), **values)
    return html if person.role != EXPORTS_ONLY else _remove_closed_links(html, person)


def _remove_closed_links(html: str, person: Person) -> str:
    """Replace links to pages that `person` cannot open by their content."""
    adapter = current_app.create_url_adapter(request)
    assert adapter is not None

    def replace_link(match: re.Match[str]) -> str:
        path = re.split("[?#]", unescape(match[1]))[0] or request.path
        try:
            endpoint = adapter.match(path, "GET")[0]
        except HTTPException:
            return match[2]
        return match[0] if path == "/" or can_open(person, endpoint) else match[2]

    return _LINK.sub(replace_link, html)


@pass_context
def _has_right(context: Context, role_or_right: str) -> bool:
    person = context.get("person")
    return isinstance(person, Person) and has(person, role_or_right)


def _store_change_number() -> None:
    """Read the change number before the page reads data.

    The live stream then sends all later changes.
    """
    if g.get("person") is not None:
        with app_context().mirror_db.read() as connection:
            g.change = live.get_change_number(connection)


def register(app: Flask) -> None:
    """Add `may('agent')`, IS_DEMO, NOTHING and VERSION to the templates.

    Call this after the installation of the guard.
    """
    app.before_request(_store_change_number)
    app.jinja_env.globals["PHONE_TABS"] = PHONE_TABS
    app.jinja_env.globals["VERSION"] = __version__
    app.jinja_env.globals["may"] = _has_right
    app.jinja_env.globals["NOTHING"] = formats.NOTHING
    app.jinja_env.globals["IS_DEMO"] = is_demo(app.extensions[EXTENSION].settings)
