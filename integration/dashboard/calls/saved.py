"""Saved views of Calls, its labels, and which of its columns a person sees."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.access import audit
from integration.context import this_house
from integration.dashboard.calls.history import COLUMNS
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import current_person, needs
from integration.exports.call_filter import NAMES
from integration.sqlite.transaction import Transaction
from integration.workspace import notes
from integration.workspace import saved_views as views

blueprint = Blueprint("views", __name__)

PAGE = "calls"


def _query() -> str:
    """What the page asked for, of what it knows."""
    asked = dict(parse_qsl(request.form.get("query", "")[:2000]))
    return urlencode([(name, asked[name]) for name in NAMES if asked.get(name)])


def _back(query: str) -> Response:
    return redirect("/calls" + (f"?{query}" if query else ""), 303)


@blueprint.post("/calls/views")
def save() -> Response:
    """Keep the present view under a `name`, for oneself or `shared`, `pinned` beside the quick filters."""
    query = _query()
    try:
        views.save(
            this_house().house,
            current_person().id,
            PAGE,
            request.form.get("name", ""),
            query,
            # A view shows no more than its reader may see; but only who works here names one for all.
            shared=request.form.get("shared") == "1" and current_person().may("agent"),
            pinned=request.form.get("pinned") == "1",
        )
    except ValueError as mistake:
        abort(400, str(mistake))
    return _back(query)


@blueprint.post("/calls/views/<int:number>/remove")
def remove(number: int) -> Response:
    if not views.remove(this_house().house, current_person().id, number):
        abort(404)
    return _back(_query())


@blueprint.get("/calls/labels")
@needs("supervisor")
def labels() -> str:
    """Labels of ours: how often each is used, to rename and to drop."""
    with this_house().house.read() as connection:
        return shell.page("calls", "labels.html", labels=notes.label_uses(connection))


@blueprint.post("/calls/labels")
@needs("supervisor")
def change_label() -> Response:
    """Rename `label` to `to` on every call, or take it off every call (`drop`)."""
    label, to, me = request.form.get("label", ""), request.form.get("to", ""), current_person().email
    drop = bool(request.form.get("drop"))

    def work(tx: Transaction) -> None:
        if drop:
            notes.drop_label(tx, label)
        else:
            notes.rename_label(tx, label, to)
        audit.record(tx, me, "label dropped" if drop else "label renamed", f"{label} → {to}" if to else label)

    try:
        this_house().house.write(work)
    except ValueError as mistake:
        abort(400, str(mistake))
    return redirect("/calls/labels", 303)


@blueprint.post("/calls/columns")
def columns() -> Response:
    shown = set(request.form.getlist("column"))
    views.hide(this_house().house, current_person().id, PAGE, frozenset(COLUMNS.keys() - shown))
    return _back(_query())
