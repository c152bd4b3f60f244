"""Call control through the platform: place, answer, transfer, record, hang up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlencode

from flask import Blueprint, Flask, abort, request
from werkzeug.wrappers import Response

from integration.access.people import Person
from integration.access.rights import has
from integration.context import AppContext, app_context
from integration.core import tokens
from integration.core.ids import parse_id
from integration.dashboard.calls import calls_in_progress, missed
from integration.dashboard.calls.calls_in_progress import CallNotConfirmed
from integration.dashboard.site import form_responses, formats, layout
from integration.dashboard.site.guard import current_person, requires
from integration.dashboard.site.person_names import person_name
from integration.mirror.page_queries import contacts, crm_address, history, live, phones
from integration.mirror.page_queries.phones import LiveLeg, Phone
from integration.sync.writing.write_through import WriteResult
from integration.workspace import person_settings

blueprint = Blueprint("actions", __name__)

RECORDING_MESSAGES = {
    "start": "Recording started.",
    "pause": "Recording paused.",
    "resume": "Recording resumed.",
}
CONFIRMED_OWNER = "confirmed_owner"
"""Form field of a confirmed call: the owner of the caller that the user saw, '' without one."""
CONNECTED_STATES = ("CONNECTED", "ON_HOLD")
CALL_ENDED = WriteResult(409, "This call has ended.")


@dataclass(frozen=True, slots=True)
class CallActions:
    """Actions that the dashboard user may perform on a live call.

    `recording_action` is 'start', 'pause' or 'resume': the action of the button. `people` and
    `transfer_targets` are extensions to which the call can be transferred.
    """

    answerable_leg_id: int | None
    connected_leg_id: int | None
    recording_action: str
    people: list[Any]
    transfer_targets: list[tuple[str, str, str]]


# --- phones and rights ---------------------------------------------------------------------------------


def find_phone(context: AppContext, person: Person) -> Phone | None:
    """Return the phone that rings when `person` places a call.

    The phone is that of the platform user that an administrator assigned, or else of the one with the e-mail
    address of `person`. Supervisors without such a platform user use the phone that they chose last. None if
    there is no phone.
    """
    with context.mirror_db.read() as mirror_connection:
        own_phone = phones.find_own_phone(mirror_connection, person.platform_user_id, person.email)
        if own_phone is not None or not has(person, "supervisor"):
            return own_phone
        with context.app_db.read() as app_connection:
            chosen_id = person_settings.load(app_connection, person.id, "phone")
        return phones.find_phone(mirror_connection, int(chosen_id) if chosen_id else None)


def can_control_call(person: Person, phone: Phone | None, call: sqlite3.Row, legs: Iterable[LiveLeg]) -> bool:
    """Return whether a dashboard user may control a call.

    Supervisors control every call, agents the calls at their phone, viewers none.
    """
    if has(person, "supervisor"):
        return True
    if not has(person, "agent") or phone is None:
        return False
    return call["user_id"] == phone.id or any(leg.user_id == phone.id for leg in legs)


def find_call_actions(connection: sqlite3.Connection, call: sqlite3.Row) -> CallActions | None:
    """Return the current user's actions for this call, or None."""
    if call["state"] == "ended" or not has(current_person(), "agent"):
        return None
    phone = find_phone(app_context(), current_person())
    legs = phones.list_live_legs(connection, call["id"])
    if not legs or not can_control_call(current_person(), phone, call, legs):
        return None
    own_ringing_legs = [
        leg for leg in legs if phone is not None and leg.user_id == phone.id and not leg.is_connected
    ]
    connected_leg = next((leg for leg in legs if leg.state in CONNECTED_STATES), None)
    recording_state = connected_leg.monitor_state if connected_leg else None
    return CallActions(
        answerable_leg_id=own_ringing_legs[0].id
        if own_ringing_legs and call["direction"] == "in" and own_ringing_legs[0].state == "RINGING"
        else None,
        connected_leg_id=connected_leg.id if connected_leg else None,
        recording_action={"A": "pause", "P": "resume"}.get(recording_state or "", "start"),
        people=[
            person
            for person in live.list_user_status(connection, "9999")
            if person.ext and person.id != call["user_id"]
        ]
        if connected_leg
        else [],
        transfer_targets=phones.list_transfer_targets(connection) if connected_leg else [],
    )


def require_call(connection: sqlite3.Connection, number: int) -> sqlite3.Row:
    """Return the call with the id `number`.

    Aborts with 404 if the call does not exist or is outside the user scope.
    """
    call = history.find(connection, number)
    if call is None or not layout.get_visibility().can_see_call(call["user_id"]):
        abort(404)
    return call


