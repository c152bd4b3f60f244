"""Results of the search field while a user types, grouped by kind.

The first request searches pages, users, contacts and the index of calls. A second one, with `more`, searches
messages, faxes and chats, which have no index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from flask import Blueprint, render_template, request

from integration.access.rights import has
from integration.access.visibility import Visibility
from integration.catalogue import get_resource
from integration.context import AppContext, app_context
from integration.core.number_search.reading import read_digits
from integration.core.phone_numbers import get_calling_code
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import current_person
from integration.dashboard.site.person_names import person_name
from integration.dashboard.site.tabs import list_tabs
from integration.mirror.page_queries import contacts, faxes, history, messages, search_index
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.search_index import SearchTerms, fold
from integration.mirror.query import text_search
from integration.mirror.query.filters import Search
from integration.mirror.query.query import Query
from integration.workspace import notes

blueprint = Blueprint("palette", __name__)

GROUP_SIZE = 5
"""Results of each kind."""
SCANNED_CALLS = 40
"""Newest matching calls that are divided into those found by a name or number, and those by spoken words."""
READ_SECONDS = 2.0
"""Seconds after which a search is aborted. The user types on in the meantime."""
EXCERPT_LENGTH = 80
MATCH_CONTEXT = 20
"""Characters before a match: a line of the list is cut after about 50."""

PAGES = (
    ("Faxes", "/messages/faxes", "messages", "viewer"),
    ("Recordings", "/recordings", "record", "recordings"),
    ("Call a number", "/dial", "handset", "agent"),
    ("New message", "/messages?new=1", "note", "agent"),
    ("New contact", "/contacts/new", "contacts", "agent"),
    ("Call labels", "/calls/labels", "calls", "supervisor"),
    ("Notifications", "/notifications", "bell", "viewer"),
    ("You, password and sessions", "/profile", "user", "viewer"),
    ("Alerts", "/system/alerts", "warn", "supervisor"),
    ("Settings: people", "/settings/people", "system", "admin"),
    ("Settings: webhook and mail server", "/settings/connection", "system", "admin"),
    ("Settings: API keys", "/settings/keys", "system", "admin"),
    ("Settings: outgoing webhooks", "/settings/outgoing", "system", "admin"),
    ("Settings: wallboards", "/settings/screens", "system", "admin"),
    ("Settings: opening hours", "/settings/hours", "system", "admin"),
    ("Settings: text back", "/settings/text-back", "system", "admin"),
    ("Legal holds", "/privacy/holds", "privacy", "admin"),
    ("Erasures", "/privacy/erasures", "privacy", "admin"),
    ("Retention", "/privacy/retention", "privacy", "admin"),
    ("Audit", "/privacy/audit", "privacy", "admin"),
)
"""Pages and actions besides the rail: label, path, icon, and the role or right that they need."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the list."""

    title: str
    details: str
    path: str
    icon: str
    party: str = ""
    """Number that the line calls."""


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one kind."""

    label: str
    results: list[Result]


@blueprint.get("/palette")
def search() -> str:
    context, viewer = app_context(), layout.get_visibility()
    text = request.args.get("q", "").replace("\0", "").strip()[:200]
    find = _find_unindexed if request.args.get("more") else _find_indexed
    try:
        groups = [group for group in find(context, viewer, text) if group.results]
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        groups = []
    prefix = "more" if request.args.get("more") else "first"
    return render_template("_palette.html", groups=groups, prefix=prefix)


def _find_indexed(context: AppContext, viewer: Visibility, text: str) -> Iterator[Group]:
    number = context.phone_numbers.to_e164(text)
    yield Group("Pages and actions", [*_list_number_actions(number), *_find_pages(text)][: GROUP_SIZE + 2])
    if not text:
        return
    terms = search_index.parse_search(text, get_calling_code(context.settings.dashboard.country))
    with context.mirror_db.read(READ_SECONDS) as connection:
        yield Group("People", _find_users(connection, viewer, text))
        rows = contacts.fetch_page(connection, text, user_scope=viewer.user_scope, size=GROUP_SIZE).rows
        yield Group(
            "Contacts",
            [Result(row["name"], row["company"] or "", f"/contacts/{row['id']}", "contacts") for row in rows],
        )
        yield Group("Numbers", _find_account_numbers(connection, viewer, text))
        if terms is not None:
            yield from _find_calls(connection, viewer, terms, text)
        with context.app_db.read() as app_connection:
            found_notes = notes.search(app_connection, text, 10 * GROUP_SIZE)
        yield Group("Notes", _list_notes(connection, viewer, found_notes))


def _find_unindexed(context: AppContext, viewer: Visibility, text: str) -> Iterator[Group]:
    if len(text) < 2:
        return
    with context.mirror_db.read(READ_SECONDS) as connection:
        if viewer.user_scope is None:
            threads = messages.list_threads(
                connection, context.phone_numbers, search_text=text, size=GROUP_SIZE
            ).rows
            yield Group(
                "SMS",
                [
                    Result(
                        row["name"] or formats.national(formats.contact_number(row["contact"])),
                        f"{row['text'] or ''} · {formats.at_short(row['at'])}"[:EXCERPT_LENGTH],
                        "/messages?" + urlencode({"with": row["contact"]}),
                        "messages",
                    )
                    for row in threads
                ],
            )
            yield Group(
                "Faxes",
                [
                    Result(
                        formats.national(formats.contact_number(row["contact"])),
                        formats.at_short(row["at"]),
                        "/messages/faxes?" + urlencode({"find": row["contact"]}),
                        "messages",
                    )
                    for row in faxes.fetch_page(connection, context.phone_numbers, text, size=GROUP_SIZE).rows
                ],
            )
        yield Group("Chats", _find_chats(connection, viewer, text))


def _list_number_actions(number: str | None) -> Iterator[Result]:
    if number is None:
        return
    shown, digits = formats.national(number), number.removeprefix("+")
    if has(current_person(), "agent"):
        yield Result(f"Call {shown}", "", f"/dial?to=%2B{digits}", "handset", number)
        yield Result(f"Send a message to {shown}", "", f"/messages?with={digits}", "messages")
    yield Result(f"Contact and history of {shown}", "", f"/contacts/of/{digits}", "contacts")


def _find_pages(text: str) -> Iterator[Result]:
    words = fold(text).split()
    pages = [(tab.label, tab.path, tab.icon) for tab in list_tabs(current_person())]
    pages += [page[:3] for page in PAGES if has(current_person(), page[3])]
    for label, path, icon in pages:
        label_words = fold(label).replace(",", "").split()
        if all(any(name.startswith(word) for name in label_words) for word in words):
            yield Result(label, "", path, icon)


def _find_users(connection: sqlite3.Connection, viewer: Visibility, text: str) -> list[Result]:
    resource, words = get_resource("users"), fold(text).split()
    if not viewer.can_open(resource):
        return []
    scope = viewer.scope_of(resource)
    return [
        Result(row["name"], f"Extension {row['ext']}" if row["ext"] else "", f"/account/users/{row['id']}",
               "user")
        for row in history.list_users(connection)
        if not row["gone"]
        and scope in (None, row["id"])
        and all(word in fold(f"{row['name']} {row['ext'] or ''}") for word in words)
    ][:GROUP_SIZE]  # fmt: skip


def _find_account_numbers(connection: sqlite3.Connection, viewer: Visibility, text: str) -> list[Result]:
    if not viewer.can_open(get_resource("ddis")):
        return []
    digits = read_digits(text)
    return [
        Result(
            formats.national(row["e164"]),
            row["name"] or "",
            f"/account/ddis?q={read_digits(str(row['e164']))}",
            "account",
        )
        for row in history.list_account_numbers(connection)
        if (digits and digits in str(row["e164"])) or fold(text) in fold(row["name"] or "")
    ][:GROUP_SIZE]


def _find_calls(
    connection: sqlite3.Connection, viewer: Visibility, terms: SearchTerms, text: str
) -> Iterator[Group]:
    call_filter = history.resolve_search(
        connection,
        viewer.restrict_search(CallFilter(search_terms=terms, user_scope=viewer.user_scope)),
    )
    rows = history.fetch_page(connection, call_filter, size=SCANNED_CALLS).rows
    spoken_lines = search_index.find_matching_lines(connection, [row["id"] for row in rows], terms)
    named: list[Result] = []
    spoken: list[Result] = []
    for row in rows:
        result = Result(
            formats.far_end_name(row) or formats.national(row["party"]) or "Withheld",
            f"{STATE_LABELS.get(formats.state_key(row), ('',))[0]} · {formats.at_short(row['started_at'])}",
            f"/calls/{row['id']}",
            "handset",
        )
        line = spoken_lines.get(row["id"])
        if line is None:
            named.append(result)
        else:
            spoken.append(replace(result, details="".join(formats.excerpt(line, text, MATCH_CONTEXT))))
    yield Group("Calls", named[:GROUP_SIZE])
    yield Group("Words in calls", spoken[:GROUP_SIZE])


def _list_notes(
    connection: sqlite3.Connection, viewer: Visibility, found_notes: list[sqlite3.Row]
) -> list[Result]:
    calls = history.find_all(connection, [row["leg_id"] for row in found_notes])
    return [
        Result(row["text"][:EXCERPT_LENGTH], f"{person_name(row['person'])} · {formats.at_short(row['at'])}",
               f"/calls/{calls[row['leg_id']]['id']}", "note")
        for row in found_notes
        if row["leg_id"] in calls and viewer.can_see_call(calls[row["leg_id"]]["user_id"])
    ][:GROUP_SIZE]  # fmt: skip


def _find_chats(connection: sqlite3.Connection, viewer: Visibility, text: str) -> list[Result]:
    resource = get_resource("chats")
    if not viewer.can_open(resource):
        return []
    query = Query(
        resource,
        sort="id",
        descending=True,
        limit=GROUP_SIZE,
        hidden_fields=viewer.hidden_fields(resource),
        search=Search(text_search.parse_search_groups(text, None), include_items=False),
    )
    rows = viewer.restrict_query(connection, query).fetch_rows(connection)
    return [
        Result(row["visitor_name"] or f"Chat {row['id']}", formats.at_short(row["created_at"]),
               f"/account/chats/{row['id']}", "messages")
        for row in rows
    ]  # fmt: skip
