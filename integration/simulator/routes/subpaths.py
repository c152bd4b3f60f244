"""Routes below the path of one user, contact, CDR or live call.

The specification's examples show other resources at most of these paths; here the paths return the records
that they name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.context import get_current_user, get_world
from integration.simulator.http.responses import (
    make_item_response,
    make_list_response,
    make_no_content_response,
)
from integration.simulator.media import canned
from integration.simulator.records.people import Person
from integration.simulator.routes.reads import make_page_response, select_page
from integration.simulator.routes.record_checks import get_permitted_record

Record = dict[str, Any]
RecordTest = Callable[[Record], bool]


def _has_user(user: Record) -> RecordTest:
    return lambda record: bool(record["user_id"] == user["id"])


def _has_number(contact: Record) -> RecordTest:
    numbers = {contact[f"{kind}{n}"] for kind in ("tel", "mobile") for n in ("", "_1", "_2")} - {None, ""}
    return lambda cdr: cdr["src"] in numbers or cdr["dst"] in numbers


_LISTS: dict[tuple[str, str, str], Callable[[Record], RecordTest]] = {
    ("users", "contacts", "contacts"): lambda user: lambda record: record["user_id"] in (None, user["id"]),
    ("users", "cdrs", "cdrs"): _has_user,
    ("users", "chatmsgs", "chatmsgs"): _has_user,
    ("users", "calls", "calls"): lambda user: (
        lambda call: str(user["id"]) in (call["src_id"], call["dst_id"])
    ),
    ("contacts", "cdrs", "cdrs"): _has_number,
    ("cdrs", "notes", "cdrs/notes"): lambda cdr: lambda note: bool(note["cdr_id"] == cdr["id"]),
}
"""Tests that a record belongs to a parent.

The keys are the collection of the parent, the last part of the path, and the collection of the records.
"""
_TRACE_FIELDS = ("at", "from", "to", "message")


def add_routes(app: Flask) -> None:
    for (parent, segment, name), make_test in _LISTS.items():
        view = _make_list_view(parent, name, make_test)
        app.get(f"/{parent}/<key>/{segment}", endpoint=f"{parent} {segment}")(view)
    _add_user_routes(app)
    _add_call_routes(app)


def _make_list_view(parent: str, name: str, make_test: Callable[[Record], RecordTest]) -> Any:
    def list_records(key: str) -> Response:
        world, user = get_world(), get_current_user()
        with world.lock:
            collection, belongs_to_parent = (
                world.collections[name],
                make_test(get_permitted_record(parent, key)),
            )
            # Notes have no owner. Everybody who can read the CDR can read them.
            return make_page_response(
                name,
                [
                    record
                    for record in collection.iterate_records()
                    if belongs_to_parent(record)
                    and (not collection.owners or collection.can_read(record, user))
                ],
            )

    return list_records


def _get_user(key: str) -> Person:
    """Return the user of a path.

    Raises ErrorResponse if the current user may not read it.
    """
    record = get_permitted_record("users", key)
    person = get_world().find_person(record["id"])
    assert person is not None
    return person


def _add_user_routes(app: Flask) -> None:
    @app.get("/users/<key>/smsthreads/<first>/<second>")
    @app.get("/users/<key>/sms/threads/<first>/<second>", endpoint="sms_threads")
    def list_sms_thread(key: str, first: str, second: str) -> Response:
        """List the SMS of a user between two numbers, oldest first."""
        ends = {first.removeprefix("+"), second.removeprefix("+")}
        with get_world().lock:
            person = _get_user(key)
            rows = get_world().collections["sms"].records.values()
            messages = [r for r in rows if r["user_id"] == person.id and {r["from"], r["to"]} == ends]
            messages.sort(key=lambda record: (record["created_at"], record["id"]))
            return make_page_response("sms", messages)

    @app.get("/users/<key>/audio")
    def read_audio_settings(key: str) -> Response:
        """Return the user's audio settings: the announcement of the mailbox.

        Fields are invented.
        """
        person = _get_user(key)
        announcement_id = person.vm_announcement_id
        settings = {"user_id": person.id, "language": "en", "vm_announcement_id": announcement_id}
        settings["custom"] = announcement_id is not None
        return make_item_response(settings, path=f"/users/{person.id}/audio")

    @app.delete("/users/<key>/audio")
    def reset_audio(key: str) -> Response:
        with get_world().lock:
            _get_user(key).vm_announcement_id = None
        return make_no_content_response()


def _add_call_routes(app: Flask) -> None:
    @app.get("/calls/<key>/trace")
    def list_trace(key: str) -> Response:
        """List the SIP messages so far as JSON. Fields are invented.

        The response is JSON because only paths with a file extension return files.
        """
        with get_world().lock:
            call = get_permitted_record("calls", key)
        messages = canned.list_sip_messages(call["id"], clock.utc_text(call["start_time"]))
        is_connected = call["connected_at"] is not None
        count = canned.CONNECTED_MESSAGES if is_connected else canned.RINGING_MESSAGES
        return make_list_response(*select_page(messages[:count], _TRACE_FIELDS))

    @app.get("/calls/<key>/monitors")
    def list_monitors(key: str) -> Response:
        """List the recordings of a live or ended call.

        Raises ErrorResponse for an unknown call.
        """
        world = get_world()
        with world.lock:
            visible = world.collections["monitors"].list_visible(get_current_user())
            recordings = [record for record in visible if str(record["live_id"]) == key]
            cdrs = world.collections["cdrs"].records.values()
            if not recordings and not any(str(cdr["live_id"]) == key for cdr in cdrs):
                get_permitted_record("calls", key)
            return make_page_response("monitors", recordings)
