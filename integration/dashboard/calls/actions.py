"""What people do to calls: place, answer, pass on, record, hang up. The platform does it, asked from here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Flask, abort, request
from werkzeug.wrappers import Response

from integration.access.people import Person
from integration.context import House, this_house
from integration.dashboard.site import (
    form_responses as replies,
)
from integration.dashboard.site import (
    formats,
)
from integration.dashboard.site import (
    layout as shell,
)
from integration.dashboard.site import (
    write_through as through,
)
from integration.dashboard.site.guard import current_person, needs
from integration.dashboard.site.write_through import Said
from integration.mirror.page_queries import history, live, phones
from integration.mirror.page_queries.phones import LiveLeg, Phone
from integration.workspace import preferred_phones as chosen_phones

blueprint = Blueprint("actions", __name__)

RECORDING = {"start": "Recording begins.", "pause": "Recording is paused.", "resume": "Recording goes on."}
TALKING = ("CONNECTED", "ON_HOLD")


@dataclass(frozen=True, slots=True)
class Acts:
    """What the person may do to a call that goes on. `answer` and `talk` are leg ids; `recorded` is
    'start', 'pause' or 'resume': what the button would do."""

    answer: int | None
    talk: int | None
    recorded: str
    people: list[Any]
    places: list[tuple[str, str, str]]


# --- whose phone ---------------------------------------------------------------------------------------


def phone_of(house: House, person: Person) -> Phone | None:
    """The phone that rings when the person places a call: the user of the platform they are, by what an
    administrator said or by their address; else the one they chose, if they may use another's."""
    with house.mirror.read() as connection:
        own = phones.phone(connection, person.platform_user_id) or phones.phone_by_email(
            connection, person.email
        )
        if own is not None or not person.may("supervisor"):
            return own
        with house.house.read() as kept:
            return phones.phone(connection, chosen_phones.chosen(kept, person.id))


def may_steer(person: Person, phone: Phone | None, call: sqlite3.Row, legs: Iterable[LiveLeg]) -> bool:
    """Supervisors steer every call, agents those at their own phone."""
    if person.may("supervisor"):
        return True
    if not person.may("agent") or phone is None:
        return False
    return call["user_id"] == phone.id or any(leg.user_id == phone.id for leg in legs)


def acts(connection: sqlite3.Connection, call: sqlite3.Row) -> Acts | None:
    """What the person who is logged in may do to this call now; None for nothing."""
    if call["state"] == "ended" or not current_person().may("agent"):
        return None
    phone = phone_of(this_house(), current_person())
    legs = phones.live_legs(connection, call["id"])
    if not legs or not may_steer(current_person(), phone, call, legs):
        return None
    mine = [leg for leg in legs if phone is not None and leg.user_id == phone.id and not leg.connected]
    talk = next((leg for leg in legs if leg.state in TALKING), None)
    letter = talk.recorded if talk else None
    return Acts(
        answer=mine[0].id if mine and call["direction"] == "in" and mine[0].state == "RINGING" else None,
        talk=talk.id if talk else None,
        recorded={"A": "pause", "P": "resume"}.get(letter or "", "start"),
        people=[one for one in live.people_now(connection, "9999") if one.ext] if talk else [],
        places=phones.places(connection) if talk else [],
    )


def _steered(number: int) -> tuple[sqlite3.Row, list[LiveLeg]]:
    """The call and its live legs, if the person may steer it. 403, 404, 409."""
    house, only = this_house(), shell.only_user()
    phone = phone_of(house, current_person())
    with house.mirror.read() as connection:
        call = history.find(connection, number)
        if call is None or (only is not None and call["user_id"] != only):
            abort(404)
        legs = phones.live_legs(connection, call["id"])
    if not may_steer(current_person(), phone, call, legs):
        abort(403, "Agents steer the calls at their own phone; a supervisor may steer every call.")
    return call, legs


# --- calls that go on ----------------------------------------------------------------------------------


@blueprint.post("/calls/<int:number>/hangup")
@needs("agent")
def hang_up(number: int) -> Response:
    """Every leg is ended, the one that talks first; a leg that ended meanwhile is as good."""
    call, legs = _steered(number)
    said = _over()
    for leg in legs:
        answer = through.send("DELETE", f"/calls/{leg.id}")
        if answer.status == 404:
            continue
        said = answer
        if not answer.done:
            break
    return _answer(call, said, "The platform was told to hang up.")


