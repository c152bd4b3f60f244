"""Writes of people at the dashboard: done by the platform first, journaled, never repeated.

The same way as the facade's (interface.md §4): a journal entry, the platform once, the mirror, the entry
finished. What the platform refuses is said in its own words.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import request

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.context import AppContext, app_context
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError
from integration.core.json_records import JsonRecord, read_item
from integration.dashboard.site.guard import current_person
from integration.mirror.records import single_record, write_results
from integration.mirror.sync_state import pending_deletions
from integration.platform_api.budget import INTERACTIVE
from integration.sqlite.errors import STORAGE_FAILURES
from integration.sync.writing import write_log

log = logging.getLogger(__name__)

WRITE_TIMEOUT_SECONDS = 60.0
"""Total for one write; click-to-call takes up to 15 seconds (observed.md §5)."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a write. `status` None: no answer, so that it may have been done. `message` is a
    sentence where it was not; `fields` are the platform's complaints by field; `record` what it made."""

    status: int | None
    message: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    record: JsonRecord | None = None

    @property
    def is_done(self) -> bool:
        # 301 without a Location is the success of PATCH /calls/{id}.
        return self.status is not None and self.status < 400


def send(
    method: str,
    path: str,
    body: dict[str, Any] | list[dict[str, Any]] | None = None,
    *,
    collection: str | None = None,
) -> WriteResult:
    """One write as the person who is logged in. `collection` names the mirrored collection it changes."""
    context, person = app_context(), current_person()
    content = None if body is None else orjson.dumps(body)
    log_entry = write_log.begin(
        context.app_db,
        who=person.email,
        address=request.remote_addr or "",
        method=method,
        path=path,
        body=content,
    )
    requested_at, started = clock.utc_text(), clock.monotonic()
    try:
        response = context.platform.send(
            method,
            path,
            content,
            priority=INTERACTIVE,
            check=False,
            seconds=max(WRITE_TIMEOUT_SECONDS, context.settings.platform.timeout),
        )
    except PlatformError as error:
        _finish(context, log_entry, None, f"no answer: {error}", clock.monotonic() - started)
        return WriteResult(
            None, f"No answer from the platform ({error}). It may have been done: look before you repeat it."
        )
    result = "done" if response.status < 400 else "refused" if response.status < 500 else "failed"
    _finish(context, log_entry, response.status, result, clock.monotonic() - started)
    if response.status >= 400:
        message, fields = parse_errors(response.body, response.status)
        return WriteResult(response.status, message, fields)
    record = _parse_record(response.body)
    if collection is not None:
        try:
            _update_mirror(
                context, method, path, get_resource(collection), body, record, response.status, requested_at
            )
        except (*STORAGE_FAILURES, PlatformError) as error:
            # Done is done, and must not be repeated. The next walk brings it into the mirror.
            log.warning("%s %s was done but not noted in the mirror: %s", method, path, error)
    return WriteResult(response.status, record=record)


def _finish(context: AppContext, entry: int, status: int | None, result: str, seconds: float) -> None:
    """Store the result of a write in the write log. A storage failure is logged, not raised."""
    try:
        write_log.finish(context.app_db, entry, status=status, result=result, seconds=seconds)
    except STORAGE_FAILURES as error:
        # The platform has processed the write: an error page would make the user repeat it.
        log.warning("the write log has no result of entry %d (%s): %s", entry, result, error)


def _update_mirror(
    context: AppContext,
    method: str,
    path: str,
    target: Resource,
    body: object,
    record: JsonRecord | None,
    status: int,
    requested_at: str,
) -> None:
    """Bring the mirror to what the write made. Of many records changed at once the answer shows none: they
    are read again."""
    if method == "DELETE":
        keys = [int(part) for part in path.rpartition("/")[2].split(",")]
        if status == 202:
            context.mirror_db.write(
                lambda tx: pending_deletions.add(tx, target.collection, keys, requested_at)
            )
        else:
            context.mirror_db.write(lambda tx: single_record.mark_missing(tx, target, keys, clock.utc_text()))
    elif isinstance(body, list):
        for entry in body:
            refreshed = context.platform.item(f"/{target.collection}/{entry['id']}", priority=INTERACTIVE)
            write_results.store_written(context.mirror_db, target, refreshed, requested_at)
    elif record is not None:
        write_results.store_written(context.mirror_db, target, record, requested_at)


def send_once(write: Callable[[], WriteResult]) -> WriteResult:
    """`write` unless this form was sent already (a double click, a reload): then what became of the first.

    The form carries `send_once`, a number made with it (`new_form_id`).
    """
    context, email = app_context(), current_person().email
    if not request.form.get("once"):
        return write()
    key = f"form {request.form['once']}"
    earlier = write_log.claim_key(context.app_db, email, key, request.method, request.path, b"")
    if earlier is None:
        outcome = write()
        _settle(context, email, key, outcome)
        return outcome
    if earlier.status is None or not earlier.body:
        return WriteResult(None, "This was sent a moment ago and has no answer yet.")
    stored_result = orjson.loads(earlier.body)
    return WriteResult(earlier.status or None, stored_result["message"], stored_result["fields"])


def _settle(context: AppContext, who: str, key: str, outcome: WriteResult) -> None:
    """Store `outcome` for repeats of the form `key`, or release the key of a refused write.

    A storage failure is logged, not raised: the key stays claimed, so a repeat is not sent.
    """
    try:
        if outcome.status is not None and not outcome.is_done:
            write_log.release_key(context.app_db, who, key)
            return
        body = orjson.dumps({"message": outcome.message, "fields": outcome.fields})
        write_log.store_response(context.app_db, who, key, outcome.status or 0, "application/json", body)
    except STORAGE_FAILURES as error:
        log.warning("the response to a form of %s is not stored for repeats: %s", who, error)


def new_form_id() -> str:
    return secrets.token_urlsafe(12)


def parse_errors(body: bytes, status: int) -> tuple[str, dict[str, str]]:
    """(a sentence, complaint by field) from the platform's error body, in whichever of its shapes: `errors`
    are texts or objects `{code, field, message}` (observed.md §5)."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        return f"The platform failed with status {status}. Try again in a minute.", {}
    fields: dict[str, str] = {}
    messages: list[str] = []
    errors = parsed.get("errors")
    for entry in errors if isinstance(errors, list) else []:
        if isinstance(entry, dict):
            text = str(entry.get("message") or entry.get("code") or "").strip()
            if entry.get("field"):
                fields[str(entry["field"])] = text
                text = f"{entry['field']}: {text}"
        else:
            text = str(entry).strip()
        if text:
            messages.append(text)
    message = str(parsed.get("message") or "").strip() or f"status {status}"
    if messages and messages[0] != message:
        message = f"{message.rstrip('.')}: {'; '.join(messages)}"
    return f"The platform says: {message.rstrip('.')}.", fields


def _parse_record(body: bytes) -> JsonRecord | None:
    """The one record in `{data: {...}}`; None for an empty body or anything else."""
    try:
        parsed = orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("data"), dict):
        return None
    try:
        return read_item(body)
    except PlatformBroken:
        return None
