"""Account pages: overview, lists and records of all mirrored collections.

The pages are generated from the catalogue.

/account                    every collection with its count, age and completeness
/account/<collection>       its records (`/account/me`: its only record)
/account/<collection>/<id>  one record; without ids, by its position in the platform's response
  … ?edit=1                 form to change the record or to create one (integration/dashboard/account/edit.py)
  … ?edit=many&id=1&id=2    form to change several records
/account/vmannouncements/<id>/audio  audio of an announcement that was uploaded here
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import chain

from flask import Blueprint, abort, request, send_file
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.dashboard.account import collection, edit, record
from integration.dashboard.account.sections import FORM_SECTIONS, SECTIONS, Section, sections_by_group
from integration.dashboard.site import layout
from integration.dashboard.site.guard import requires
from integration.mirror.query.browse import CollectionState
from integration.workspace import announcement_files

blueprint = Blueprint("account", __name__)

SINGLE_RECORD_COLLECTION = "me"
"""Collection with exactly one record, at the path of the collection."""


@blueprint.get("/account")
def index() -> str:
    visibility = layout.get_visibility()
    sections = sections_by_group(visibility)
    with app_context().mirror_db.read(seconds=collection.READ_SECONDS) as connection:
        states = {
            section.collection: visibility.collection_state(connection, section.resource)
            for group in sections.values()
            for section in group
        }
    return layout.render_page(
        "account",
        "account.html",
        sections=sections,
        states=states,
        problems=_group_problems(sections, states),
        synced=sum(
            bool(state.sync.complete_at or (state.sync.is_live and state.sync.last_success_at))
            for state in states.values()
        ),
    )


def _group_problems(
    sections: Mapping[str, Sequence[Section]], states: Mapping[str, CollectionState]
) -> dict[str, list[Section]]:
    """Return the sections that could not be synced, by their error without its path."""
    problems: dict[str, list[Section]] = {}
    for section in chain.from_iterable(sections.values()):
        error = states[section.collection].sync.last_error
        if error is not None:
            problems.setdefault(error.removeprefix(f"/{section.collection}: "), []).append(section)
    return problems


@blueprint.get("/account/<path:path>")
def show_path(path: str) -> Response:
    """Show the collection or the record of a path.

    A path of a collection is never a record.
    """
    section, key = _resolve_path(path.rstrip("/"))
    visibility = layout.get_visibility()
    if section.resource.is_listed and not visibility.can_open(section.resource):
        abort(403, f"Only supervisors and administrators can see {section.title}. Ask one of them.")
    if request.args.get("edit"):
        return edit.show_form(visibility, section, key)
    if not section.resource.is_listed:
        abort(404)
    if key is not None or section.collection == SINGLE_RECORD_COLLECTION:
        return record.show_record(visibility, section, key)
    return collection.show_list(visibility, section)


@blueprint.get("/account/vmannouncements/<int:announcement_id>/audio")
@requires("supervisor")
def play_announcement(announcement_id: int) -> Response:
    """Send the audio that was uploaded here, with Range support."""
    with app_context().app_db.read() as connection:
        file = announcement_files.find(connection, announcement_id)
    if file is None:
        abort(404)
    return send_file(io.BytesIO(file.content), mimetype=file.content_type, conditional=True)


@blueprint.post("/account/<path:path>")
@requires("agent")
def save_record(path: str) -> Response:
    """Save a changed record, or a new record of a collection."""
    section, key = _resolve_path(path.rstrip("/"))
    return edit.save(layout.get_visibility(), section, key)


def _resolve_path(path: str) -> tuple[Section, str | None]:
    """Split a path into collection and id.

    Both may contain slashes; the longest collection wins. Raises NotFound if no collection matches.
    """
    segments = path.split("/")
    for end in range(len(segments), 0, -1):
        path = "/".join(segments[:end])
        section = SECTIONS.get(path) or FORM_SECTIONS.get(path)
        if section is not None:
            return section, "/".join(segments[end:]) or None
    raise NotFound
