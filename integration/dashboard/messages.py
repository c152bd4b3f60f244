"""Messages: SMS by contact."""

from __future__ import annotations

from itertools import groupby

from flask import Blueprint, abort, request

from integration.context import this_house
from integration.dashboard import formats, shell
from integration.mirror import messages

blueprint = Blueprint("messages", __name__)

THREADS = 50
MESSAGES = 100


@blueprint.get("/messages")
def index() -> str:
    """`with` (digits) opens a thread; `find` searches threads; `before` pages either."""
    if shell.only_user() is not None:
        # Whose thread it is can't be told from a number: only those who see everything see messages.
        abort(403, "With “agents see their own calls” messages are shown to supervisors only.")
    contact = messages.digits(request.args.get("with", "").strip())[:40]
    find = request.args.get("find", "")[:200]
    before = _place(request.args.get("before", ""))
    with this_house().mirror.read(seconds=5.0) as connection:
        threads = messages.threads(
            connection, search=find, before=None if contact else before, limit=THREADS + 1
        )
        shown = messages.thread(connection, contact, before=before, limit=MESSAGES + 1) if contact else []
        names = messages.names(connection, [*(row["contact"] for row in threads), contact])
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
    )


def _place(text: str) -> messages.Place | None:
    at, tilde, key = text.partition("~")
    return (at, key) if tilde else None
