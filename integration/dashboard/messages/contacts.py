"""Contacts: who they are, and everything that was ever exchanged with them on one timeline."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration.catalogue import operations
from integration.context import this_house
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
from integration.mirror.page_queries import call_detail as one_call
from integration.mirror.page_queries import contacts, faxes, messages
from integration.workspace import callbacks, notes

blueprint = Blueprint("contacts", __name__)

PAGE = 50
STEPS = 60
"""Calls and messages of one page of a timeline."""
READ_SECONDS = 5.0

FORM = (
    ("first_name", "First name"),
    ("last_name", "Last name"),
    ("company", "Company"),
    ("email", "E-mail"),
    ("tel", "Telephone"),
    ("tel_1", "Telephone 2"),
    ("mobile", "Mobile"),
    ("mobile_1", "Mobile 2"),
    ("group_name", "Group"),
    ("notes", "Notes"),
)
"""Fields of the platform's contact that staff edit, in the order of the form."""

assert {name for name, _ in FORM} <= {
    field.name
    for operation in operations("settings")
    if (operation.method, operation.path) == ("PATCH", "/contacts/{id}")
    for field in operation.body or ()
}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that passed between us: `kind` 'call', 'message', 'fax' or 'note'; `row` its row."""

    at: str
    kind: str
    row: Any


@blueprint.get("/contacts")
def index() -> str:
    find = request.args.get("find", "")[:200]
    name, tilde, number = request.args.get("after", "").rpartition("~")
    after = (name, int(number)) if tilde and number.isdecimal() and len(number) <= 18 else None
    with this_house().mirror.read(seconds=READ_SECONDS) as connection:
        rows = contacts.page(connection, find, only_user=shell.only_user(), after=after, limit=PAGE + 1)
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    query = {"find": find} if find else {}
    return shell.page(
        "contacts",
        "contacts.html",
        rows=rows[:PAGE],
        find=find,
        more="/contacts?" + urlencode({**query, "after": f"{last['name']}~{last['id']}"}) if last else None,
        NUMBERS=contacts.NUMBERS,
    )


@blueprint.get("/contacts/<int:number>")
def one(number: int) -> str:
    return _card(number)


@blueprint.get("/contacts/of/<digits>")
def of_number(digits: str) -> str | Response:
    """The contact with this number, or what is known of a number that is nobody's."""
    e164 = this_house().numbers.e164(f"+{messages.digits(digits)}")
    if e164 is None:
        abort(404)
    with this_house().mirror.read() as connection:
        contact = contacts.of_number(connection, e164)
        if contact is not None and contacts.find(connection, contact["id"], shell.only_user()) is not None:
            return redirect(f"/contacts/{contact['id']}", 302)
    return _page(None, [e164])


@blueprint.get("/contacts/new")
@needs("agent")
def new() -> str:
    return _page(None, [])


@blueprint.post("/contacts")
@needs("agent")
def create() -> Response | tuple[str, int]:
    body = {name: value for name, value in _entered().items() if value}
    said = through.once(lambda: through.send("POST", "/contacts", body, collection="contacts"))
    if not said.done:
        return _refused(said, None)
    made = said.record.values.get("id") if said.record else None
    return replies.done("Contact made.", f"/contacts/{made}" if isinstance(made, int) else "/contacts")


@blueprint.post("/contacts/<int:number>")
@needs("agent")
def change(number: int) -> Response | tuple[str, int]:
    """Only what was changed is sent, so that nobody's change meanwhile is undone."""
    with this_house().mirror.read() as connection:
        contact = contacts.find(connection, number, shell.only_user())
    if contact is None:
        abort(404)
    entered = _entered()
    body = {name: value for name, value in entered.items() if value != _as_entered(name, contact[name])}
    if body:
        said = through.send("PATCH", f"/contacts/{number}", body, collection="contacts")
        if not said.done:
            return _refused(said, number)
    return replies.done("Contact changed.", f"/contacts/{number}")


