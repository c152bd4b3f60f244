"""Pages Recordings and Voicemail: audio, transcripts and the states of archived files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.core import clock
from integration.core.calendar_periods import RANGES, Period, describe_days, find_period, find_range_days
from integration.dashboard.calls.playback import can_edit_recordings
from integration.dashboard.site import form_responses, formats, layout
from integration.dashboard.site.guard import current_person, requires
from integration.mirror.page_queries import call_detail, history, media_lists
from integration.mirror.page_queries.call_view import parse_day
from integration.mirror.page_queries.media_lists import WITHOUT_FILE, AudioKind, FileCounts, MediaFilter
from integration.mirror.privacy import retention_rules
from integration.mirror.sync_state.media_files import FILE_STATE_LABELS
from integration.sync.writing.write_through import WriteResult
from integration.workspace import reads

blueprint = Blueprint("audio", __name__)

READ_SECONDS = 5.0
"""Seconds after which a search is cancelled."""
RANGE_NAMES = ("today", "week", "this-month", "last-month", "year", "all")
"""Ranges of days that the lists offer."""
_UNINDEXED = ("line", "min", "max")
"""Filters without an index. Without a period they apply to a year: a million calls take 0.4 s."""
_DAY = timedelta(days=1)


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


@dataclass(frozen=True, slots=True)
class MediaView:
    """Parsed URL of a list. `args` has only valid parameters that are set, except the search.

    `range` is a name of RANGES or 'custom'. `first_day` and `last_day` are None without a limit.
    """

    path: str
    search_text: str
    args: Mapping[str, str]
    range: str
    first_day: date | None
    last_day: date | None

    def url(self, **changes: str | None) -> str:
        """Return the URL of the first page of this view with `changes`. None removes a parameter."""
        merged = {"find": self.search_text, **self.args, **changes}
        parameters = {name: value for name, value in merged.items() if value}
        return self.path + (f"?{urlencode(parameters)}" if parameters else "")

    @property
    def month(self) -> Period | None:
        """The calendar month that the view is limited to, or None."""
        if self.first_day is None or self.last_day is None:
            return None
        month = find_period("month", self.first_day)
        return month if (month.first_day, month.end_day) == (self.first_day, self.last_day + _DAY) else None

    def month_url(self, month: Period) -> str:
        last_day = month.end_day - _DAY
        return self.url(**{"range": None, "from": month.first_day.isoformat(), "to": last_day.isoformat()})


def _parse_view(path: str) -> MediaView:
    """Parse the parameters of the request. Invalid values are dropped, so that old links keep working.

    `find` searches, `state` is the file's, `new=1` selects unplayed messages, `person`, `line`, `range`,
    `from`, `to`, `min` and `max` (seconds) are those of Calls.
    """
    names = ("new", "person", "line", "min", "max")
    args = {name: request.args[name].strip()[:200] for name in names if request.args.get(name, "").strip()}
    for name in ("person", "min", "max"):
        if not re.fullmatch(r"[0-9]{1,12}", args.get(name, "")):
            args.pop(name, None)
    if args.get("new") != "1" or path != "/voicemail":
        args.pop("new", None)
    range_name = default_range = "year" if args.keys() & _UNINDEXED else "all"
    first_day, last_day = (parse_day(request.args.get(name)) for name in ("from", "to"))
    if first_day or last_day:
        range_name = "custom"
        args |= {name: day.isoformat() for name, day in (("from", first_day), ("to", last_day)) if day}
    else:
        if request.args.get("range") in RANGES:
            range_name = request.args["range"]
        first_day, last_day = find_range_days(range_name, formats.today()) or (None, None)
        if range_name != default_range:
            args["range"] = range_name
    state = request.args.get("state")
    # Without a period a search for missing files reads all records.
    if state in FILE_STATE_LABELS or (state == WITHOUT_FILE and range_name != "all"):
        args["state"] = state
    return MediaView(path, request.args.get("find", "").strip()[:200], args, range_name, first_day, last_day)


def _make_filter(view: MediaView, played_ids: tuple[int, ...]) -> MediaFilter:
    zone, args = formats.display_zone(), view.args
    person, shortest, longest = (
        int(args[name]) if name in args else None for name in ("person", "min", "max")
    )
    return MediaFilter(
        text=view.search_text,
        state=args.get("state"),
        only_unplayed="new" in args,
        played_ids=played_ids,
        user_id=person,
        account_number=args.get("line"),
        since=clock.midnight(view.first_day, zone) if view.first_day else None,
        until=clock.midnight(view.last_day + _DAY, zone) if view.last_day else None,
        min_seconds=shortest,
        max_seconds=longest,
        user_scope=layout.get_visibility().user_scope,
    )


def _render_list(kind: AudioKind, path: str) -> str:
    view = _parse_view(path)
    with app_context().app_db.read() as connection:
        media_filter = _make_filter(view, tuple(reads.list_played_ids(connection)))
    with app_context().mirror_db.read(seconds=READ_SECONDS) as connection:
        page = media_lists.fetch_page(connection, kind, media_filter, request.args.get("before"))
        # These counts include files of all users and days.
        is_filtered = bool(view.search_text or view.args.keys() - {"state", "new"})
        files = (
            media_lists.count_by_state(connection, kind)
            if media_filter.user_scope is None and not is_filtered
            else None
        )
        month = view.month
        counts = None
        if month is not None and not view.search_text:
            every_file = replace(media_filter, state=None, only_unplayed=False)
            reasons = (retention_rules.ERASED_REASON, retention_rules.EXPIRED_REASON)
            counts = media_lists.count_files(connection, kind, every_file, reasons)
        users, numbers = history.list_users(connection), history.list_account_numbers(connection)
    return layout.render_page(
        "voicemail",
        "audio.html",
        kind=kind,
        can_edit_recordings=can_edit_recordings(layout.get_visibility()),
        view=view,
        days=formats.group_by_day(page.rows, lambda row: row["at"]),
        older=view.url(before=page.next) if page.next else None,
        is_first=not request.args.get("before"),
        files=files,
        find=view.search_text,
        month=month,
        counts=counts,
        is_limited=bool(view.args.keys() & {"person", *_UNINDEXED}),
        reads=_describe_reads(counts) if counts else "",
        next_month=find_period("month", month.end_day)
        if month and month.end_day <= formats.today()
        else None,
        # With `agents_see = own` an agent sees their own recordings only.
        people=users if media_filter.user_scope is None else [],
        numbers=numbers,
        chips=[(RANGES[name], name, view.range == name) for name in RANGE_NAMES],
        filters=_describe_filters(view, users),
        excerpt=formats.excerpt,
        STATES_OF_FILES=FILE_STATE_LABELS,
        WITHOUT_FILE=WITHOUT_FILE,
    )


def _describe_filters(view: MediaView, users: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the filters that have no chip as (description, URL without the filter)."""
    args = view.args
    names = {str(user["id"]): user["name"] for user in users}
    filters = []
    if "from" in args or "to" in args:
        days = (args.get("from", "the beginning"), args.get("to", "now"))
        label = view.month.label if view.month else " to ".join(days)
        filters.append((label, view.url(**{"from": None, "to": None})))
    for name, describe in (
        ("person", lambda number: names.get(number) or number),
        ("line", formats.national),
        ("min", "at least {} s".format),
        ("max", "at most {} s".format),
    ):
        if name in args:
            filters.append((describe(args[name]), view.url(**{name: None})))
    if args.get("state") == WITHOUT_FILE:
        filters.append(("Without a file", view.url(state=None)))
    return filters


def _describe_reads(counts: FileCounts) -> str:
    """Return when the files were read again after their download, in words."""
    if not counts.files:
        return ""
    first_at, last_at = clock.parse_utc(counts.first_read_at), clock.parse_utc(counts.last_read_at)
    if first_at is None or last_at is None:
        return "not checked since the download"
    zone = formats.display_zone()
    days = describe_days(first_at.astimezone(zone).date(), last_at.astimezone(zone).date())
    if counts.read_files == counts.files:
        return f"all checked again on {days}"
    read_files, files = formats.thousands(counts.read_files), formats.thousands(counts.files)
    return f"{read_files} of {files} files checked again on {days}"