def _require_controllable_call(number: int) -> tuple[sqlite3.Row, list[LiveLeg]]:
    """Return the call and its live legs.

    Aborts with 404 if the call is not visible, 403 if the dashboard user may not control it.
    """
    context = app_context()
    phone = find_phone(context, current_person())
    with context.mirror_db.read() as connection:
        call = require_call(connection, number)
        legs = phones.list_live_legs(connection, call["id"])
    if not can_control_call(current_person(), phone, call, legs):
        abort(
            403,
            "You can control calls at your own phone only. Ask a supervisor to control this one.",
        )
    return call, legs


# --- live calls ----------------------------------------------------------------------------------------


@blueprint.post("/calls/<int:number>/hangup")
@requires("agent")
def hang_up(number: int) -> Response:
    """End every leg, connected legs first, until a request fails.

    Legs that have already ended (404) are skipped.
    """
    call, legs = _require_controllable_call(number)
    result = CALL_ENDED
    for leg in legs:
        leg_result = form_responses.send_write("DELETE", f"/calls/{leg.id}")
        if leg_result.status == 404:
            continue
        result = leg_result
        if not leg_result.is_done:
            break
    return _respond(call, result, "Call ended.")


@blueprint.post("/calls/<int:number>/answer")
@requires("agent")
def answer(number: int) -> Response:
    call, legs = _require_controllable_call(number)
    phone = find_phone(app_context(), current_person())
    ringing = [leg for leg in legs if phone and leg.user_id == phone.id and leg.state == "RINGING"]
    result = (
        _send_patch(ringing, {"state": "CONNECTED"})
        if ringing
        else WriteResult(409, "The call no longer rings at your phone.")
    )
    return _respond(call, result, "Answered.")


@blueprint.post("/calls/<int:number>/transfer")
@requires("agent")
def transfer(number: int) -> Response:
    """Transfer the call to a listed extension (`to`) or a `number`."""
    call, legs = _require_controllable_call(number)
    target = app_context().phone_numbers.to_dialable(
        request.form.get("number") or request.form.get("to") or ""
    )
    if not target:
        return form_responses.refuse(400, "Choose a person or enter a number.")
    talking = [leg for leg in legs if leg.state in CONNECTED_STATES]
    result = (
        _send_patch(talking, {"dst": target}, once=True)
        if talking
        else WriteResult(409, "Only an answered call can be transferred.")
    )
    return _respond(call, result, f"Transferred to {_describe_target(target)}.")


@blueprint.post("/calls/<int:number>/record")
@requires("agent")
def record(number: int) -> Response:
    call, legs = _require_controllable_call(number)
    action = request.form.get("state", "")
    if action not in RECORDING_MESSAGES:
        abort(400)
    talking = [leg for leg in legs if leg.state in CONNECTED_STATES]
    result = _send_patch(talking, {"monitor_state": action}) if talking else CALL_ENDED
    return _respond(call, result, RECORDING_MESSAGES[action])


def _describe_target(target: str) -> str:
    """Return the name of an extension with its number, else the number."""
    with app_context().mirror_db.read() as connection:
        people = {user["ext"]: user["name"] for user in history.list_users(connection)}
        groups = {extension: name for _, name, extension in phones.list_transfer_targets(connection)}
    name = people.get(target) or groups.get(target)
    return f"{name} ({target})" if name else formats.national(target)


def _send_patch(legs: list[LiveLeg], changes: dict[str, Any], *, once: bool = False) -> WriteResult:
    return form_responses.send_write("PATCH", f"/calls/{legs[0].id}", changes, once=once)


def _respond(call: sqlite3.Row, result: WriteResult, message: str) -> Response:
    return form_responses.respond(result, message, f"/calls/{call['id']}")


# --- placing a call ------------------------------------------------------------------------------------


@blueprint.get("/dial")
@requires("agent")
def show_dial_form() -> str | Response:
    return _render_dial_form(formats.national(read_phone_link(request.args.get("to", "")[:200])[:40]))


def read_phone_link(text: str) -> str:
    """Return the number of a link such as `tel:+44-7700-900101;ext=12` (RFC 3966) or `callto:07700900101`.

    A browser sends it for *You › Open phone links here*. Text without a scheme is returned as it is. An
    extension is dropped: the platform dials digits only.
    """
    scheme, separator, rest = text.strip().partition(":")
    if not separator or scheme.lower() not in ("tel", "callto"):
        return text
    return unquote(rest).lstrip("/").partition(";")[0].strip()


