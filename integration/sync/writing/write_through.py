"""Write-through: send a write to the platform once, then update the mirror.

1. A repeat with the same idempotency key returns the first response. 2. An entry in the write log is
committed. 3. The platform receives the request. 4. The write log gets the result. 5. The mirror is updated.
No failure after step 3 changes the result: a client that receives an error would repeat a finished write.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from integration.catalogue import COLLECTIONS, get_resource
from integration.catalogue.shapes import Resource
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import DomainError, PlatformError, is_timeout
from integration.core.ids import parse_id
from integration.core.json_records import JsonRecord, find_item, read_page
from integration.core.timestamps import parse_seconds
from integration.mirror.calls import live_table
from integration.mirror.records import item_forms, subresources, write_results
from integration.mirror.records.masking import mask_json
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import get_usable_key, store_item, upsert
from integration.mirror.sync_state import collection_state, pending_deletions
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.budget import INTERACTIVE, Priority
from integration.platform_api.login import Credentials
from integration.platform_api.paging import encode_path
from integration.sqlite.errors import STORAGE_FAILURES
from integration.sqlite.transaction import Transaction
from integration.sync.reading import deletions
from integration.sync.writing import write_log
from integration.sync.writing.deletion_poller import poll_due
from integration.sync.writing.write_log import EarlierRequest

log = logging.getLogger(__name__)

WRITE_TIMEOUT_SECONDS = 60.0
"""Seconds that one write may take, or platform.timeout if that is longer.

Click-to-call takes 15 s, and /leadcalls may delay its response for a minute.
"""

MAX_ITEMS_READ = 10
"""Records of one bulk PATCH that are read by their own paths before its response is sent."""

_JSON = "application/json"
_SECRET_PATH = "/apitokens"
"""Path of API tokens: its ids and responses contain tokens.

