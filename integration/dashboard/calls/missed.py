"""Page Missed: the call-back list, one row per caller."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.context import AppContext, app_context
from integration.dashboard.site import form_responses, formats, layout
from integration.dashboard.site.guard import audit_action, current_person, requires
from integration.mirror.page_queries import callback_calls, history, live
from integration.sync.writing.write_through import WriteResult
from integration.workspace import callbacks, visible_callbacks
from integration.workspace.callback_items import WITHHELD_PREFIX, CallbackItem
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
            attempts = callback_calls.find_last_attempts(
                mirror, {item.party: item.last_at for item in items if item.state == "open"}
            )
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
        attempts=attempts,
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
    item = _record_action(number, "close", request.form.get("note", ""))
    undo = {"action": f"/missed/{number}/reopen", "label": "Undo"}
    return form_responses.respond_done(f"{_name(item)} marked as done.", _list_url(done=number), undo=undo)


@blueprint.post("/missed/<int:number>/reopen")
@requires("agent")
def reopen(number: int) -> Response:
    item = _record_action(number, "reopen")
    return form_responses.respond_done(f"{_name(item)} is back on the list.", _list_url(number))


@blueprint.post("/missed/<int:number>/assign")
@requires("agent")
def assign(number: int) -> Response:
    """Assign an item to the current user (`owner=me`), or to no user.

    `previous` is the owner that the form showed. If another user has claimed the item since, it is not taken
    from them.
    """
    is_claim = request.form.get("owner") == "me"
    owner = _find_item(number).owner or ""
    if is_claim and owner not in (current_person().email, request.form.get("previous", owner)):
        return form_responses.respond_refused(WriteResult(409, f"{owner} claimed this caller first."))
    item = _record_action(number, "assign", current_person().email if is_claim else "")
    message = f"{_name(item)} {'claimed' if is_claim else 'released'}."
    return form_responses.respond_done(message, _list_url(number))


@blueprint.post("/missed/<int:number>/note")
@requires("agent")
def note(number: int) -> Response:
    _record_action(number, "note", request.form.get("note", ""))
    return form_responses.respond_done("Note saved.", _list_url(number))


def claim_called(context: AppContext, number: str) -> None:
    """Assign the open item of a called number to the current user."""
    email, party = current_person().email, formats.tel(number) or number
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        item = visible_callbacks.find_visible_open(connection, mirror, layout.get_visibility(), party)
    if item is not None and item.owner != email:
        _store_action(context, item.id, "assign", email)


def _find_item(number: int) -> CallbackItem:
    """Return an item that the current user sees; abort with 404 otherwise."""
    context = app_context()
    with context.app_db.read() as connection, context.mirror_db.read() as mirror:
        item = visible_callbacks.find_visible(connection, mirror, layout.get_visibility(), number)
    return item or abort(404)


def _record_action(number: int, action: ItemAction, text: str = "") -> CallbackItem:
    item = _find_item(number)
    if not _store_action(app_context(), number, action, text.strip()[:MAX_NOTE_LENGTH]):
        abort(404)
    return item


def _store_action(context: AppContext, number: int, action: ItemAction, text: str) -> bool:
    if not callbacks.record_action(context.app_db, number, current_person().email, action, text):
        return False
    audit_action(f"call-back {action}", f"item {number}")
    # Other open pages get this from the change log, which is part of the mirror.
    context.mirror_db.write(lambda tx: tx.announce("callback", number, {"done": action}))
    return True


def _name(item: CallbackItem) -> str:
    if item.party.startswith(WITHHELD_PREFIX):
        return "Withheld"
    return item.party_name or formats.national(item.party)


def _list_url(number: int | None = None, **parameters: Any) -> str:
    """Return the URL of the form's view, at the row of `number`."""
    if request.form.get("state") == "closed":
        parameters = {"state": "closed", **parameters}
    if request.form.get("mine") == "1":
        parameters = {"mine": "1", **parameters}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"/missed{query}" + (f"#item-{number}" if number is not None else "")
