"""Pages of messages: SMS threads by contact, sending of SMS, faxes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.core import clock
from integration.dashboard.site import archived_files, form_responses, formats, layout
from integration.dashboard.site.guard import current_person, requires
from integration.dashboard.site.person_names import person_name
from integration.mirror.page_queries import faxes, history, messages
from integration.sqlite.listing import Page
from integration.sync.writing import write_log
from integration.sync.writing.write_through import WriteResult
from integration.workspace import opt_outs, reads

blueprint = Blueprint("messages", __name__)

THREADS_PER_PAGE = 50
MESSAGES_PER_PAGE = 100
MAX_SENT_SECONDS = 300
"""Largest difference between the times of an SMS in the write log and on the platform, in seconds."""
MAX_SMS_LENGTH = 1600
"""Characters of an SMS, ten parts of 160. A longer text is assumed to be a mistake."""
OPT_OUT_FIELD = "despite_opt_out"
"""Form field of a message to a number that has opted out of texts."""


@blueprint.get("/messages")
def index() -> str:
    """Show threads and one thread.

    Parameters: `with` (digits) opens a thread, `find` searches threads, `before` pages the open thread, else
    the threads, `new` opens the form for a number without a thread.
    """
    return _render_page(messages.normalize_digits(request.args.get("with", "").strip())[:40])


@blueprint.get("/messages/faxes")
def fax_list() -> str:
    """Show the list of faxes. `find` searches numbers and names; `before` pages."""
    _require_full_scope()
    search_text, cursor = request.args.get("find", "").strip()[:200], request.args.get("before")
    with app_context().mirror_db.read(seconds=5.0) as connection:
        page = faxes.fetch_page(
            connection, app_context().phone_numbers, search_text, cursor, THREADS_PER_PAGE
        )
        names = messages.find_contact_names(
            connection, [row["contact"] for row in page.rows], app_context().phone_numbers
        )
    parameters = {"find": search_text} if search_text else {}
    return layout.render_page(
        "messages",
        "faxes.html",
        rows=page.rows,
        names=names,
        find=search_text,
        older="?" + urlencode({**parameters, "before": page.next}) if page.next else None,
        unread=not parameters
        and not cursor
        and layout.FAX_THREAD in layout.find_unread_threads(app_context(), current_person()),
        read_to=page.rows[0]["at"] if page.rows else "",
    )


@blueprint.get("/messages/faxes/<int:number>.pdf")
def fax(number: int) -> Response:
    """Send the PDF of a fax.

    The file is downloaded once and archived.
    """
    _require_full_scope()
    return archived_files.send_archived(
        "fax", number, action="read fax", mimetype="application/pdf", as_attachment=True
    )


def _require_full_scope() -> None:
    if layout.get_visibility().user_scope is not None:
        # A number does not identify the platform user of a thread, so messages require full visibility.
        abort(403, "You can see only your own calls here. Ask a supervisor about messages.")


def _render_page(contact: str, result: WriteResult | None = None) -> str:
    _require_full_scope()
    context, person = app_context(), current_person()
    search_text = request.args.get("find", "")[:200]
    cursor = request.args.get("before")
    with context.mirror_db.read(seconds=5.0) as connection:
        threads = messages.list_threads(
            connection,
            context.phone_numbers,
            search_text=search_text,
            cursor=None if contact else cursor,
            size=THREADS_PER_PAGE,
        )
        thread = (
            messages.list_messages(connection, contact, cursor=cursor, size=MESSAGES_PER_PAGE)
            if contact
            else Page([], None)
        )
        names = messages.find_contact_names(
            connection, [*(row["contact"] for row in threads.rows), contact], context.phone_numbers
        )
        own_numbers, canned_responses = (
            messages.list_sms_numbers(connection),
            messages.list_canned_responses(connection),
        )
        user_names = {user["id"]: user["name"] for user in history.list_users(connection)} if contact else {}
    thread_rows = thread.rows[::-1]
    return layout.render_page(
        "messages",
        "messages.html",
        threads=threads.rows,
        older=threads.next,
        contact=contact,
        can_reply=context.phone_numbers.to_dialable(contact) != "",
        names=names,
        find=search_text,
        days=formats.group_by_day(thread_rows, lambda row: row["at"]),
        earlier=thread.next,
        unread=layout.find_unread_threads(context, person),
        read_to=thread_rows[-1]["at"] if thread_rows else "",
        senders=_find_senders(thread_rows, user_names),
        writing=bool(request.values.get("new")) and not contact,
        lines=own_numbers,
        line=_last_own_number(thread_rows, [messages.normalize_digits(row["e164"]) for row in own_numbers]),
        canned=canned_responses,
        result=result,
        opt_out=_describe_opt_out(context.phone_numbers.restore_contact(contact)) if contact else "",
        OPT_OUT_FIELD=OPT_OUT_FIELD,
    )


def _find_senders(thread_rows: list[sqlite3.Row], user_names: Mapping[int, str]) -> dict[str, str]:
    """Return the names of the users who sent messages, by the keys of the messages.

    The write log has those who sent here: the platform states the owner of the API key for all of them.
    """
    sent_rows = [
        (row, row_at)
        for row in thread_rows
        if row["direction"] == "out" and (row_at := formats.unix(row["at"])) is not None
    ]
    if not sent_rows:
        return {}
    limits = (
        clock.utc_text(sent_rows[0][1] - MAX_SENT_SECONDS),
        clock.utc_text(sent_rows[-1][1] + MAX_SENT_SECONDS),
    )
    with app_context().app_db.read() as connection:
        written = [
            (messages.normalize_digits(entry.to or ""), entry.text, formats.unix(entry.at) or 0, entry.who)
            for entry in write_log.list_sent_messages(connection, *limits)
        ]
    senders: dict[str, str] = {}
    for row, row_at in sent_rows:
        matches = [
            (abs(at - row_at), who)
            for receiver, text, at, who in written
            if (receiver, text) == (row["receiver"], row["text"]) and abs(at - row_at) <= MAX_SENT_SECONDS
        ]
        who = person_name(min(matches)[1]) if matches else user_names.get(row["user_id"])
        senders[row["key"]] = who or ""
    return senders


def _last_own_number(thread_rows: list[sqlite3.Row], own_numbers: list[str]) -> str:
    """Return the thread's last DDI (digits) that can send SMS.

    Returns '' if there is none.
    """
    for row in reversed(thread_rows):
        own_number = row["sender"] if row["direction"] == "out" else row["receiver"]
        if own_number in own_numbers:
            return str(own_number)
    return ""


@blueprint.post("/messages/read")
def read() -> Response:
    """Mark the thread `with` as read by the user up to `to`.

    `to` is UTC text; a time more than a day ahead is reduced to one day ahead.
    """
    contact = messages.normalize_digits(request.form.get("with", ""))[:40]
    moment = clock.parse_utc(request.form.get("to"))
    if not contact or moment is None:
        abort(400)
    read_at = min(clock.utc_text(moment), clock.utc_text(clock.now() + timedelta(days=1)))
    reads.mark_thread_read(app_context().app_db, current_person().id, contact, read_at)
    page = "/messages/faxes" if contact == layout.FAX_THREAD else "/messages?" + urlencode({"with": contact})
    return form_responses.respond_done("Read.", page)


@blueprint.post("/messages")
@requires("agent")
def send() -> Response | tuple[str, int]:
    """Send an SMS `to` a number, `from` a DDI.

    An empty `message` is replaced by the text of the canned response `canned` (an id).
    """
    to = app_context().phone_numbers.to_dialable(request.form.get("to", ""))
    text = request.form.get("message", "").strip()
    with app_context().mirror_db.read() as connection:
        canned_texts = {
            str(number): canned_text for number, _, canned_text in messages.list_canned_responses(connection)
        }
    text = text or canned_texts.get(request.form.get("canned", ""), "")
    mistakes = {}
    if not to:
        mistakes["to"] = "Enter a number."
    if not text:
        mistakes["message"] = "Enter a message or choose a template."
    elif len(text) > MAX_SMS_LENGTH:
        mistakes["message"] = f"A message has at most {MAX_SMS_LENGTH} characters; this one has {len(text)}."
    if mistakes:
        return _respond_failed(WriteResult(400, " ".join(mistakes.values()), mistakes))
    question = _describe_opt_out(to)
    if question and not request.form.get(OPT_OUT_FIELD):
        if form_responses.is_script_request():
            return form_responses.respond_question(question, "Send anyway", {OPT_OUT_FIELD: "1"})
        return _respond_failed(WriteResult(400, question, {OPT_OUT_FIELD: question}))
    body = {"to": to, "message": text}
    if request.form.get("from"):
        body["from"] = messages.normalize_digits(request.form["from"])
    result = form_responses.send_write("POST", "/sms", body, once=True)
    if not result.is_done:
        return _respond_failed(result)
    return form_responses.respond_done(
        f"Sent to {formats.national(to)}.", "/messages?" + urlencode({"with": to})
    )


def _describe_opt_out(number: str) -> str:
    """Return a warning for a number that has opted out of texts, else ''."""
    context = app_context()
    e164 = context.phone_numbers.to_e164(number)
    with context.app_db.read() as connection:
        opt_out = opt_outs.find(connection, context.erasure_gate, e164) if e164 else None
    if opt_out is None:
        return ""
    return f"This number opted out of texts: “{opt_out.word}”, {formats.at_short(opt_out.at)}."


def _respond_failed(result: WriteResult) -> Response | tuple[str, int]:
    if form_responses.is_script_request():
        return form_responses.respond_refused(result)
    contact = "" if request.form.get("new") else messages.normalize_digits(request.form.get("to", ""))[:40]
    return _render_page(contact, result), result.status or 502
