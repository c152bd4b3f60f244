"""Routes below the path of one user, contact, CDR or live call.

The specification's examples show other resources at most of these paths; here the paths return the records
that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context
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
BelongsToPerson = Callable[[Record, Person], bool]

_USER_COLLECTIONS: dict[str, BelongsToPerson] = {
    "contacts": lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
    "cdrs": lambda record, person: bool(record["user_id"] == person.id),
    "chatmsgs": lambda record, person: bool(record["user_id"] == person.id),
    "calls": lambda record, person: str(person.id) in (record["src_id"], record["dst_id"]),
}
_TRACE_FIELDS = ("at", "from", "to", "message")


def add_routes(app: Flask) -> None:
    for name, belongs_to_person in _USER_COLLECTIONS.items():
        app.get(f"/users/<key>/{name}", endpoint=f"user's {name}")(
            _make_user_list_view(name, belongs_to_person)
        )
    _add_user_routes(app)
    _add_call_routes(app)

    @app.get("/contacts/<key>/cdrs")
    def list_contact_cdrs(key: str) -> Response:
        with get_simulator_context().world.lock:
            contact = get_permitted_record("contacts", key)
            numbers = {contact[f"{kind}{n}"] for kind in ("tel", "mobile") for n in ("", "_1", "_2")} - {
                None,
                "",
            }
            cdrs = get_simulator_context().world.collections["cdrs"].list_visible(get_current_user())
            return make_page_response("cdrs", [r for r in cdrs if r["src"] in numbers or r["dst"] in numbers])

    @app.get("/cdrs/<key>/notes")
    def list_cdr_notes(key: str) -> Response:
        with get_simulator_context().world.lock:
            cdr = get_permitted_record("cdrs", key)
            all_notes = get_simulator_context().world.collections["cdrs/notes"].iterate_records()
            return make_page_response("cdrs/notes", [n for n in all_notes if n["cdr_id"] == cdr["id"]])


def _get_user(key: str) -> Person:
    """Return the user of a path.

    Raises ErrorResponse if the current user may not read it.
    """
    record = get_permitted_record("users", key)
    person = get_simulator_context().world.account.find_person(record["id"])
    assert person is not None
    return person


def _make_user_list_view(name: str, belongs_to_person: BelongsToPerson) -> Any:
    def list_records(key: str) -> Response:
        with get_simulator_context().world.lock:
            person = _get_user(key)
            rows = get_simulator_context().world.collections[name].iterate_records()
            return make_page_response(name, [record for record in rows if belongs_to_person(record, person)])

    return list_records


def _add_user_routes(app: Flask) -> None:
    @app.get("/users/<key>/smsthreads/<first>/<second>")
    @app.get("/users/<key>/sms/threads/<first>/<second>", endpoint="sms_threads")
    def list_sms_thread(key: str, first: str, second: str) -> Response:
        """List the SMS of a user between two numbers, oldest first."""
        ends = {first.removeprefix("+"), second.removeprefix("+")}
        with get_simulator_context().world.lock:
            person = _get_user(key)
            rows: Iterable[Record] = get_simulator_context().world.collections["sms"].iterate_records()
            messages = [r for r in rows if r["user_id"] == person.id and {r["from"], r["to"]} == ends]
            return make_page_response(
                "sms", sorted(messages, key=lambda record: (record["created_at"], record["id"]))
            )

    @app.get("/users/<key>/audio")
    def read_audio_settings(key: str) -> Response:
        """Return the user's audio settings: the announcement of the mailbox.

        Fields are invented.
        """
        person = _get_user(key)
        return make_item_response(
            {
                "user_id": person.id,
                "language": "en",
                "vm_announcement_id": person.vm_announcement_id,
                "custom": person.vm_announcement_id is not None,
            },
            path=f"/users/{person.id}/audio",
        )

    @app.delete("/users/<key>/audio")
    def reset_audio(key: str) -> Response:
        with get_simulator_context().world.lock:
            _get_user(key).vm_announcement_id = None
        return make_no_content_response()


def _add_call_routes(app: Flask) -> None:
    @app.get("/calls/<key>/trace")
    def list_trace(key: str) -> Response:
        """List the SIP messages so far as JSON. Fields are invented.

        The response is JSON because only paths with a file extension return files.
        """
        with get_simulator_context().world.lock:
            call = get_permitted_record("calls", key)
        messages = canned.list_sip_messages(call["id"], clock.utc_text(call["start_time"]))
        is_connected = call["connected_at"] is not None
        count = canned.CONNECTED_MESSAGES if is_connected else canned.RINGING_MESSAGES
        records, total = select_page(messages[:count], _TRACE_FIELDS)
        return make_list_response(records, total)

    @app.get("/calls/<key>/monitors")
    def list_monitors(key: str) -> Response:
        """List the recordings of a live or ended call.

        Raises ErrorResponse for an unknown call.
        """
        world = get_simulator_context().world
        with world.lock:
            recordings = [
                r
                for r in world.collections["monitors"].list_visible(get_current_user())
                if str(r["live_id"]) == key
            ]
            if not recordings and not any(
                str(r["live_id"]) == key for r in world.collections["cdrs"].iterate_records()
            ):
                get_permitted_record("calls", key)
            return make_page_response("monitors", recordings)
