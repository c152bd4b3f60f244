"""Pages Recordings and Voicemail: audio, transcripts and the states of archived files."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.dashboard.calls.playback import can_edit_recordings
from integration.dashboard.site import form_responses, layout
from integration.dashboard.site.guard import current_person, requires
from integration.mirror.page_queries import call_detail, media_lists, search_index
from integration.mirror.page_queries.media_lists import AudioKind, MediaFilter
from integration.sync.writing.write_through import WriteResult
from integration.workspace import reads

blueprint = Blueprint("audio", __name__)

STATES = {"have": "Saved", "wanted": "Queued", "failed": "Failed", "gone": "Deleted"}
READ_SECONDS = 5.0
"""Seconds after which a search is cancelled."""
EXCERPT_CONTEXT = 60
"""Characters of a transcript shown before the search match."""


@blueprint.get("/recordings")
@requires("recordings")
def recordings() -> str | Response:
    return _render_list("recording", "/recordings")


@blueprint.get("/voicemail")
@requires("recordings")
def voicemail() -> str | Response:
    return _render_list("voicemail", "/voicemail")


@blueprint.post("/voicemail/<int:number>/heard")
@requires("agent")
def mark_played(number: int) -> Response:
    """Mark a voicemail message as played for all users.

    On the platform it is moved to the folder of played messages, if the mirror shows which folder that is.
    """
    context = app_context()
    with context.mirror_db.read() as connection:
        exists, user_id = call_detail.find_voicemail_user(connection, number)
        folder = media_lists.find_played_folder(connection)
    if not exists or not layout.get_visibility().can_see_call(user_id):
        abort(404)
    email = current_person().email
    context.app_db.write(lambda tx: reads.mark_played(tx, number, email))
    result = WriteResult(None)
    if folder is not None:
        body = [{"id": number, "folder": folder}]
        result = form_responses.send_write("PATCH", "/voicemessages", body)
    message = "Marked as heard." if result.is_done else f"Marked as heard here only. {result.message}".strip()
    return form_responses.respond_done(message, f"/voicemail#voicemail-{number}")


def _render_list(kind: AudioKind, path: str) -> str:
    """Render the list.

    Parameters: `find` searches, `state` is the file's, `new=1` selects unplayed messages, `before` pages.
    """
    search_text = request.args.get("find", "").strip()[:200]
    state = request.args.get("state") if request.args.get("state") in STATES else None
    user_scope = layout.get_visibility().user_scope
    with app_context().app_db.read() as connection:
        played_ids = tuple(reads.list_played_ids(connection))
    media_filter = MediaFilter(search_text, state, request.args.get("new") == "1", played_ids, user_scope)
    if search_text and kind == "recording":
        search_index.index_all_due(app_context().mirror_db)
    with app_context().mirror_db.read(seconds=READ_SECONDS) as connection:
        page = media_lists.fetch_page(connection, kind, media_filter, request.args.get("before"))
        # The counts include files of all users.
        files = media_lists.count_by_state(connection, kind) if user_scope is None else None
    parameters = {"find": search_text, "state": state or "", "new": "1" if media_filter.only_unplayed else ""}

    def url(**changes: str) -> str:
        merged = {name: value for name, value in {**parameters, **changes}.items() if value}
        return path + (f"?{urlencode(merged)}" if merged else "")

    return layout.render_page(
        "voicemail",
        "audio.html",
        kind=kind,
        can_edit_recordings=can_edit_recordings(layout.get_visibility()),
        rows=page.rows,
        older=url(before=page.next) if page.next else None,
        files=files,
        find=search_text,
        state=state,
        new=media_filter.only_unplayed,
        url=url,
        path=path,
        excerpt=excerpt,
        STATES_OF_FILES=STATES,
    )


def excerpt(transcript: object, search_text: str) -> tuple[str, str, str]:
    """Split a transcript into (text before the match, match, rest).

    The text before the match is cut to its last EXCERPT_CONTEXT characters. Without a match, it is the full
    transcript.
    """
    text = str(transcript or "")
    # Not with case-folded texts: "ß" folds to two letters, which shifts all later positions.
    match = re.search(re.escape(search_text), text, re.IGNORECASE) if search_text else None
    if match is None:
        return text, "", ""
    start = max(0, match.start() - EXCERPT_CONTEXT)
    return ("…" if start else "") + text[start : match.start()], match[0], text[match.end() :]
