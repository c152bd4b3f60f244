"""Saved views, labels and visible columns of the page Calls."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.access.rights import has
from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.calls.history import COLUMNS
from integration.dashboard.calls.labelling import write_audited
from integration.dashboard.site import layout
from integration.dashboard.site.guard import current_person, requires
from integration.mirror.page_queries.call_view import PARAMETERS
from integration.workspace import notes, person_settings, saved

blueprint = Blueprint("views", __name__)

PAGE_NAME = "calls"


def _view_query() -> str:
    """Return the query string of the page without unknown parameters."""
    parameters = dict(parse_qsl(request.form.get("query", "")[:2000]))
    return urlencode([(name, parameters[name]) for name in PARAMETERS if parameters.get(name)])


def _redirect_to_calls(query: str) -> Response:
    return redirect("/calls" + (f"?{query}" if query else ""), 303)


@blueprint.post("/calls/views")
def save() -> Response:
    """Save the current view as `name`.

    The view is private or `shared`; `pinned` adds it to the quick filters.
    """
    query = _view_query()
    try:
        saved.save(
            app_context().app_db,
            saved.VIEWS,
            PAGE_NAME,
            current_person().id,
            request.form.get("name", ""),
            query,
            # A shared view shows no user more than their visibility; still, sharing requires the role agent.
            shared=request.form.get("shared") == "1" and has(current_person(), "agent"),
            pinned=request.form.get("pinned") == "1",
        )
    except DomainError as error:
        abort(400, str(error))
    if "with_columns" in request.form:
        _save_columns()
    return _redirect_to_calls(query)


@blueprint.post("/calls/views/<int:number>/remove")
def remove(number: int) -> Response:
    if not saved.remove(app_context().app_db, saved.VIEWS, number, current_person().id):
        abort(404)
    return _redirect_to_calls(_view_query())


@blueprint.get("/calls/labels")
@requires("supervisor")
def labels() -> str:
    """Show the local labels with their numbers of uses."""
    with app_context().app_db.read() as connection:
        return layout.render_page("calls", "labels.html", labels=notes.list_label_usage(connection))


@blueprint.post("/calls/labels")
@requires("supervisor")
def change_label() -> Response:
    """Rename `label` to `to` on all calls, or delete it (`drop`)."""
    label, to = request.form.get("label", ""), request.form.get("to", "")
    try:
        if request.form.get("drop"):
            write_audited("label dropped", label, lambda tx: notes.delete_label(tx, label))
        else:
            about = f"{label} → {to}" if to else label
            write_audited("label renamed", about, lambda tx: notes.rename_label(tx, label, to))
    except ValueError as error:
        abort(400, str(error))
    return redirect("/calls/labels", 303)


@blueprint.post("/calls/columns")
def columns() -> Response:
    _save_columns()
    return _redirect_to_calls(_view_query())


def _save_columns() -> None:
    """Store the columns that the form shows, for the current user and all views."""
    shown_columns = set(request.form.getlist("column"))
    hidden_columns = " ".join(name for name in COLUMNS if name not in shown_columns)
    person_settings.save(app_context().app_db, current_person().id, "hidden columns", hidden_columns)