@blueprint.post("/contacts/<int:number>/delete")
@needs("agent")
def delete(number: int) -> Response:
    with this_house().mirror.read() as connection:
        contact = contacts.find(connection, number, shell.only_user())
    if contact is None:
        abort(404)
    said = through.send("DELETE", f"/contacts/{number}", collection="contacts")
    if not said.done:
        return replies.refused(said)
    return replies.done(f"{contact['name']} is deleted.", "/contacts")


def _entered() -> dict[str, str]:
    """The form's fields; phone numbers as the platform takes them, where they are readable."""
    return {
        name: _as_entered(name, request.form[name].strip()[:2000]) for name, _ in FORM if name in request.form
    }


def _as_entered(name: str, value: object) -> str:
    text = str(value or "")
    e164 = this_house().numbers.e164(text) if name in contacts.NUMBERS else None
    return e164.removeprefix("+") if e164 else text


def _refused(said: Said, number: int | None) -> Response | tuple[str, int]:
    if replies.inline():
        return replies.refused(said)
    status = said.status or 502
    return (_page(None, [], said) if number is None else _card(number, said)), status


def _card(number: int, said: Said | None = None) -> str:
    with this_house().mirror.read() as connection:
        contact = contacts.find(connection, number, shell.only_user())
        if contact is None:
            abort(404)
        e164 = contacts.numbers_of(connection, number)
    return _page(contact, e164, said)


def _page(contact: sqlite3.Row | None, e164: list[str], said: Said | None = None) -> str:
    before = request.args.get("before") or None
    steps, more = _timeline(e164, before) if e164 else ([], None)
    house = this_house()
    with house.house.read() as connection:
        waiting = [found for one in e164 if (found := callbacks.open_for(connection, one))]
    values = {name: str((contact[name] if contact else "") or "") for name, _ in FORM}
    values |= {name: formats.national(values[name]) for name in contacts.NUMBERS if values.get(name)}
    if contact is None and e164:
        values["tel"] = e164[0]
    if said is not None:
        values |= {name: request.form.get(name, "") for name, _ in FORM}
    return shell.page(
        "contacts",
        "contact.html",
        contact=contact,
        numbers=e164,
        days=_by_day(steps),
        more=more,
        waiting=waiting,
        values=values,
        said=said,
        FORM=FORM,
        me=current_person().email,
    )


def _timeline(e164: list[str], before: str | None) -> tuple[list[Step], str | None]:
    """One page of everything with these numbers, newest first, and where the next begins (UTC text)."""
    house, only = this_house(), shell.only_user()
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        calls = contacts.calls_with(connection, e164, before=before, only_user=only, limit=STEPS + 1)
        texts, faxed = [], []
        if only is None:
            faxed = faxes.with_contacts(connection, [messages.digits(one) for one in e164], before, STEPS + 1)
            place = (before, "") if before else None
            for one in e164:
                texts += messages.thread(connection, messages.digits(one), before=place, limit=STEPS + 1)
        legs = {
            leg: call["id"]
            for call in calls
            for leg in (call["id"], *(row["leg_id"] for row in one_call.legs(connection, call["id"])))
        }
    steps = [Step(call["started_at"] or "", "call", call) for call in calls]
    steps += [Step(text["at"], "message", text) for text in texts]
    steps += [Step(fax["at"] or "", "fax", fax) for fax in faxed]
    steps.sort(key=lambda step: step.at, reverse=True)
    more = None
    if len(steps) > STEPS:
        # The next page begins before `more`: a second that may have more than was read is left to it whole.
        steps = [step for step in steps if step.at > steps[STEPS].at] or steps[:STEPS]
        more = steps[-1].at
    oldest = more or ""
    if legs:
        with house.house.read() as kept:
            steps += [
                Step(note["at"], "note", {**dict(note), "call_id": legs[note["leg_id"]]})
                for note in notes.notes_of(kept, list(legs))
                if note["at"] >= oldest and (before is None or note["at"] < before)
            ]
    steps.sort(key=lambda step: step.at, reverse=True)
    return steps, more


def _by_day(steps: list[Step]) -> list[tuple[str, list[Step]]]:
    days: dict[str, list[Step]] = {}
    for step in steps:
        days.setdefault(formats.day_of(step.at), []).append(step)
    return list(days.items())
