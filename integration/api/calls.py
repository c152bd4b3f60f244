"""Calls of the own API: `GET /api/calls` and `GET /api/calls/{id}`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from integration.api.requests import ApiRequest, build_value_error
from integration.core.api_responses import ApiError
from integration.events.payloads import load_calls
from integration.mirror.page_queries import call_detail, changed_calls, history, platform_notes
from integration.mirror.page_queries.call_labels import DIRECTION_LABELS, OUTCOMES
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.records import change_log
from integration.workspace import notes

Json = dict[str, Any]

_FILTERS = ("from", "to", "party", "line", "person", "direction", "outcome", "open")
LIST_PARAMETERS = (*_FILTERS, "limit", "next", "changed_after")
ALL_CHANGES = "0"
"""Value of `changed_after` that lists all calls."""


def list_calls(request: ApiRequest) -> Json:
    """Return a page of calls, newest first: `{"data": [call, …], "next": text or null}`.

    A call has the columns of the view `v_calls` (docs/sql.md) and `labels`. `next` is the parameter of the
    next page. With `changed_after` see `_list_changed`. Raises ApiError 400, 403 or 410.
    """
    request.check_collection("cdrs")
    if "changed_after" in request.http_request.args:
        return _list_changed(request, request.text("changed_after") or "")
    request.check_names(LIST_PARAMETERS)
    limit, cursor = request.limit(), request.cursor()
    call_filter = _parse_filter(request)
    with request.open_databases() as (mirror, app):
        page = history.fetch_page(mirror, call_filter, cursor, size=limit)
        calls = load_calls(mirror, app, [row["id"] for row in page.rows])
    return {"data": calls, "next": None if page.older is None else str(page.older)}


def _list_changed(request: ApiRequest, cursor_text: str) -> Json:
    """Return the calls that changed after a cursor, by their last change.

    An id that is no call any more is `{"id", "merged_into"}`, null if the call was deleted or left the user
    of the key. `next` is the parameter `changed_after` of the next request, also without calls.
    """
    request.check_names(("changed_after", "limit"))
    limit, user_scope = request.limit(), request.caller.visibility.user_scope
    with request.open_databases() as (mirror, app):
        after = 0 if cursor_text == ALL_CHANGES else request.change("changed_after", mirror, cursor_text)
        _, newest = change_log.find_bounds(mirror)
        changed = changed_calls.list_changed(mirror, abs(after), newest, user_scope, limit)
        present_ids = [change.id for change in changed if change.is_present]
        calls = {call["id"]: call for call in load_calls(mirror, app, present_ids)}
        # The number of the newest change would count changes of other users.
        is_complete = len(changed) < limit and user_scope is None
        position = newest if is_complete else changed[-1].change_no if changed else after
        epoch = change_log.get_epoch(mirror)
    return {
        "data": [calls.get(row.id) or {"id": row.id, "merged_into": row.merged_into} for row in changed],
        "next": f"{epoch}-{position}",
    }


def read_call(request: ApiRequest, call_id: int) -> Json:
    """Return a call with its details: `{"data": call, "legs", "events", "recordings", "notes"}`.

    `call_id` may be a former id of the call. `recordings` have a `path` below a base path of the facade if
    the key has the right `recordings` and access to `monitors`. `notes` needs the right `workspace`. Raises
    ApiError 403, or 404 for a call that does not exist or that the key does not see.
    """
    request.check_collection("cdrs")
    request.check_names(())
    with request.open_databases() as (mirror, app):
        row = history.find(mirror, call_id)
        if row is None or not request.caller.visibility.can_see_call(row["user_id"]):
            raise ApiError(404, f"There is no call {call_id}.")
        detail = call_detail.load_call_detail(mirror, row["id"])
        leg_ids = [leg["leg_id"] for leg in detail.legs]
        result: Json = {
            "data": load_calls(mirror, app, [row["id"]])[0],
            "legs": [
                _without(leg, "call_id", "call_started_at")
                for leg in call_detail.load_view_of_legs(mirror, row["id"])
            ],
            "events": [
                {"leg_id": event["leg_id"], "name": event["name"], "at": event["at"]}
                for event in detail.events
            ],
            "recordings": [
                _describe_recording(request, record, detail.files) for record in detail.recordings
            ],
        }
        if request.has_right("workspace"):
            result["notes"] = _list_notes(mirror, app, [row["id"], *leg_ids])
    return result


def _parse_filter(request: ApiRequest) -> CallFilter:
    outcome = request.choice("outcome", OUTCOMES)
    if request.choice("open", ("0", "1")) == "1":
        if outcome is not None:
            raise build_value_error("open", "An open call has no outcome. Send `open` or `outcome`.")
        outcome = "open"
    call_filter = CallFilter(
        since=request.moment("from"),
        until=request.moment("to", is_end=True),
        party=_parse_number(request, "party"),
        account_number=_parse_number(request, "line"),
        user_id=request.identifier("person"),
        direction=request.choice("direction", DIRECTION_LABELS),
        outcome=outcome,
    )
    return replace(call_filter, user_scope=request.caller.visibility.user_scope)


def _parse_number(request: ApiRequest, name: str) -> str | None:
    """Return a number in E.164 if it has such a form, otherwise as it was sent."""
    text = request.text(name)
    return None if text is None else request.context.phone_numbers.to_e164(text) or text


def _describe_recording(
    request: ApiRequest, record: sqlite3.Row, files: Mapping[tuple[str, int], sqlite3.Row]
) -> Json:
    file = files.get(("recording", record["id"]))
    described: Json = {
        "id": record["id"],
        "leg_id": record["live_id"],
        "is_stored": file is not None and file["state"] == "have",
    }
    if request.has_right("recordings") and request.key.can_access("monitors"):
        described["path"] = f"/monitors/{record['id']}.mp3"
    return described


def _list_notes(mirror: sqlite3.Connection, app: sqlite3.Connection, leg_ids: Sequence[int]) -> list[Json]:
    """Return the notes of both sources. `by` is an e-mail address, or a name of the platform."""
    own = [
        {"at": row["at"], "by": row["person"], "text": row["text"]} for row in notes.list_notes(app, leg_ids)
    ]
    of_platform = [
        {"at": note.at, "by": note.author, "text": note.text}
        for note in platform_notes.list_notes(mirror, leg_ids)
    ]
    return sorted([*own, *of_platform], key=lambda note: note["at"] or "")


def _without(row: sqlite3.Row, *names: str) -> Json:
    return {name: row[name] for name in row.keys() if name not in names}  # noqa: SIM118