@blueprint.post("/calls/<int:number>/answer")
@needs("agent")
def answer(number: int) -> Response:
    call, legs = _steered(number)
    phone = phone_of(this_house(), current_person())
    ringing = [leg for leg in legs if phone and leg.user_id == phone.id and leg.state == "RINGING"]
    said = _patch(ringing, {"state": "CONNECTED"}) if ringing else _over("It no longer rings at your phone.")
    return _answer(call, said, "Answered.")


@blueprint.post("/calls/<int:number>/transfer")
@needs("agent")
def transfer(number: int) -> Response:
    """To an extension of the list (`to`), or to a number (`number`)."""
    call, legs = _steered(number)
    target = dialled(request.form.get("number") or request.form.get("to") or "")
    if not target:
        return replies.refused(Said(400, "Choose a person or write a number to pass the call on to."))
    talking = [leg for leg in legs if leg.state in TALKING]
    said = (
        through.once(lambda: _patch(talking, {"dst": target}))
        if talking
        else _over("Only a call that talks can be passed on.")
    )
    return _answer(call, said, f"Passed on to {formats.national(target)}.")


@blueprint.post("/calls/<int:number>/record")
@needs("agent")
def record(number: int) -> Response:
    call, legs = _steered(number)
    wanted = request.form.get("state", "")
    if wanted not in RECORDING:
        abort(400)
    talking = [leg for leg in legs if leg.state in TALKING]
    said = _patch(talking, {"monitor_state": wanted}) if talking else _over()
    return _answer(call, said, RECORDING[wanted])


def _patch(legs: list[LiveLeg], change: dict[str, Any]) -> Said:
    return through.send("PATCH", f"/calls/{legs[0].id}", change, collection="calls")


def _over(message: str = "This call has ended.") -> Said:
    return Said(409, message)


def _answer(call: sqlite3.Row, said: Said, message: str) -> Response:
    if not said.done:
        return replies.refused(said)
    return replies.done(message, f"/calls/{call['id']}")


# --- placing a call ------------------------------------------------------------------------------------


@blueprint.get("/dial")
@needs("agent")
def ask() -> str | Response:
    return _ask(request.args.get("to", "")[:40])


@blueprint.post("/dial")
@needs("agent")
def dial() -> Response | tuple[str, int]:
    """Click-to-call: the person's own phone rings first, then `to` is dialled (observed.md §8)."""
    house, person = this_house(), current_person()
    to = dialled(request.form.get("to", ""))
    phone = phone_of(house, person)
    wanted = request.form.get("phone", type=int)
    if wanted is not None and person.may("supervisor"):
        with house.mirror.read() as connection:
            phone = phones.phone(connection, wanted)
        if phone is not None:
            chosen_phones.choose(house.house, person.id, phone.id)
    if phone is None and person.may("supervisor"):
        return replies.elsewhere("/dial?" + urlencode({"to": to}))
    if phone is None or shell.only_user() not in (None, phone.id):
        return replies.refused(
            Said(
                403,
                "No phone of yours is known. An administrator can say which user of the platform you are.",
            )
        )
    if not to:
        return _failed(Said(400, "Write the number to call.", {"to": "Write the number to call."}))
    body = {"to": to, "from": str(phone.id)}
    if request.form.get("caller_id"):
        body["caller_id"] = dialled(request.form["caller_id"]) or "anonymous"
    said = through.once(lambda: through.send("POST", "/calls", body, collection="calls"))
    if not said.done:
        return _failed(said)
    return replies.done(f"{phone.name}’s phone rings, then {formats.national(to)} is called.", "/")


def _failed(said: Said) -> Response | tuple[str, int]:
    """Back to the form with what was entered, unless a script sent it."""
    if replies.inline():
        return replies.refused(said)
    return _ask(request.form.get("to", "")[:40], said), said.status or 502


def _ask(to: str, said: Said | None = None) -> str:
    house, person = this_house(), current_person()
    phone = phone_of(house, person)
    with house.mirror.read() as connection:
        return shell.page(
            "dial",
            "dial.html",
            to=to,
            phone=phone,
            phones=phones.phones(connection) if person.may("supervisor") else [],
            lines=phones.shown_numbers(connection),
            said=said,
            form=request.form,
        )


def dialled(number: str) -> str:
    """A number as the platform takes it: digits without plus (observed.md §5), an extension as it is; ''
    for what can't be dialled. The national way is read in the display country."""
    e164 = this_house().numbers.e164(number.strip())
    digits = (e164 or number).strip().removeprefix("+")
    digits = "".join(c for c in digits if c not in " ()-./")
    return digits if digits.isascii() and digits.isdigit() and len(digits) <= 20 else ""


def register(app: Flask) -> None:
    """Templates get `new_once()`, the number of a form that must not be sent twice."""
    app.jinja_env.globals["new_once"] = through.new_once
