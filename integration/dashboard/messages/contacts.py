"""Contacts: list, form, and a timeline of calls, messages, faxes and notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, request
from werkzeug.wrappers import Response

from integration import catalogue
from integration.access.visibility import Visibility
from integration.context import app_context
from integration.dashboard.site import confirmation, edit_versions, form_responses, formats, layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import call_detail, contacts, faxes, messages, platform_notes
from integration.sync.writing.write_through import WriteResult
from integration.workspace import callbacks, notes

blueprint = Blueprint("contacts", __name__)

PAGE_SIZE = 50
TIMELINE_PAGE_SIZE = 60
"""Calls, messages and faxes on one page of a timeline."""
READ_SECONDS = 5.0
"""Seconds after which the queries of a page are cancelled."""

FORM_FIELDS = (
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
"""Fields of the platform's contact that the form has, in its order."""
PROSE_FIELDS = frozenset({"notes"})
"""Fields of several lines."""

_CHANGE = catalogue.match("PATCH", "/contacts/1")
assert _CHANGE is not None
assert {name for name, _ in FORM_FIELDS} <= {field.name for field in _CHANGE[0].body or ()}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Entry of a timeline.

    `kind` is 'call', 'message', 'fax' or 'note'; `row` is its database row.
    """

    occurred_at: str
    kind: str
    row: Any


@blueprint.get("/contacts")
def index() -> str:
    search_text = request.args.get("find", "")[:200]
    with app_context().mirror_db.read(seconds=READ_SECONDS) as connection:
        page = contacts.fetch_page(
            connection,
            search_text,
            user_scope=layout.get_visibility().user_scope,
            cursor=request.args.get("after"),
            size=PAGE_SIZE,
        )
    query = {"find": search_text} if search_text else {}
    return layout.render_page(
        "contacts",
        "contacts.html",
        rows=page.rows,
        find=search_text,
        more="/contacts?" + urlencode({**query, "after": page.next}) if page.next else None,
        NUMBERS=contacts.NUMBER_FIELDS,
    )


@blueprint.get("/contacts/<int:number>")
def show(number: int) -> str:
    return _render_page(*_load_contact(number))


@blueprint.get("/contacts/of/<digits>")
def show_number(digits: str) -> str | Response:
    """Show the contact with this number, or a timeline without a contact."""
    phone_numbers = app_context().phone_numbers
    e164 = phone_numbers.to_e164(phone_numbers.restore_contact(messages.normalize_digits(digits)))
    if e164 is None:
        abort(404)
    with app_context().mirror_db.read() as connection:
        contact = contacts.find_by_number(connection, e164)
        if (
            contact is not None
            and contacts.find(connection, contact["id"], layout.get_visibility().user_scope) is not None
        ):
            return redirect(f"/contacts/{contact['id']}", 302)
    return _render_page(None, [e164])


@blueprint.get("/contacts/new")
@requires("agent")
def new() -> str:
    return _render_page(None, [])


@blueprint.post("/contacts")
@requires("agent")
def create() -> Response | tuple[str, int]:
    body = {name: value for name, value in _form_values().items() if value}
    if refusal := _find_excess(body):
        return _respond_refused(refusal, None)
    result = form_responses.send_write("POST", "/contacts", body, once=True)
    if not result.is_done:
        return _respond_refused(result, None)
    new_id = result.record.values.get("id") if result.record else None
    return form_responses.respond_done(
        "Contact added.", f"/contacts/{new_id}" if isinstance(new_id, int) else "/contacts"
    )


@blueprint.post("/contacts/<int:number>")
@requires("agent")
def change(number: int) -> Response | tuple[str, int]:
    """Change a contact.

    Only fields that the user changed are sent, so that the others are not overwritten. If another user has
    changed one of them since the form was shown, nothing is sent.
    """
    contact, _ = _load_contact(number)
    form_values = _form_values()
    edit = edit_versions.compare(form_values, _stored_values(contact))
    if edit.conflicts:
        shown_values = _display_values(contact)
        result = edit_versions.make_refusal({name: shown_values[name] for name in sorted(edit.conflicts)})
        return _respond_refused(result, number, edit.changed)
    if edit.changed:
        body = {name: value for name, value in form_values.items() if name in edit.changed}
        if refusal := _find_excess(body):
            return _respond_refused(refusal, number, edit.changed)
        result = form_responses.send_write("PATCH", f"/contacts/{number}", body)
        if not result.is_done:
            return _respond_refused(result, number, edit.changed)
    return form_responses.respond_done("Contact changed.", f"/contacts/{number}")


@blueprint.post("/contacts/<int:number>/delete")
@requires("agent")
def delete(number: int) -> Response:
    contact, _ = _load_contact(number)
    if not confirmation.is_name_typed(contact["name"]):
        return form_responses.refuse(400, f"Not deleted: type “{contact['name']}” to confirm.")
    result = form_responses.send_write("DELETE", f"/contacts/{number}")
    return form_responses.respond(result, f"{contact['name']} deleted.", "/contacts")


def _form_values() -> dict[str, str]:
    """Return the fields of the form.

    Valid telephone numbers are converted to the platform's form.
    """
    return {
        name: _normalize_value(name, request.form[name]) for name, _ in FORM_FIELDS if name in request.form
    }


def _find_excess(body: dict[str, str]) -> WriteResult | None:
    """Return the refusal of values that are too long, or None."""
    labels = dict(FORM_FIELDS)
    messages_by_field = {
        name: message
        for name, value in body.items()
        if (message := edit_versions.describe_excess(labels[name], value, has_lines=name in PROSE_FIELDS))
    }
    if not messages_by_field:
        return None
    return WriteResult(400, "Not saved: " + " ".join(messages_by_field.values()), messages_by_field)


def _normalize_value(name: str, value: object) -> str:
    text = edit_versions.normalize_text(str(value or ""), has_lines=name in PROSE_FIELDS)
    return app_context().phone_numbers.to_platform_form(text) if name in contacts.NUMBER_FIELDS else text


def _stored_values(contact: sqlite3.Row) -> dict[str, str]:
    """Return the values of a contact in the form of `_form_values`."""
    return {name: _normalize_value(name, contact[name]) for name, _ in FORM_FIELDS}


def _display_values(contact: sqlite3.Row | None) -> dict[str, str]:
    """Return the values that the form shows; numbers in national form."""
    values = {name: str((contact[name] if contact else "") or "") for name, _ in FORM_FIELDS}
    return values | {
        name: formats.national(values[name]) for name in contacts.NUMBER_FIELDS if values.get(name)
    }


def _respond_refused(
    result: WriteResult, number: int | None, changed: Collection[str] = tuple(dict(FORM_FIELDS))
) -> Response | tuple[str, int]:
    """Respond with the reason. The form keeps the entries of `changed` fields."""
    if form_responses.is_script_request():
        return form_responses.respond_refused(result)
    status = result.status or 502
    contact, numbers = (None, []) if number is None else _load_contact(number)
    return _render_page(contact, numbers, result, changed), status


def _load_contact(number: int) -> tuple[sqlite3.Row, list[str]]:
    """Return a contact and its numbers.

    Aborts with 404 if the contact does not exist or is not visible.
    """
    with app_context().mirror_db.read() as connection:
        contact = contacts.find(connection, number, layout.get_visibility().user_scope)
        if contact is None:
            abort(404)
        return contact, contacts.list_numbers(connection, number)


def _render_page(
    contact: sqlite3.Row | None,
    numbers: list[str],
    result: WriteResult | None = None,
    changed: Collection[str] = (),
) -> str:
    before_text = request.args.get("before") or None
    entries, more = _read_timeline(numbers, before_text) if numbers else ([], None)
    context = app_context()
    viewer = layout.get_visibility()
    with context.app_db.read() as connection, context.mirror_db.read(seconds=READ_SECONDS) as mirror:
        summary = contacts.summarize_calls(mirror, numbers, viewer.user_scope) if numbers else None
        open_callbacks = [
            callback
            for number in numbers
            if (callback := callbacks.find_visible_open(connection, mirror, viewer, number))
        ]
    values = _display_values(contact)
    if contact is None and numbers:
        values["tel"] = numbers[0]
    if result is not None:
        values |= {name: request.form.get(name, "") for name in changed}
    return layout.render_page(
        "contacts",
        "contact.html",
        contact=contact,
        numbers=numbers,
        days=formats.group_by_day(entries, lambda entry: entry.occurred_at),
        more=more,
        summary=_describe_calls(summary, viewer) if summary and summary.calls else "",
        waiting=open_callbacks,
        values=values,
        version=edit_versions.make_version(_stored_values(contact)) if contact else "",
        result=result,
        FORM=FORM_FIELDS,
        PROSE=PROSE_FIELDS,
        NUMBERS=contacts.NUMBER_FIELDS,
    )


def _describe_calls(summary: contacts.CallSummary, viewer: Visibility) -> str:
    """Return the calls in words: '84 calls, mostly with Ann Example, last today'."""
    limit = contacts.MAX_COUNTED_CALLS
    is_limited = summary.calls > limit
    number = f"more than {formats.thousands(limit)}" if is_limited else formats.thousands(summary.calls)
    words = [f"{number} {'call' if summary.calls == 1 else 'calls'}"]
    if viewer.user_scope is not None:
        words[0] += " with you"
    elif summary.user_name:
        if summary.user_calls == summary.calls:
            how = "all " if summary.calls > 1 else ""
        else:
            how = "mostly " if 2 * summary.user_calls > summary.calls_with_users else "most often "
        words.append(f"{how}with {summary.user_name}")
    if summary.last_at:
        day = formats.day_of(summary.last_at)
        words.append(f"last {day.lower() if day in ('Today', 'Yesterday') else f'on {day}'}")
    return ", ".join(words) + "."


def _read_timeline(numbers: list[str], before: str | None) -> tuple[list[TimelineEntry], str | None]:
    """Return a page of the timeline and `before` of the next.

    Entries are newest first. `before` is UTC text, None after the last page. A note is on the page of its
    call, because it may be written long after the call.
    """
    context, user_scope = app_context(), layout.get_visibility().user_scope
    with context.mirror_db.read(seconds=READ_SECONDS) as mirror_connection:
        calls = contacts.list_calls(
            mirror_connection, numbers, before=before, user_scope=user_scope, limit=TIMELINE_PAGE_SIZE + 1
        )
        sms_rows, fax_rows = [], []
        if user_scope is None:
            contact_keys = messages.list_contact_keys(numbers, context.phone_numbers)
            fax_rows = faxes.list_with_contacts(
                mirror_connection, contact_keys, before, TIMELINE_PAGE_SIZE + 1
            )
            sms_rows = messages.list_messages(
                mirror_connection,
                *contact_keys,
                cursor=f"{before}~" if before else None,
                size=TIMELINE_PAGE_SIZE + 1,
            ).rows
        entries = [TimelineEntry(call["started_at"] or "", "call", call) for call in calls]
        entries += [TimelineEntry(sms_row["at"], "message", sms_row) for sms_row in sms_rows]
        entries += [TimelineEntry(fax["at"] or "", "fax", fax) for fax in fax_rows]
        entries.sort(key=lambda entry: entry.occurred_at, reverse=True)
        next_before = None
        if len(entries) > TIMELINE_PAGE_SIZE:
            # The next page has entries before `next_before`. A second that may have unread entries is left
            # to it.
            following_at = entries[TIMELINE_PAGE_SIZE].occurred_at
            later_entries = [entry for entry in entries if entry.occurred_at > following_at]
            entries = later_entries or entries[:TIMELINE_PAGE_SIZE]
            next_before = entries[-1].occurred_at or None
        call_id_by_leg = call_detail.map_legs_to_calls(
            mirror_connection, [entry.row["id"] for entry in entries if entry.kind == "call"]
        )
        remote_notes = platform_notes.list_notes(mirror_connection, list(call_id_by_leg))
    if call_id_by_leg:
        with context.app_db.read() as app_connection:
            entries += [
                TimelineEntry(note["at"], "note", {**dict(note), "call_id": call_id_by_leg[note["leg_id"]]})
                for note in notes.list_notes(app_connection, list(call_id_by_leg))
            ]
    entries += [
        TimelineEntry(
            note.at,
            "note",
            {"text": note.text, "person": note.author, "call_id": call_id_by_leg[note.leg_id]},
        )
        for note in remote_notes
        if note.at
    ]
    entries.sort(key=lambda entry: entry.occurred_at, reverse=True)
    return entries, next_before
