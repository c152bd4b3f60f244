"""Call-back list of the own API: `GET /api/missed`, and `POST` of an action on an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from integration.access import audit, people
from integration.access.rights import has
from integration.api.requests import ApiRequest, build_value_error
from integration.core.api_responses import ApiError
from integration.mirror.page_queries.history import Cursor
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem
from integration.workspace.callbacks import ItemAction, ItemChanged

Json = dict[str, Any]

LIST_PARAMETERS = ("state", "limit", "next")
ACTIONS: Mapping[str, tuple[ItemAction, tuple[str, ...]]] = {
    "claim": ("assign", ("owner",)),
    "done": ("close", ("owner", "note")),
    "note": ("note", ("owner", "note")),
}
"""Stored action and members of the body, by the last segment of the path."""


def list_items(request: ApiRequest) -> Json:
    """Return a page of call-back items, latest attempt first: `{"data": [item, …], "next": text or null}`.

    An item has the fields of `CallbackItem`. Items whose last call the key does not see are omitted. Raises
    ApiError 400 or 403.
    """
    _check_rights(request)
    request.check_names(LIST_PARAMETERS)
    state = request.choice("state", ("open", "closed")) or "open"
    limit, cursor = request.limit(), request.cursor()
    position = None if cursor is None else (cursor.started_at, cursor.id)
    found: list[CallbackItem] = []
    with request.open_databases() as (mirror, app):
        while len(found) <= limit:
            items = callbacks.list_items(app, state, limit=limit + 1, before=position)
            found += callbacks.select_visible(mirror, request.caller.visibility, items)
            if len(items) <= limit:
                break
            position = (items[-1].last_at, items[-1].id)
    page = found[:limit]
    has_more = len(found) > limit
    return {
        "data": [asdict(item) for item in page],
        "next": str(Cursor(page[-1].last_at, page[-1].id)) if has_more else None,
    }


def change_item(request: ApiRequest, item_id: int, action_name: str, body_text: bytes) -> Json:
    """Apply an action to an item and return it: `{"data": item}`.

    `body_text` is a JSON object: `claim` needs `owner`, the e-mail address of a dashboard user; `done` and
    `note` take `owner` and `note`. Raises ApiError 400, 403, 404, or 409 if another user claimed the item
    or changed its note.
    """
    _check_rights(request)
    request.check_names(())
    if request.key.scope != "write":
        raise ApiError(403, f"The key {request.key.name!r} has the scope read. This needs the scope write.")
    action, members = ACTIONS[action_name]
    body = _parse_body(body_text, members)
    if action_name == "note" and "note" not in body:
        raise build_value_error("note", "Send the text of the note; an empty one removes it.")
    owner = _find_owner(request, body, is_required=action_name == "claim")
    with request.open_databases() as (mirror, app):
        item = callbacks.find_visible(app, mirror, request.caller.visibility, item_id)
    if item is None:
        raise ApiError(404, f"There is no item {item_id} in the call-back list.")
    if item.owner is not None and item.owner != owner and (owner is not None or action_name == "claim"):
        raise ApiError(409, f"{item.owner} claimed this caller.")
    text = (owner or "") if action_name == "claim" else body.get("note", "")
    try:
        callbacks.record_action(
            request.context.app_db,
            item_id,
            owner or request.caller.name,
            action,
            text,
            shown=(item.note if action == "note" else item.owner) or "",
        )
    except ItemChanged as error:
        raise ApiError(409, f"Another user changed this item. It has {error.current!r} now.") from error
    address = request.http_request.remote_addr or ""
    entry = callbacks.describe_action(item_id, action, text)
    audit.record(request.context.app_db, request.caller.name, *entry, address=address)
    callbacks.announce_action(request.context.mirror_db, item_id, action)
    with request.context.app_db.read() as connection:
        changed = callbacks.find_item(connection, item_id)
    return {"data": asdict(changed or item)}


def _check_rights(request: ApiRequest) -> None:
    request.check_right("workspace")
    request.check_collection("cdrs")


def _parse_body(text: bytes, members: tuple[str, ...]) -> dict[str, str]:
    try:
        body = orjson.loads(text or b"{}")
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.")
    for name, value in body.items():
        if name not in members:
            raise build_value_error(name, f"Unknown member of the body. Members are {', '.join(members)}.")
        if not isinstance(value, str) or len(value) > callbacks.MAX_NOTE_LENGTH:
            raise build_value_error(name, f"Send a text of at most {callbacks.MAX_NOTE_LENGTH} characters.")
    return body


def _find_owner(request: ApiRequest, body: Mapping[str, str], *, is_required: bool) -> str | None:
    """Return the e-mail address of the user in whose name the action happens, None without one."""
    email = body.get("owner", "").strip()
    if not email:
        if is_required:
            raise build_value_error("owner", "Send the e-mail address of a dashboard user.")
        return None
    person = people.find(request.context.app_db, email)
    if person is None or not has(person, "agent"):
        raise build_value_error("owner", f"There is no dashboard user {email[:80]!r} who can call back.")
    return person.email
