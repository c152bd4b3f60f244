"""Recordings and Voicemail: what was said, to hear and to read, and where its file stands."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.context import this_house
from integration.dashboard.site import form_responses as replies
from integration.dashboard.site import layout as shell
from integration.dashboard.site import write_through as through
from integration.dashboard.site.guard import current_person, needs
from integration.dashboard.site.write_through import Said
from integration.mirror.page_queries import (
    call_detail as one_call,
)
from integration.mirror.page_queries import (
    media_lists as audio,
)
from integration.mirror.page_queries import (
    search_index as search,
)
from integration.mirror.page_queries.media_lists import AudioKind, Place, Wanted
from integration.workspace import heard

blueprint = Blueprint("audio", __name__)

STATES = {"have": "On disk", "wanted": "Waiting", "failed": "Failed", "gone": "Gone"}
READ_SECONDS = 5.0
EITHER_SIDE = 60
"""Characters of a transcript shown before what was searched for."""


@blueprint.get("/recordings")
@needs("recordings")
def recordings() -> str | Response:
    return _list("recording", "/recordings")


@blueprint.get("/voicemail")
@needs("recordings")
def voicemail() -> str | Response:
    return _list("voicemail", "/voicemail")


@blueprint.post("/voicemail/<int:number>/heard")
@needs("agent")
def hear(number: int) -> Response:
    """Heard, for everybody: here, and on the platform where it is known how it keeps heard messages."""
    house, only = this_house(), shell.only_user()
    with house.mirror.read() as connection:
        there, user = one_call.user_of_voicemail(connection, number)
        folder = audio.heard_folder(connection)
    if not there or (only is not None and user != only):
        abort(404)
    me = current_person().email
    house.house.write(lambda tx: heard.mark(tx, number, me))
    said = Said(None)
    if folder is not None:
        body = [{"id": number, "folder": folder}]
        said = through.send("PATCH", "/voicemessages", body, collection="voicemessages")
    message = "Heard." if said.done else f"Heard, as far as Switchroom goes. {said.message}".strip()
    return replies.done(message, f"/voicemail#voicemail-{number}")


def _list(kind: AudioKind, path: str) -> str:
    """`find` searches; `state` is the archive's; `new=1` unheard messages; `before` pages."""
    find = request.args.get("find", "").strip()[:200]
    state = request.args.get("state") if request.args.get("state") in STATES else None
    with this_house().house.read() as connection:
        listened = tuple(heard.ids(connection))
    wanted = Wanted(find, state, request.args.get("new") == "1", listened, shell.only_user())
    if find and kind == "recording":
        search.catch_up(this_house().mirror)
    with this_house().mirror.read(seconds=READ_SECONDS) as connection:
        rows = audio.page(connection, kind, wanted, _place(), audio.PAGE + 1)
        files = audio.states(connection, kind)
    asked = {"find": find, "state": state or "", "new": "1" if wanted.new else ""}

    def url(**changes: str) -> str:
        kept = {name: value for name, value in {**asked, **changes}.items() if value}
        return path + (f"?{urlencode(kept)}" if kept else "")

    last = rows[audio.PAGE - 1] if len(rows) > audio.PAGE else None
    return shell.page(
        "voicemail",
        "audio.html",
        kind=kind,
        rows=rows[: audio.PAGE],
        older=url(before=f"{last['at']}~{last['id']}") if last else None,
        files=files,
        find=find,
        state=state,
        new=wanted.new,
        url=url,
        path=path,
        excerpt=excerpt,
        STATES_OF_FILES=STATES,
    )


def _place() -> Place | None:
    at, tilde, number = request.args.get("before", "").partition("~")
    return (at, int(number)) if tilde and number.isdecimal() and len(number) <= 18 else None


def excerpt(told: object, find: str) -> tuple[str, str, str]:
    """A transcript cut to the place that was searched for: (before it, it, after it)."""
    text = str(told or "")
    # Not by comparing folded texts: "ß" folds to two letters, and every place behind it is another.
    found = re.search(re.escape(find), text, re.IGNORECASE) if find else None
    if found is None:
        return text, "", ""
    begin = max(0, found.start() - EITHER_SIDE)
    return ("…" if begin else "") + text[begin : found.start()], found[0], text[found.end() :]
