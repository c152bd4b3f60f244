"""Page after a login, which each dashboard user can choose."""

from __future__ import annotations

from integration.access.people import Person
from integration.access.rights import has
from integration.context import app_context
from integration.workspace import person_settings

DEFAULT = "/"  # The guard leads users of the role exports from here to their page.
START_PAGES = {
    DEFAULT: ("Live", "viewer"),
    "/missed": ("Missed", "viewer"),
    "/calls": ("Calls", "viewer"),
    "/messages": ("Messages", "viewer"),
    "/voicemail": ("Voicemail", "recordings"),
    "/contacts": ("Contacts", "viewer"),
    "/reports": ("Reports", "supervisor"),
    "/exports": ("Exports", "export"),
    "/system": ("System", "viewer"),
}
"""Path → label, and the role or right that the page needs."""


def list_start_pages(person: Person) -> dict[str, str]:
    """Return the labels of the user's possible start pages, by path."""
    return {path: label for path, (label, required) in START_PAGES.items() if has(person, required)}


def find_start_page(person: Person) -> str:
    """Return the path of the user's start page.

    DEFAULT if the user no longer has access to it.
    """
    with app_context().app_db.read() as connection:
        path = person_settings.load(connection, person.id, "start page")
    return path if path in list_start_pages(person) else DEFAULT
