"""Missed: the work list of callers to call back, one row each."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.context import this_house
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import audited, current_person, needs
from integration.mirror.page_queries import history, live
from integration.workspace import callbacks

blueprint = Blueprint("missed", __name__)

CLOSED_SHOWN = 200
"""Closed items the second tab shows; older ones are found by their caller in the history."""
NOTE_LONGEST = 500


@blueprint.get("/missed")
def index() -> str:
    house = this_house()
    state = "closed" if request.args.get("state") == "closed" else "open"
    mine = request.args.get("mine") == "1"
    me = current_person().email
    with house.house.read() as connection:
        items = callbacks.items(connection, state, limit=CLOSED_SHOWN if state == "closed" else None)
        done = callbacks.item(connection, request.args.get("done", 0, type=int))
    only = shell.only_user()
    with house.mirror.read() as connection:
        calls = {item.id: history.find(connection, item.last_call_id) for item in items if item.last_call_id}
        hushed = live.people_whose_group_misses_are_hidden(connection)
    if only is not None:
        items = [item for item in items if _theirs(calls.get(item.id), only)]
    hidden = len(items)
    if mine:
        items = [item for item in items if item.owner == me]
    return shell.page(
        "missed",
        "missed.html",
        items=items,
        calls=calls,
        state=state,
        mine=mine,
        me=me,
        hidden=hidden - len(items),
        waiting=shell.open_callbacks(house, only),
        hushed=hushed,
        done=done if done and done.state == "closed" else None,
    )


def _theirs(call: Any, only: int) -> bool:
    """A group's miss is everybody's: nobody in particular answered it."""
    return call is not None and call["user_id"] in (only, None)


@blueprint.post("/missed/<int:number>/close")
@needs("agent")
def close(number: int) -> Response:
    me = current_person().email
    note = request.form.get("note", "").strip()[:NOTE_LONGEST] or None
    return _done(number, "close", callbacks.close(this_house().house, number, me, note), {"done": number})


@blueprint.post("/missed/<int:number>/reopen")
@needs("agent")
def reopen(number: int) -> Response:
    return _done(number, "reopen", callbacks.reopen(this_house().house, number, current_person().email))


@blueprint.post("/missed/<int:number>/assign")
@needs("agent")
def assign(number: int) -> Response:
    """Take an item (`owner=me`) or give it back (empty)."""
    me = current_person().email
    owner = me if request.form.get("owner") == "me" else None
    return _done(number, "assign", callbacks.assign(this_house().house, number, owner, me))


@blueprint.post("/missed/<int:number>/note")
@needs("agent")
def note(number: int) -> Response:
    text = request.form.get("note", "").strip()[:NOTE_LONGEST]
    return _done(number, "note", callbacks.note(this_house().house, number, text, current_person().email))


def _done(number: int, action: str, found: object, after: dict[str, Any] | None = None) -> Response:
    if not found:
        abort(404)
    house = this_house()
    audited(f"call-back {action}", f"item {number}")
    # Other pages that are open take it from the stream of changes, which is the mirror's.
    house.mirror.write(lambda tx: tx.announce("callback", number, {"done": action}))
    if request.form.get("state") == "closed":
        after = {"state": "closed", **(after or {})}
    query = f"?{urlencode(after)}" if after else ""
    return redirect(f"/missed{query}", 303)