@blueprint.post("/dial")
@requires("agent")
def dial() -> Response | tuple[str, int]:
    """Place a call (click-to-call).

    The user's own phone rings first, then `to` is dialled. See docs/platform.md#8-call-flow. If `to` was
    missed, the user claims it on the page Missed; `item` is the row whose form sent this.

    While a call with `to` is in progress, or if another user has claimed the caller, the user must confirm.
    """
    context, person = app_context(), current_person()
    to = app_context().phone_numbers.to_dialable(request.form.get("to", ""))
    item_id = request.form.get("item", type=int)
    phone = find_phone(context, person)
    phone_id = request.form.get("phone", type=int)
    if phone_id is not None and has(person, "supervisor"):
        with context.mirror_db.read() as connection:
            phone = phones.find_phone(connection, phone_id)
        if phone is not None:
            person_settings.save(context.app_db, person.id, "phone", str(phone.id))
    if phone is None and has(person, "supervisor"):
        query = {"to": to} if item_id is None else {"to": to, "item": item_id}
        return form_responses.redirect_elsewhere("/dial?" + urlencode(query))
    if phone is None or layout.get_visibility().user_scope not in (None, phone.id):
        return form_responses.refuse(403, "Your account isn’t linked to a phone. Ask an administrator.")
    if not to:
        return _respond_failed(WriteResult(400, "Enter a number.", {"to": "Enter a number."}))
    body = {"to": to, "from": str(phone.id)}
    if request.form.get("caller_id"):
        body["caller_id"] = app_context().phone_numbers.to_dialable(request.form["caller_id"]) or "anonymous"
    owner, confirmed_owner = missed.find_other_owner(context, to), request.form.get(CONFIRMED_OWNER)
    claim = None if owner is None else f"{person_name(owner)} claimed this caller"
    check = calls_in_progress.make_check(to, claim) if confirmed_owner is None else None
    try:
        result = form_responses.send_write("POST", "/calls", body, once=True, check=check)
    except CallNotConfirmed as refusal:
        return _request_confirmation(f"{refusal} Call anyway?", owner)
    if not result.is_done:
        return _respond_failed(result)
    missed.claim_called(context, to, confirmed_owner or "")
    return form_responses.respond_done(
        f"Calling {phone.name}’s phone first, then {formats.national(to)}.",
        "/" if item_id is None else f"/missed#item-{item_id}",
    )


def _request_confirmation(question: str, owner: str | None) -> Response | tuple[str, int]:
    """Request a second click. Scripts get the fields that confirm it, browsers the form with a button."""
    fields = {CONFIRMED_OWNER: owner or ""}
    if form_responses.is_script_request():
        return form_responses.respond_question(question, "Call anyway", fields)
    result = WriteResult(409, question)
    return _render_dial_form(request.form.get("to", "")[:40], result, confirmation=fields), 409


def _respond_failed(result: WriteResult) -> Response | tuple[str, int]:
    """Show the entered values and the error; scripts get JSON."""
    if form_responses.is_script_request():
        return form_responses.respond_refused(result)
    return _render_dial_form(request.form.get("to", "")[:40], result), result.status or 502


def _render_dial_form(
    to: str, result: WriteResult | None = None, confirmation: Mapping[str, str] = MappingProxyType({})
) -> str:
    context, person = app_context(), current_person()
    phone = find_phone(context, person)
    with context.mirror_db.read() as connection:
        contact = contacts.find_by_number(connection, context.phone_numbers.to_e164(to))
        return layout.render_page(
            "dial",
            "dial.html",
            to=to,
            name=contact["name"] if contact else "",
            phone=phone,
            phones=phones.list_phones(connection) if has(person, "supervisor") else [],
            lines=phones.list_caller_id_numbers(connection),
            result=result,
            form=request.form,
            confirmation=confirmation,
            item_id=parse_id(request.values.get("item")),
        )


def register(app: Flask) -> None:
    """Add `new_once()`, a new idempotency key for a form, and the links into a CRM to the templates."""

    def build_crm_link(*arguments: Any, **options: Any) -> str | None:
        return crm_address.build_address(app_context(), *arguments, **options)

    app.jinja_env.globals |= {
        "new_once": partial(tokens.new, 12),
        "crm_link": build_crm_link,
        "crm_link_of_call": lambda call: crm_address.build_address_of_call(app_context(), call),
        "crm_label": lambda: app_context().settings.dashboard.crm_label,
        "has_crm": lambda: app_context().settings.dashboard.crm_url is not None,
    }
