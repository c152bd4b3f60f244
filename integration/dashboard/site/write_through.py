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

from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.context import House, this_house
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformError, StorageError
from integration.core.json_records import Document, read_item
from integration.dashboard.site.guard import current_person
from integration.mirror.records import single_record as records
from integration.mirror.records import write_results as written
from integration.mirror.sync_state import pending_deletions as accepted
from integration.platform_api.budget import PEOPLE
from integration.sync.writing import write_log as journal

log = logging.getLogger(__name__)

SLOW_SECONDS = 60.0
"""Total for one write; click-to-call takes up to 15 seconds (observed.md §5)."""


@dataclass(frozen=True, slots=True)
class Said:
    """What became of a write. `status` None: no answer, so that it may have been done. `message` is a
    sentence where it was not; `fields` are the platform's complaints by field; `record` what it made."""

    status: int | None
    message: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    record: Document | None = None

    @property
    def done(self) -> bool:
        # 301 without a Location is the success of PATCH /calls/{id}.
        return self.status is not None and self.status < 400


def send(
    method: str,
    path: str,
    body: dict[str, Any] | list[dict[str, Any]] | None = None,
    *,
    collection: str | None = None,
) -> Said:
    """One write as the person who is logged in. `collection` names the mirrored collection it changes."""
    house, person = this_house(), current_person()
    content = None if body is None else orjson.dumps(body)
    entry = journal.begin(
        house.house,
        who=person.email,
        address=request.remote_addr or "",
        method=method,
        path=path,
        body=content,
    )
    asked_at, begun = clock.stamp(), clock.monotonic()
    try:
        answer = house.platform.send(
            method,
            path,
            content,
            who=PEOPLE,
            check=False,
            seconds=max(SLOW_SECONDS, house.settings.platform.timeout),
        )
    except PlatformError as error:
        seconds = clock.monotonic() - begun
        journal.finish(house.house, entry, status=None, result=f"no answer: {error}", seconds=seconds)
        return Said(
            None, f"No answer from the platform ({error}). It may have been done: look before you repeat it."
        )
    result = "done" if answer.status < 400 else "refused" if answer.status < 500 else "failed"
    journal.finish(house.house, entry, status=answer.status, result=result, seconds=clock.monotonic() - begun)
    if answer.status >= 400:
        message, fields = complaints(answer.body, answer.status)
        return Said(answer.status, message, fields)
    record = _record(answer.body)
    if collection is not None:
        try:
            _note(house, method, path, resource(collection), body, record, answer.status, asked_at)
        except (StorageError, PlatformError) as error:
            # Done is done, and must not be repeated. The next walk brings it into the mirror.
            log.warning("%s %s was done but not noted in the mirror: %s", method, path, error)
    return Said(answer.status, record=record)


def _note(
    house: House,
    method: str,
    path: str,
    target: Resource,
    body: object,
    record: Document | None,
    status: int,
    asked_at: str,
) -> None:
    """Bring the mirror to what the write made. Of many records changed at once the answer shows none: they
    are read again."""
    if method == "DELETE":
        keys = [int(part) for part in path.rpartition("/")[2].split(",")]
        if status == 202:
            house.mirror.write(lambda tx: accepted.note(tx, target.collection, keys, asked_at))
        else:
            house.mirror.write(lambda tx: records.mark_missing(tx, target, keys, clock.stamp()))
    elif isinstance(body, list):
        for entry in body:
            again = house.platform.item(f"/{target.collection}/{entry['id']}", who=PEOPLE)
            written.keep(house.mirror, target, again, asked_at)
    elif record is not None:
        written.keep(house.mirror, target, record, asked_at)


def once(work: Callable[[], Said]) -> Said:
    """`work` unless this form was sent already (a double click, a reload): then what became of the first.

    The form carries `once`, a number made with it (`new_once`).
    """
    house, who = this_house(), current_person().email
    key = request.form.get("once", "")
    if not key:
        return work()
    first = journal.claim(house.house, who, f"form {key}", request.method, request.path, b"")
    if first is None:
        said = work()
        if said.status is not None and not said.done:
            # Refused: nothing was done, so that the same form may be sent again, mended or not.
            journal.release(house.house, who, f"form {key}")
            return said
        kept = orjson.dumps({"message": said.message, "fields": said.fields})
        journal.settle(house.house, who, f"form {key}", said.status or 0, "application/json", kept)
        return said
    if first.status is None or not first.body:
        return Said(None, "This was sent a moment ago and has no answer yet.")
    kept_said = orjson.loads(first.body)
    return Said(first.status or None, kept_said["message"], kept_said["fields"])


def new_once() -> str:
    return secrets.token_urlsafe(12)


def complaints(body: bytes, status: int) -> tuple[str, dict[str, str]]:
    """(a sentence, complaint by field) from the platform's error body, in whichever of its shapes: `errors`
    are texts or objects `{code, field, message}` (observed.md §5)."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        return f"The platform failed with status {status}. Try again in a minute.", {}
    fields: dict[str, str] = {}
    told: list[str] = []
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
            told.append(text)
    message = str(parsed.get("message") or "").strip() or f"status {status}"
    if told and told[0] != message:
        message = f"{message.rstrip('.')}: {'; '.join(told)}"
    return f"The platform says: {message.rstrip('.')}.", fields


def _record(body: bytes) -> Document | None:
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
