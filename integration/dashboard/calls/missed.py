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
from integration.workspace import callbacks
from integration.workspace.callbacks import ItemAction

blueprint = Blueprint("missed", __name__)

MAX_CLOSED_SHOWN = 200
"""Closed items that the second tab shows. Calls of older items are found in the history."""
MAX_NOTE_LENGTH = 500
"""Characters of a note."""


@blueprint.get("/missed")
def index() -> str:
    context = app_context()
    state = "closed" if request.args.get("state") == "closed" else "open"
    only_mine = request.args.get("mine") == "1"
    email = current_person().email
    with context.app_db.read() as connection:
        items = callbacks.list_items(connection, state, limit=MAX_CLOSED_SHOWN if state == "closed" else None)
        closed_item = callbacks.find_item(connection, request.args.get("done", 0, type=int))
    user_scope = layout.get_visibility().user_scope
    with context.mirror_db.read() as connection:
        calls = {item.id: history.find(connection, item.last_call_id) for item in items if item.last_call_id}
        hidden_group_misses = live.count_users_without_missed_call_log(connection)
    if user_scope is not None:
        items = [item for item in items if _is_visible_to(calls.get(item.id), user_scope)]
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
        waiting=layout.count_open_callbacks(context, user_scope),
        unrecorded=hidden_group_misses,
        done=closed_item if closed_item and closed_item.state == "closed" else None,
    )


def _is_visible_to(call: Any, user_id: int) -> bool:
    """Return whether the user sees the item with this last call.

    A missed call of a group has no user and is visible to all.
    """
    return call is not None and call["user_id"] in (user_id, None)


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
    if not callbacks.record_action(context.app_db, number, current_person().email, action, text):
        abort(404)
    audit_action(f"call-back {action}", f"item {number}")
    # Other open pages get this from the change log, which is part of the mirror.
    context.mirror_db.write(lambda tx: tx.announce("callback", number, {"done": action}))
    if request.form.get("state") == "closed":
        parameters = {"state": "closed", **parameters}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return redirect(f"/missed{query}", 303)
