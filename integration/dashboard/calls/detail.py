"""Page and drawer of one call; routes of notes, labels, audio, traces and captures."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, render_template, request
from werkzeug.wrappers import Response

from integration.catalogue import get_resource
from integration.context import app_context
from integration.dashboard.calls import actions, labelling, live, playback, timeline
from integration.dashboard.site import archived_files, form_responses, layout
from integration.dashboard.site.guard import current_person, requires
from integration.mirror.page_queries import (
    call_detail,
    contacts,
    history,
    messages,
    phones,
    platform_notes,
    reports,
)
from integration.mirror.sync_state import lookup_queue
from integration.mirror.sync_state.media_files import MediaKind
from integration.sqlite.transaction import Transaction
from integration.workspace import call_labels, callbacks, notes, text_back

blueprint = Blueprint("call", __name__)


@blueprint.get("/calls/<int:number>")
def index(number: int) -> str | Response:
    context = app_context()
    with context.mirror_db.read() as connection:
        call = actions.require_call(connection, number)
        if call["id"] != number:
            # The call had this id before its legs were joined. Redirect, so that each call has one URL.
            return redirect(f"/calls/{call['id']}", 302)
        values = _load_values(connection, call)
        details, playbacks = values["details"], values["playbacks"]
        leg_ids = [leg["leg_id"] for leg in details.legs]
        currency = reports.get_currency(connection) if call["charge"] else ""
        is_cdr_missing = not call["cdrs"] and lookup_queue.has_unresolved(connection, leg_ids)
        remote_notes = platform_notes.list_notes(connection, [number, *leg_ids])
    with context.app_db.read() as connection:
        text_sent_back = text_back.find_call(connection, call["id"])
    return layout.render_page(
        "calls",
        "call.html",
        **values,
        chart=timeline.build_chart(details, playbacks),
        phase_labels=timeline.PHASE_LABELS,
        steps=timeline.build_steps(call, details),
        hang_up=timeline.describe_hang_up(call["ended_by"]) if call["ended_by"] else None,
        raw=timeline.raw_records(details)
        if layout.get_visibility().can_see_raw(get_resource("monitors"))
        else [],
        platform_notes=remote_notes,
        text_sent_back=text_sent_back,
        is_cdr_missing=is_cdr_missing,
        currency=currency,
        me=current_person().email,
    )


@blueprint.get("/calls/<int:number>/beside")
def show_drawer(number: int) -> str:
    """Render the drawer beside a list: call, caller, earlier calls and messages."""
    context, user_scope = app_context(), layout.get_visibility().user_scope
    with context.mirror_db.read() as connection:
        call = actions.require_call(connection, number)
        contact_keys = messages.list_contact_keys(
            [call["party_e164"] or call["party"] or ""], context.phone_numbers
        )
        sms_rows = (
            messages.list_messages(connection, *contact_keys, size=3).rows[::-1]
            if contact_keys and user_scope is None
            else []
        )
        contact = contacts.find_by_number(connection, call["party_e164"])
        if contact is not None and user_scope is not None:
            contact = contacts.find(connection, contact["id"], user_scope)
        return render_template(
            "_beside.html",
            **_load_values(connection, call),
            away=layout.unreachable_since(connection),
            texts=sms_rows,
            pickup_code=_find_pickup_code(connection, call),
            contact=contact,
        )


def _load_values(connection: sqlite3.Connection, call: sqlite3.Row) -> dict[str, Any]:
    """Return the values that the page and the drawer of a call share."""
    context, viewer = app_context(), layout.get_visibility()
    party = call["party_e164"] or call["party"]
    details = call_detail.load_call_detail(connection, call["id"])
    leg_ids = [call["id"], *(leg["leg_id"] for leg in details.legs)]
    with context.app_db.read() as app_connection:
        call_notes = notes.list_notes(app_connection, leg_ids)
        labels = call_labels.load_for_call(connection, app_connection, call["id"], leg_ids)
        known_labels = call_labels.list_known_names(connection, app_connection)
        open_callback = callbacks.find_visible_open(app_connection, connection, viewer, party)
    return {
        "call": call,
        "details": details,
        "playbacks": playback.list_playbacks(details, context.settings.storage.data_dir),
        "can_edit_recordings": playback.can_edit_recordings(viewer),
        "earlier": history.list_earlier_calls(
            connection, party, call["started_at"] or "", call["id"], user_scope=viewer.user_scope
        ),
        "acts": actions.find_call_actions(connection, call),
        "notes": call_notes,
        "labels": labels,
        "known_labels": known_labels,
        "offered_labels": call_labels.list_offered(connection, labels, context.settings.calls.outcomes),
        "waiting": open_callback,
    }


def _find_pickup_code(connection: sqlite3.Connection, call: sqlite3.Row) -> str:
    """Return the code with which the current user can answer a call that rings at another phone, or ''."""
    context, person = app_context(), current_person()
    code = context.settings.calls.pickup_code
    ringing = live.list_ringing_users(connection, call) if code else []
    if not ringing or (phone := actions.find_phone(context, person)) is None or phone.id in ringing:
        return ""
    return code if phones.share_pickup_group(connection, phone.id, ringing) else ""


@blueprint.post("/calls/<int:number>/notes")
@requires("agent")
def note(number: int) -> Response:
    text, email = request.form.get("text", ""), current_person().email
    return _change_notes(
        number, "note", "Note added.", lambda tx, leg_ids: notes.add_note(tx, leg_ids[0], email, text)
    )


@blueprint.post("/calls/<int:number>/notes/<int:note_id>/remove")
@requires("agent")
def remove_note(number: int, note_id: int) -> Response:
    email = current_person().email
    return _change_notes(
        number,
        "note removed",
        "Note removed.",
        lambda tx, leg_ids: notes.remove_note(tx, leg_ids, note_id, email),
    )


@blueprint.post("/calls/<int:number>/labels")
@requires("agent")
def label(number: int) -> Response:
    """Add the label `label` to the call, or remove the label `remove`."""
    removed_label, added_label = request.values.get("remove"), request.form.get("label", "")
    with app_context().mirror_db.read() as connection:
        call_id = actions.require_call(connection, number)["id"]
    try:
        if removed_label:
            message = labelling.remove_label(call_id, removed_label)
        else:
            added_label = notes.normalize_label(added_label)
            message = labelling.add_label(call_id, added_label)
    except ValueError as mistake:
        abort(400, str(mistake))
    _announce_notes(call_id)
    undo = {"action": f"/calls/{call_id}/labels?{urlencode({'remove': added_label})}", "label": "Undo"}
    return form_responses.respond_done(
        message, f"/calls/{call_id}#notes", undo=None if removed_label else undo
    )


def _change_notes(
    number: int, action: str, message: str, change: Callable[[Transaction, list[int]], object]
) -> Response:
    """Apply `change` to the leg ids of the call and audit `action`.

    The first leg id is the id of the call: that of its root leg, or the lowest.
    """
    with app_context().mirror_db.read() as connection:
        call = actions.require_call(connection, number)
    leg_ids = labelling.list_leg_ids(app_context(), call["id"])
    try:
        labelling.write_audited(action, f"call {call['id']}", lambda tx: change(tx, leg_ids))
    except ValueError as mistake:
        abort(400, str(mistake))
    _announce_notes(call["id"])
    return form_responses.respond_done(message, f"/calls/{call['id']}#notes")


def _announce_notes(call_id: int) -> None:
    """Notify open pages of changed notes or labels. They get this from the change log of the mirror."""
    app_context().mirror_db.write(lambda tx: tx.announce("note", call_id) and None)


# --- audio -----------------------------------------------------------------------------------------------


@blueprint.get("/recordings/<int:number>.mp3")
@requires("recordings")
def recording(number: int) -> Response:
    return _send_audio("recording", number, call_detail.find_recording_user)


@blueprint.get("/voicemail/<int:number>.mp3")
@requires("recordings")
def voicemail(number: int) -> Response:
    return _send_audio("voicemail", number, call_detail.find_voicemail_user)


@blueprint.get("/calls/<int:number>/<int:record>.<any(trace, pcap):kind>")
@requires("supervisor")
def trace(number: int, record: int, kind: Literal["trace", "pcap"]) -> Response:
    """Send the SIP trace or the packet capture of a CDR.

    The file is downloaded once and archived.
    """
    context = app_context()
    with context.mirror_db.read() as connection:
        call = actions.require_call(connection, number)
        if record not in [row["id"] for row in call_detail.load_call_detail(connection, call["id"]).cdrs]:
            abort(404)
    return archived_files.send_archived(
        kind, record, action=f"read {kind}", mimetype="application/octet-stream", as_attachment=True
    )


def _send_audio(
    kind: MediaKind, number: int, find_user: Callable[[sqlite3.Connection, int], tuple[bool, int | None]]
) -> Response:
    """Send an audio file if the current user sees its call."""
    with app_context().mirror_db.read() as connection:
        exists, user_id = find_user(connection, number)
    if not exists or not layout.get_visibility().can_see_call(user_id):
        abort(404)
    return archived_files.send_archived(kind, number, action=f"listened to {kind}", mimetype="audio/mpeg")
