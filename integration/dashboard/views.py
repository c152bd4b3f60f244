"""Saved views of Calls, and which of its columns a person sees."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.context import this_house
from integration.dashboard.calls import COLUMNS, NAMES
from integration.dashboard.guard import current_person
from integration.house import views

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


@blueprint.post("/calls/columns")
def columns() -> Response:
    shown = set(request.form.getlist("column"))
    views.hide(this_house().house, current_person().id, PAGE, frozenset(COLUMNS.keys() - shown))
    return _back(_query())
