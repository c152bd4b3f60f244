"""Page Missed: the call-back list, one row per caller."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.dashboard.site import layout
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.mirror.page_queries import history, live
from integration.workspace import callbacks, visible_callbacks
from integration.workspace.callbacks import ItemAction

blueprint = Blueprint("missed", __name__)

MAX_CLOSED_SHOWN = 200
"""Closed items that the second tab shows. Calls of older items are found in the history."""
MAX_NOTE_LENGTH = 500
"""Characters of a note."""


@blueprint.get("/missed")
def index() -> str:
    context, viewer = app_context(), layout.get_visibility()
    state = "closed" if request.args.get("state") == "closed" else "open"
    only_mine = request.args.get("mine") == "1"
    email = current_person().email
    with context.app_db.read() as connection:
        items = callbacks.list_items(connection, state, limit=MAX_CLOSED_SHOWN if state == "closed" else None)
        with context.mirror_db.read() as mirror:
            items = visible_callbacks.select_visible(mirror, viewer, items)
            calls = {item.id: history.find(mirror, item.last_call_id) for item in items}
            hidden_group_misses = live.count_users_without_missed_call_log(mirror)
            closed_item = visible_callbacks.find_visible(
                connection, mirror, viewer, request.args.get("done", 0, type=int)
            )
    visible_count = len(items)
    if only_mine:
        items = [item for item in items if item.owner == email]
    return layout.render_page(
        "missed",
        "missed.html",
        items=items,
        calls=calls,
        state=state,
        mine=only_mine,
        me=email,
        hidden=visible_count - len(items),
        waiting=layout.count_open_callbacks(context, viewer),
        unrecorded=hidden_group_misses,
        done=closed_item if closed_item and closed_item.state == "closed" else None,
    )


@blueprint.post("/missed/<int:number>/close")
@requires("agent")
def close(number: int) -> Response:
    return _record_action(number, "close", request.form.get("note", ""), done=number)


@blueprint.post("/missed/<int:number>/reopen")
@requires("agent")
def reopen(number: int) -> Response:
    return _record_action(number, "reopen")


@blueprint.post("/missed/<int:number>/assign")
@requires("agent")
def assign(number: int) -> Response:
    """Assign an item to the current user (`owner=me`), or to no user."""
    owner = current_person().email if request.form.get("owner") == "me" else ""
    return _record_action(number, "assign", owner)


@blueprint.post("/missed/<int:number>/note")
@requires("agent")
def note(number: int) -> Response:
    return _record_action(number, "note", request.form.get("note", ""))


def _record_action(number: int, action: ItemAction, text: str = "", **parameters: Any) -> Response:
    context, text = app_context(), text.strip()[:MAX_NOTE_LENGTH]
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        if visible_callbacks.find_visible(connection, mirror, layout.get_visibility(), number) is None:
            abort(404)
    if not callbacks.record_action(context.app_db, number, current_person().email, action, text):
        abort(404)
    audit_action(f"call-back {action}", f"item {number}")
    # Other open pages get this from the change log, which is part of the mirror.
    context.mirror_db.write(lambda tx: tx.announce("callback", number, {"done": action}))
    if request.form.get("state") == "closed":
        parameters = {"state": "closed", **parameters}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return redirect(f"/missed{query}", 303)
