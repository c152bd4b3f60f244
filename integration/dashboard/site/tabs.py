"""Entries of the rail. They are also start pages, of which each dashboard user can choose one."""

from __future__ import annotations

from dataclasses import dataclass

from integration.access.people import Person
from integration.access.rights import EXPORTS_ONLY, has
from integration.context import app_context
from integration.mirror.page_queries.call_labels import STATE_LABELS
from integration.workspace import person_settings


@dataclass(frozen=True, slots=True)
class Tab:
    """Entry of the rail.

    `key` opens it after `g` on the keyboard; `required` is a role or right; `badge` is the CSS class of its
    count.
    """

    page: str
    path: str
    label: str
    icon: str
    key: str
    required: str = "viewer"
    badge: str = ""


REPORTS = Tab("reports", "/reports", "Reports", "reports", "r", "supervisor")
EXPORTS = Tab("exports", "/exports", "Exports", "download", "x", "export")
TABS = (
    Tab("live", "/", "Live", "live", "l", badge="live"),
    Tab("missed", "/missed", STATE_LABELS["missed"].text, "missed", "m", badge="alarm"),
    Tab("calls", "/calls", "Calls", "calls", "c"),
    Tab("messages", "/messages", "Messages", "messages", "s", badge="live"),
    Tab("voicemail", "/voicemail", "Voicemail", "voicemail", "v", "recordings", badge="live"),
    Tab("contacts", "/contacts", "Contacts", "contacts", "o"),
    Tab("account", "/account", "Account", "account", "a"),
    REPORTS,
    EXPORTS,
    Tab("privacy", "/privacy", "Privacy", "privacy", "p", "admin"),
    Tab("system", "/system", "System", "system", "y", badge="alarm"),
)


def list_tabs(person: Person) -> list[Tab]:
    """Return the tabs of the pages that `person` can open."""
    if person.role == EXPORTS_ONLY:
        return [*([EXPORTS] if has(person, "export") else []), REPORTS]
    return [tab for tab in TABS if has(person, tab.required)]


def find_start_page(person: Person) -> str:
    """Return the path of the page after a login.

    The first tab if the user chose none or no longer has access to it.
    """
    with app_context().app_db.read() as connection:
        chosen = person_settings.load(connection, person.id, "start page")
    paths = [tab.path for tab in list_tabs(person)]
    return chosen if chosen in paths else paths[0]