Neither is stored.
"""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Write to be sent to the platform.

    `path` is decoded. `query` and `body` are sent unchanged. `who` and `address` are logged.

    `hides_secrets` masks the response. `may_repeat_refused` releases the idempotency key of a refused write,
    so that a corrected form can be sent under the same key. `check(connection)` runs in the transaction that
    stores the entry of the write log; it raises a DomainError to send nothing.
    """

    who: str
    address: str
    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    idempotency_key: str | None = None
    credentials: Credentials | None = None
    hides_secrets: bool = True
    may_repeat_refused: bool = False
    check: Callable[[sqlite3.Connection], None] | None = None
    priority: Priority = INTERACTIVE

    @property
    def target(self) -> str:
        return f"{encode_path(self.path)}?{self.query}"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of a write.

    Without a response `status` is None, and the write may have been done. `message` is a sentence for
    pages if the write failed. `fields` are the platform's messages by field. `record` is the record in the
    response. `problem` is the reason for a missing response. `earlier` is the first request with the same
    idempotency key; the other fields then describe its result.
    """

    status: int | None
    message: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    record: JsonRecord | None = None
    problem: str = ""
    has_timed_out: bool = False
    earlier: EarlierRequest | None = None

    @property
    def is_done(self) -> bool:
        # 301 without a Location is the success of PATCH /calls/{id}.
        return self.status is not None and self.status < 400


def send(context: AppContext, request: WriteRequest) -> WriteResult:
    """Send one write, at most once per idempotency key.

    Raises StorageError, and the DomainError of `request.check`, only if nothing was sent.
    """
    if request.idempotency_key is None:
        return _send_logged(context, request)
    earlier = write_log.claim_key(
        context.app_db, request.who, request.idempotency_key, request.method, request.target, request.body
    )
    if earlier is not None:
        return _make_repeated_result(earlier)
    try:
        result = _send_logged(context, request)
    except (*STORAGE_FAILURES, DomainError):
        # No request was sent, so the key can be reused.
        write_log.release_key(context.app_db, request.who, request.idempotency_key)
        raise
    _store_for_repeats(context, request, request.idempotency_key, result)
    return result


def _send_logged(context: AppContext, request: WriteRequest) -> WriteResult:
    entry_id = write_log.begin(
        context.app_db,
        who=request.who,
        address=request.address,
        method=request.method,
        path=f"{_SECRET_PATH}/***" if request.path.startswith(f"{_SECRET_PATH}/") else request.path,
        body=request.body,
        check=request.check,
    )
    requested_at, started_at = clock.utc_text(), clock.monotonic()
    try:
        response = context.platform.send(
            request.method,
            encode_path(request.path),
            request.body,
            params=request.query or None,
            priority=request.priority,
            credentials=request.credentials,
            check=False,
            seconds=max(WRITE_TIMEOUT_SECONDS, context.settings.platform.timeout),
        )
    except PlatformError as error:
        _finish_log_entry(context, entry_id, None, f"no response: {error}", clock.monotonic() - started_at)
        return _make_unanswered_result(str(error), is_timeout(error))
    result = "done" if response.status < 400 else "refused" if response.status < 500 else "failed"
    _finish_log_entry(context, entry_id, response.status, result, clock.monotonic() - started_at)
    record = find_item(response.body) if response.status < 400 else None
    if response.status < 400:
        # A failure is not raised: the next full sync repairs the mirror, and the client must not repeat the
        # write.
        try:
            _update_mirror(context, request, response, record, requested_at)
        except (*STORAGE_FAILURES, PlatformError) as error:
            log.warning("%s %s: the mirror is not updated: %s", request.method, request.path, error)
        except Exception:
            log.exception("%s %s: the mirror is not updated", request.method, request.path)
    content_type = response.headers.get("Content-Type", _JSON)
    is_masked = request.hides_secrets and "json" in content_type.lower()
    body = mask_json(response.body) if is_masked else response.body
    return _make_result(response.status, body, content_type, headers=response.headers, record=record)


def _finish_log_entry(
    context: AppContext, entry_id: int, status: int | None, result: str, seconds: float
) -> None:
    """Store the result of a write in the write log.

    A storage failure is logged, not raised.
    """
    try:
        write_log.finish(context.app_db, entry_id, status=status, result=result, seconds=seconds)
    except STORAGE_FAILURES as error:
        log.warning("the write log has no result of entry %d (%s): %s", entry_id, result, error)


# --- results -------------------------------------------------------------------------------------------


def _make_result(
    status: int,
    body: bytes,
    content_type: str,
    *,
    headers: Mapping[str, str] | None = None,
    record: JsonRecord | None = None,
    earlier: EarlierRequest | None = None,
) -> WriteResult:
    message, fields = parse_errors(body, status) if status >= 400 else ("", {})
    return WriteResult(status, message, fields, body, content_type, headers or {}, record, earlier=earlier)


def _make_unanswered_result(
    problem: str, has_timed_out: bool, earlier: EarlierRequest | None = None
) -> WriteResult:
    message = (
        f"The phone system did not respond ({problem}). "
        "Check whether the action was done before you repeat it."
    )
    return WriteResult(None, message, problem=problem, has_timed_out=has_timed_out, earlier=earlier)


def _store_for_repeats(context: AppContext, request: WriteRequest, key: str, result: WriteResult) -> None:
    """Store `result` for repeats of `key`, or release the key.

    Without a response the stored status is 0. A storage failure is logged, not raised: the key stays claimed,
    so a repeat is not sent.
    """
    try:
        if request.may_repeat_refused and result.status is not None and not result.is_done:
            write_log.release_key(context.app_db, request.who, key)
            return
        body = b"" if request.path.startswith(_SECRET_PATH) else result.body
        if result.status is None:
            body = orjson.dumps({"problem": result.problem, "has_timed_out": result.has_timed_out})
        write_log.store_response(
            context.app_db, request.who, key, result.status or 0, result.content_type, body
        )
    except STORAGE_FAILURES as error:
        log.warning(
            "the response to %s %s is not stored for repeats: %s", request.method, request.path, error
        )


def _make_repeated_result(earlier: EarlierRequest) -> WriteResult:
    if earlier.status is None:
        message = (
            "This was sent a moment ago, and the phone system has not responded yet. Check the result first."
        )
        return WriteResult(None, message, earlier=earlier)
    body = earlier.body or b""
    if earlier.status == 0:
        stored_failure = orjson.loads(body)
        return _make_unanswered_result(
            stored_failure.get("problem", ""), stored_failure.get("has_timed_out", False), earlier
        )
    record = find_item(body) if earlier.status < 400 else None
    return _make_result(earlier.status, body, earlier.content_type or _JSON, record=record, earlier=earlier)


def parse_errors(body: bytes, status: int) -> tuple[str, dict[str, str]]:
    """Parse an error body of the platform, in any of its forms.

    Returns a sentence and the messages by field. Entries of `errors` are texts or objects `{code, field,
    message}` (docs/platform.md#5-errors).
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        return f"The phone system failed with status {status}. Try again in a minute.", {}
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
    return f"Phone system: {message.rstrip('.')}.", fields


# --- the mirror ----------------------------------------------------------------------------------------


def _update_mirror(
    context: AppContext,
    request: WriteRequest,
    response: PlatformResponse,
    record: JsonRecord | None,
    requested_at: str,
) -> None:
    resource = _find_resource(request.path)
    if resource is None:
        context.mirror_db.write(lambda tx: subresources.delete_changed(tx, request.path))
        return
    if resource.key is None:
        context.mirror_db.write(lambda tx: collection_state.mark_incomplete(tx, resource.collection))
    elif request.method == "DELETE":
        _record_deletion(context, request.path, resource, response.status, requested_at)
    elif record is not None:
        if _has_field_selection(request.query):
            path = f"/{resource.collection}/{get_usable_key(resource, record)}"
            record = context.platform.item(path, priority=INTERACTIVE)
        if resource.table == live_table.COLLECTION:
            live_call, sent_at = record, parse_seconds(requested_at) or clock.unix()
            context.mirror_db.write(lambda tx: live_table.store_written(tx, live_call, sent_at))
        else:
            write_results.store_written(context.mirror_db, resource, record, requested_at)
    elif keys := _parse_ids(request.body):
        _refresh_records(context, request, resource, keys, requested_at)
    elif request.method == "POST":
        context.mirror_db.write(lambda tx: collection_state.mark_incomplete(tx, resource.collection))


def _find_resource(path: str) -> Resource | None:
    """Find the mirrored collection that a write to `path` changes, or None.

    `path` is that of the collection or of a record. Subresources do not count: they have other ids.
    """
    if path == "/leadcalls":
        return get_resource("calls")
    segments = path.strip("/").split("/")
    for length in (2, 1):
        if "/".join(segments[:length]) in COLLECTIONS:
            candidate = get_resource("/".join(segments[:length]))
            is_mirrored = candidate.is_listed and candidate.table != "me"
            return candidate if is_mirrored and len(segments) <= length + 1 else None
    return None


def _record_deletion(
    context: AppContext, path: str, resource: Resource, status: int, requested_at: str
) -> None:
    """Record a deletion.

    With 204 it is finished. With 202 it is pending: polled at once, later by the scheduler.
    """
    key_list = path.strip("/").removeprefix(resource.collection).strip("/")
    keys = [key for part in key_list.split(",") if (key := parse_id(part)) is not None] if key_list else None

    if status == 202:
        context.mirror_db.write(lambda tx: pending_deletions.add(tx, resource.collection, keys, requested_at))
        poll_due(context, resource.collection)
    else:
        deletions.record_requested_deletions(context, resource, keys)


def _refresh_records(
    context: AppContext, request: WriteRequest, resource: Resource, keys: Sequence[int], requested_at: str
) -> None:
    """Read the records that a bulk PATCH changed.

    Records whose own path adds fields are read by it too, at most MAX_ITEMS_READ: the client waits. The next
    sync reads the others.
    """
    condition = [{"property": resource.key, "operator": "in", "value": list(keys)}]
    response = context.platform.get(
        f"/{resource.collection}",
        {"filter": orjson.dumps(condition).decode(), "limit": len(keys)},
        priority=INTERACTIVE,
        credentials=request.credentials,
    )
    records = read_page(response.body).records

    def store(tx: Transaction) -> list[Key]:
        upsert(tx, resource, records, source="write", requested_at=requested_at)
        item_forms.clear(tx, resource, keys)
        return item_forms.list_adding_keys(tx, resource, keys)

    for key in context.mirror_db.write(store)[:MAX_ITEMS_READ]:
        item_requested_at = clock.utc_text()
        record = context.platform.item(f"/{resource.collection}/{key}", priority=INTERACTIVE, tries=1)
        context.mirror_db.write(
            lambda tx, record=record, at=item_requested_at: store_item(  # type: ignore[misc]
                tx, resource, record, source="write", requested_at=at
            )
        )


def _parse_ids(body: bytes | None) -> list[int]:
    parsed: Any = orjson.loads(body) if body else None
    entries = parsed if isinstance(parsed, list) else []
    return [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), int)]


def _has_field_selection(query: str) -> bool:
    """Return whether `include` or `fields[…]` change the response.

    The response then differs from the stored record.
    """
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    return any(name == "include" or name.startswith("fields") for name in names)
