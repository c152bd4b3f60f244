"""Page Audit: entries of the audit log, with filter and CSV export."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from integration.access import audit
from integration.access.audit import AuditEntry, AuditFilter
from integration.context import app_context
from integration.core import clock
from integration.core.ids import parse_id
from integration.dashboard.site import formats, layout
from integration.dashboard.site.guard import audit_action, requires
from integration.exports.formats.csv import quote_cell
from integration.mirror.page_queries import call_detail, history
from integration.sqlite.database import Database
from integration.workspace import callbacks

blueprint = Blueprint("audit_log", __name__, url_prefix="/privacy")

PAGE_SIZE = 100
CHUNK_SIZE = 1000
"""Entries that the export holds in memory."""
AUDIO_TABLES = {"listened to recording": "monitors", "listened to voicemail": "voicemessages"}
"""Tables of the records whose ids are the objects of these actions."""
_ITEM = re.compile(r"item (\d{1,18})\b")
"""Object of an action on a call-back item."""
PARAMETERS = {"who": "", "action": "", "q": "contains ", "from": "from ", "to": "to "}
"""Words before the value of each parameter of the filter."""


@blueprint.get("/audit")
@requires("admin")
def index() -> str:
    app_db, audit_filter = app_context().app_db, _parse_filter()
    before = request.args.get("before")
    entries = audit.list_newest(app_db, PAGE_SIZE + 1, parse_id(before), audit_filter)
    parameters = {name: request.args[name] for name in PARAMETERS if request.args.get(name)}
    return layout.render_page(
        "privacy",
        "privacy_audit.html",
        entries=entries[:PAGE_SIZE],
        calls=_find_calls(app_db, app_context().mirror_db, entries),
        older=entries[PAGE_SIZE - 1].id if len(entries) > PAGE_SIZE else None,
        newest=not before,
        parameters=parameters,
        filters=[
            (PARAMETERS[name] + value, _without_filter(parameters, name))
            for name, value in parameters.items()
        ],
        people=audit.list_values(app_db, "who"),
        actions=audit.list_values(app_db, "what"),
    )


@blueprint.get("/audit.csv")
@requires("admin")
def export() -> Response:
    """Download the filtered entries as CSV, newest first. Times are UTC."""
    context, audit_filter = app_context(), _parse_filter()
    audit_action("export", "audit log.csv")
    response = Response(
        _stream_csv(context.app_db, context.mirror_db, audit_filter),
        content_type="text/csv; charset=utf-8",
    )
    response.headers["Content-Disposition"] = f'attachment; filename="audit-log-{clock.utc_text()[:10]}.csv"'
    return response


def _stream_csv(app_db: Database, mirror_db: Database, audit_filter: AuditFilter) -> Iterator[bytes]:
    # Excel reads UTF-8 only with a byte order mark.
    yield "\ufeffId,Time (UTC),Who,Action,Object,Result,Address,Call (UTC),Party,Person\r\n".encode()
    before: int | None = None
    while entries := audit.list_newest(app_db, CHUNK_SIZE, before, audit_filter):
        calls = _find_calls(app_db, mirror_db, entries)
        lines = [
            ",".join((str(entry.id), *map(quote_cell, _make_cells(entry, calls.get(entry.id)))))
            for entry in entries
        ]
        yield ("\r\n".join(lines) + "\r\n").encode()
        before = entries[-1].id


def _make_cells(entry: AuditEntry, call: sqlite3.Row | None) -> tuple[str, ...]:
    cells = (entry.at, entry.who, entry.what, entry.about, entry.result, entry.address)
    if call is None:
        return (*cells, "", "", "")
    party = " ".join(filter(None, (call["party_e164"] or call["party"], call["party_name"])))
    return (*cells, call["started_at"] or "", party, call["user_name"] or "")


def _find_calls(app_db: Database, mirror_db: Database, entries: list[AuditEntry]) -> dict[int, sqlite3.Row]:
    """Return the calls that entries are about, by the ids of the entries.

    The objects of entries are ids, so that an erasure of a number need not change them.
    """
    found: dict[int, sqlite3.Row] = {}
    with mirror_db.read() as connection:
        for action, table in AUDIO_TABLES.items():
            ids = {
                entry.id: record_id
                for entry in entries
                if entry.what == action and (record_id := parse_id(entry.about)) is not None
            }
            calls = call_detail.find_calls_of_audio(connection, table, list(ids.values()))
            found |= {entry_id: calls[ids[entry_id]] for entry_id in ids if ids[entry_id] in calls}
        call_ids = {
            entry.id: call_id
            for entry in entries
            if entry.about.startswith("call ") and (call_id := parse_id(entry.about[5:])) is not None
        }
        call_ids |= _find_calls_of_items(app_db, entries)
        calls = history.find_all(connection, call_ids.values())
        found |= {entry_id: calls[call_id] for entry_id, call_id in call_ids.items() if call_id in calls}
    return found


def _find_calls_of_items(app_db: Database, entries: list[AuditEntry]) -> dict[int, int]:
    """Return the ids of the last calls of call-back items, by the ids of the entries."""
    item_ids = {entry.id: int(match[1]) for entry in entries if (match := _ITEM.match(entry.about))}
    with app_db.read() as connection:
        items = {item_id: callbacks.find_item(connection, item_id) for item_id in set(item_ids.values())}
    return {
        entry_id: item.last_call_id
        for entry_id, item_id in item_ids.items()
        if (item := items[item_id]) is not None
    }


def _without_filter(parameters: dict[str, str], removed: str) -> str:
    """Return the URL of the page without one part of its filter."""
    kept = {name: value for name, value in parameters.items() if name != removed}
    return "/privacy/audit" + (f"?{urlencode(kept)}" if kept else "")


def _parse_filter() -> AuditFilter:
    """Parse the filter.

    Days are those of the display zone; an invalid day is ignored.
    """
    values = request.args
    return AuditFilter(
        who=values.get("who", ""),
        action=values.get("action", ""),
        text=values.get("q", "").strip()[:200],
        since=_start_of_day(values.get("from", ""), 0),
        until=_start_of_day(values.get("to", ""), 1),
    )


def _start_of_day(text: str, added_days: int) -> str:
    try:
        return clock.midnight(date.fromisoformat(text) + timedelta(days=added_days), formats.display_zone())
    except (ValueError, OverflowError):
        return ""
