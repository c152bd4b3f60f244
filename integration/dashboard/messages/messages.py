"""Messages: SMS by contact, read and sent; faxes."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from itertools import groupby
from urllib.parse import urlencode

from flask import Blueprint, abort, request, send_file
from werkzeug.wrappers import Response

from integration.context import this_house
from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.dashboard.calls.actions import dialled
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
from integration.dashboard.site.guard import audited, current_person, needs
from integration.dashboard.site.write_through import Said
from integration.mirror.page_queries import faxes, messages
from integration.workspace import reads as seen

blueprint = Blueprint("messages", __name__)

THREADS = 50
MESSAGES = 100
LONGEST = 1600
"""Characters: ten parts of 160, beyond which nobody means to send an SMS."""


@blueprint.get("/messages")
def index() -> str:
    """`with` (digits) opens a thread; `find` searches threads; `before` pages either; `new` writes to a
    number without a thread."""
    return _page(messages.digits(request.args.get("with", "").strip())[:40])


@blueprint.get("/messages/faxes")
def fax_list() -> str:
    """`find` searches numbers and names; `before` pages."""
    _for_all_only()
    find, before = request.args.get("find", "").strip()[:200], _place(request.args.get("before", ""))
    with this_house().mirror.read(seconds=5.0) as connection:
        rows = faxes.page(connection, find, before, THREADS + 1)
        names = messages.names(connection, [row["contact"] for row in rows])
    last = rows[THREADS - 1] if len(rows) > THREADS else None
    asked = {"find": find} if find else {}
    return shell.page(
        "messages",
        "faxes.html",
        rows=rows[:THREADS],
        names=names,
        find=find,
        older="?" + urlencode({**asked, "before": f"{last['at']}~{last['id']}"}) if last else None,
        unread=not asked
        and before is None
        and shell.FAXES in shell.unread_threads(this_house(), current_person()),
        read_to=rows[0]["at"] if rows else "",
    )


@blueprint.get("/messages/faxes/<int:number>.pdf")
def fax(number: int) -> Response:
    """The fax itself, fetched once and kept."""
    _for_all_only()
    try:
        path = this_house().fetch_file("fax", number)
    except PlatformRefused:
        abort(404)
    except PlatformError as error:
        abort(503, f"The fax could not be fetched from the platform: {error}")
    audited("read fax", str(number))
    return send_file(path, mimetype="application/pdf", as_attachment=True, download_name=f"fax-{number}.pdf")


def _for_all_only() -> None:
    if shell.only_user() is not None:
        # Whose thread it is can't be told from a number: only those who see everything see messages.
        abort(403, "With “agents see their own calls” messages are shown to supervisors only.")


def _page(contact: str, said: Said | None = None) -> str:
    _for_all_only()
    house, person = this_house(), current_person()
    find = request.args.get("find", "")[:200]
    before = _place(request.args.get("before", ""))
    with house.mirror.read(seconds=5.0) as connection:
        threads = messages.threads(
            connection, search=find, before=None if contact else before, limit=THREADS + 1
        )
        shown = messages.thread(connection, contact, before=before, limit=MESSAGES + 1) if contact else []
        names = messages.names(connection, [*(row["contact"] for row in threads), contact])
        lines, canned = messages.own_numbers(connection), messages.canned(connection)
    more = len(shown) > MESSAGES
    shown = shown[-MESSAGES:]
    last = threads[THREADS - 1] if len(threads) > THREADS else None
    return shell.page(
        "messages",
        "messages.html",
        threads=threads[:THREADS],
        older=f"{last['at']}~{last['contact']}" if last else None,
        contact=contact,
        names=names,
        find=find,
        days=[(day, list(rows)) for day, rows in groupby(shown, key=lambda row: formats.day_of(row["at"]))],
        earlier=f"{shown[0]['at']}~{shown[0]['key']}" if more else None,
        unread=shell.unread_threads(house, person),
        read_to=shown[-1]["at"] if shown else "",
        writing=bool(request.values.get("new")) and not contact,
        lines=lines,
        line=_line(shown, [messages.digits(row["e164"]) for row in lines]),
        canned=canned,
        said=said,
    )


def _line(shown: list[sqlite3.Row], lines: list[str]) -> str:
    """Our number (digits) that the thread last used, as far as it may send."""
    for row in reversed(shown):
        ours = row["sender"] if row["direction"] == "out" else row["receiver"]
        if ours in lines:
            return str(ours)
    return ""


@blueprint.post("/messages/read")
def read() -> Response:
    """The person has read the thread `with` up to `to`."""
    contact = messages.digits(request.form.get("with", ""))[:40]
    moment = clock.parse_stamp(request.form.get("to"))
    if not contact or moment is None:
        abort(400)
    at = min(clock.stamp(moment), clock.stamp(clock.now() + timedelta(days=1)))
    seen.mark(this_house().house, current_person().id, contact, at)
    page = "/messages/faxes" if contact == shell.FAXES else "/messages?" + urlencode({"with": contact})
    return replies.done("Read.", page)


@blueprint.post("/messages")
@needs("agent")
def send() -> Response | tuple[str, int]:
    """An SMS `to` a number, `from` one of ours; `canned` serves where `message` is empty."""
    to = dialled(request.form.get("to", ""))
    text = request.form.get("message", "").strip()
    with this_house().mirror.read() as connection:
        prepared = {str(number): words for number, _, words in messages.canned(connection)}
    text = text or prepared.get(request.form.get("canned", ""), "")
    mistakes = {}
    if not to:
        mistakes["to"] = "Write the number to send to."
    if not text:
        mistakes["message"] = "Write a message, or choose a prepared one."
    elif len(text) > LONGEST:
        mistakes["message"] = f"A message has at most {LONGEST} characters; this one has {len(text)}."
    if mistakes:
        return _failed(Said(400, " ".join(mistakes.values()), mistakes))
    body = {"to": to, "message": text}
    if request.form.get("from"):
        body["from"] = messages.digits(request.form["from"])
    said = through.once(lambda: through.send("POST", "/sms", body, collection="sms"))
    if not said.done:
        return _failed(said)
    return replies.done(f"Sent to {formats.national(to)}.", "/messages?" + urlencode({"with": to}))


def _failed(said: Said) -> Response | tuple[str, int]:
    if replies.inline():
        return replies.refused(said)
    contact = "" if request.form.get("new") else messages.digits(request.form.get("to", ""))[:40]
    return _page(contact, said), said.status or 502


def _place(text: str) -> messages.Place | None:
    at, tilde, key = text.partition("~")
    return (at, key) if tilde else None
