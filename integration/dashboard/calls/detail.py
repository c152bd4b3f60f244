"""Call: everything about one call; and the routes of its audio."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Literal

from flask import Blueprint, abort, redirect, request, send_file
from werkzeug.wrappers import Response

from integration.access import audit
from integration.context import this_house
from integration.core.errors import PlatformError, PlatformRefused
from integration.dashboard.calls import actions, timeline
from integration.dashboard.site import form_responses as replies
from integration.dashboard.site import layout as shell
from integration.dashboard.site import write_through as through
from integration.dashboard.site.guard import audited, current_person, needs
from integration.dashboard.site.write_through import Said
from integration.mirror.page_queries import call_detail as one_call
from integration.mirror.page_queries import history, phones, reports
from integration.mirror.sync_state import lookup_queue as lookups
from integration.mirror.sync_state.media_files import Kind
from integration.sqlite.transaction import Transaction
from integration.workspace import callbacks, notes

blueprint = Blueprint("call", __name__)

WRITTEN = {
    "note": "Note kept.",
    "note removed": "Note removed.",
    "label": "Label kept.",
    "label removed": "Label taken off.",
}


def _call(connection: sqlite3.Connection, number: int) -> sqlite3.Row:
    """The call, if there is one and the person may see it; else 404."""
    call = history.find(connection, number)
    only = shell.only_user()
    if call is None or (only is not None and call["user_id"] != only):
        abort(404)
    return call


@blueprint.get("/calls/<int:number>")
def index(number: int) -> str | Response:
    house = this_house()
    with house.mirror.read() as connection:
        call = _call(connection, number)
        if call["id"] != number:
            # An id the call had before its legs were joined: one address per call.
            return redirect(f"/calls/{call['id']}", 302)
        whole = one_call.whole(connection, number)
        currency = reports.currency(connection) if call["charge"] else ""
        unlearnt = not call["cdrs"] and lookups.unlearnt(connection, [leg["leg_id"] for leg in whole.legs])
        acts = actions.acts(connection, call)
        earlier = history.earlier(
            connection,
            call["party_e164"] or call["party"],
            call["started_at"] or "",
            call["id"],
            only_user=shell.only_user(),
        )
    legs = [number, *(leg["leg_id"] for leg in whole.legs)]
    with house.house.read() as connection:
        written = notes.notes_of(connection, legs)
        labels = notes.labels_of(connection, legs)
        waiting = callbacks.open_for(connection, call["party_e164"] or call["party"])
    return shell.page(
        "calls",
        "call.html",
        call=call,
        whole=whole,
        chart=timeline.chart(whole),
        steps=timeline.steps(call, whole),
        raw=timeline.raw(whole),
        earlier=earlier,
        notes=written,
        labels=labels,
        waiting=waiting,
        unlearnt=unlearnt,
        currency=currency,
        acts=acts,
        me=current_person().email,
    )


@blueprint.post("/calls/<int:number>/notes")
@needs("agent")
def note(number: int) -> Response:
    text, me = request.form.get("text", ""), current_person().email
    return _write(number, "note", lambda tx, legs: notes.add_note(tx, legs[0], me, text))


@blueprint.post("/calls/<int:number>/notes/<int:note_id>/remove")
@needs("agent")
def remove_note(number: int, note_id: int) -> Response:
    me = current_person().email
    return _write(number, "note removed", lambda tx, legs: notes.remove_note(tx, legs, note_id, me))


@blueprint.post("/calls/<int:number>/labels")
@needs("agent")
def label(number: int) -> Response:
    """Put a label on the call (`label`) or take one off (`remove`)."""
    off, on, me = request.form.get("remove"), request.form.get("label", ""), current_person().email
    if off:
        answer = _write(number, "label removed", lambda tx, legs: notes.remove_label(tx, legs, off))
    else:
        answer = _write(number, "label", lambda tx, legs: notes.add_label(tx, legs[0], me, on))
    said = _tell_labels(number)
    if said is not None and not said.done and replies.inline():
        return replies.done(f"Label kept here. {said.message}", f"/calls/{number}")
    return answer


def _tell_labels(number: int) -> Said | None:
    """A call that goes on carries its labels on the platform too; one that is over has only ours."""
    house = this_house()
    with house.mirror.read() as connection:
        call = _call(connection, number)
        live = phones.live_legs(connection, call["id"])
        legs = [call["id"], *(leg["leg_id"] for leg in one_call.legs(connection, call["id"]))]
    if not live:
        return None
    with house.house.read() as connection:
        labels = notes.labels_of(connection, legs)
    return through.send("PATCH", f"/calls/{live[0].id}", {"labels": labels}, collection="calls")


def _write(number: int, what: str, work: Callable[[Transaction, list[int]], object]) -> Response:
    """Do `work` with the call's leg ids (its root's, or the lowest, first), and audit it."""
    house, me = this_house(), current_person().email
    with house.mirror.read() as connection:
        call = _call(connection, number)
        rest = [leg["leg_id"] for leg in one_call.whole(connection, call["id"]).legs]
    legs = [call["id"], *(leg for leg in rest if leg != call["id"])]

    def job(tx: Transaction) -> None:
        work(tx, legs)
        audit.record(tx, me, what, f"call {call['id']}")

    try:
        house.house.write(job)
    except ValueError as mistake:
        abort(400, str(mistake))
    return replies.done(WRITTEN[what], f"/calls/{call['id']}#notes")


# --- audio -----------------------------------------------------------------------------------------------


@blueprint.get("/recordings/<int:number>.mp3")
@needs("recordings")
def recording(number: int) -> Response:
    with this_house().mirror.read() as connection:
        there, user = one_call.user_of_recording(connection, number)
    return _play("recording", number, there, user)


@blueprint.get("/voicemail/<int:number>.mp3")
@needs("recordings")
def voicemail(number: int) -> Response:
    with this_house().mirror.read() as connection:
        there, user = one_call.user_of_voicemail(connection, number)
    return _play("voicemail", number, there, user)


@blueprint.get("/calls/<int:number>/<int:record>.<any(trace, pcap):kind>")
@needs("supervisor")
def trace(number: int, record: int, kind: Literal["trace", "pcap"]) -> Response:
    """A CDR's SIP messages as text, or its packets; fetched once and kept."""
    house = this_house()
    with house.mirror.read() as connection:
        call = _call(connection, number)
        if record not in [row["id"] for row in one_call.whole(connection, call["id"]).cdrs]:
            abort(404)
    try:
        path = house.fetch_file(kind, record)
    except PlatformRefused as error:
        abort(404, f"The platform has none: {error}")
    except PlatformError as error:
        abort(503, f"It could not be fetched from the platform: {error}")
    audited(f"read {kind}", str(record))
    return send_file(path, mimetype="application/octet-stream", as_attachment=True, download_name=path.name)


def _play(kind: Kind, number: int, there: bool, user: int | None) -> Response:
    """The file with Range support, fetched first if we don't have it yet. Who listened is kept."""
    house, only = this_house(), shell.only_user()
    if not there or (only is not None and user != only):
        abort(404)
    try:
        path = house.fetch_file(kind, number)
    except PlatformRefused:
        abort(404)
    except PlatformError as error:
        abort(503, f"The file could not be fetched from the platform: {error}")
    if request.range is None or request.range.ranges[0][0] == 0:
        # A player asks for many ranges; the first of them is the listening.
        audited(f"listened to {kind}", str(number))
    return send_file(path, mimetype="audio/mpeg", conditional=True, download_name=f"{kind}-{number}.mp3")
