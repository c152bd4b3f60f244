"""Files of the facade.

Archived files with Range and ETag, and the CDRs of a user as CSV.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from flask import Response
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from integration.access import audit
from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core import archive_paths, clock
from integration.core.api_responses import ApiError, extend_suffix_range, send_file, to_gateway_error
from integration.core.errors import PlatformBroken, PlatformError, StorageError, StorageFull
from integration.core.ids import MAX_ID
from integration.exports.formats import csv
from integration.exports.query import mark_if_truncated
from integration.exports.selection import select
from integration.facade import pass_through, reads
from integration.facade.request import FacadeRequest
from integration.mirror.query.filters import Condition
from integration.mirror.records import single_record
from integration.mirror.records.upsert import store_item
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.collection_state import get_state
from integration.mirror.sync_state.media_files import MediaKind
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.shared_download import SharedDownload
from integration.sync.files import download

log = logging.getLogger(__name__)

_MEDIA_KINDS: dict[tuple[str, str], MediaKind] = {
    ("monitors", "mp3"): "recording",
    ("voicemessages", "mp3"): "voicemail",
    ("faxes", "pdf"): "fax",
    ("cdrs", "trace"): "trace",
    ("cdrs", "pcap"): "pcap",
    ("msdrs", "trace"): "msdr_trace",
    ("msdrs", "pcap"): "msdr_pcap",
}
CONTENT_TYPES = {
    "mp3": "audio/mpeg",
    "pdf": "application/pdf",
    "trace": "text/plain",
    "pcap": "application/vnd.tcpdump.pcap",
}

MAX_ID_DIGITS = 20
"""Digits of an id in a path (integration/catalogue)."""
MAX_SUBJECT_LENGTH = 200
"""Characters of a path in the audit log."""


def serve_archived(request: FacadeRequest) -> Response:
    """Serve an archived file, such as `/monitors/{id}.mp3` or `/cdrs/{id}.pcap`.

    A file that is not in the archive is streamed while it is downloaded, and stored. A file that cannot be
    stored is passed through.
    """
    if not request.caller.can_read_mirror:
        return pass_through.forward(request)
    target, suffix = get_resource(request.collections[0]), request.path.rpartition(".")[2]
    kind, record_id = _MEDIA_KINDS[target.collection, suffix], int(request.path_parameters["id"])
    if record_id > MAX_ID:
        raise ApiError(404, f"There is no {target.title} {record_id}.")
    reads.check_user_scope(request, target, record_id)
    with request.context.mirror_db.read() as connection:
        row = media_files.state(connection, kind, record_id)
        stored_record = single_record.find_record(connection, target, record_id)
    if stored_record is None and kind == "fax":
        # The specification has no path for one fax record, so only the platform can decide whether it exists.
        return pass_through.forward(request)
    if stored_record is None:
        try:
            _mirror_record(request, target, record_id)
        except StorageError as error:
            log.warning("cannot store the record of %s, passing it through: %s", request.path, error)
            return pass_through.forward(request)
    elif stored_record.is_missing:
        raise ApiError(404, f"There is no {target.title} {record_id}.")
    if row is not None and row["state"] == "have":
        path = _find_archived(request.context.settings.storage.data_dir, row["path"])
        if path is not None:
            return _send_archived(path, row["sha256"], CONTENT_TYPES[suffix])
    try:
        shared_download = download.open_file(request.context, kind, record_id)
        if not shared_download.is_over and shared_download.size is not None:
            return _stream_download(request, shared_download, shared_download.size, CONTENT_TYPES[suffix])
        path = shared_download.wait()
    except (StorageFull, OSError) as error:
        log.warning("cannot store %s, passing it through: %s", request.path, error)
        return pass_through.forward(request)
    except PlatformBroken as error:
        if kind in ("recording", "voicemail"):
            raise to_gateway_error(error) from error
        # The formats of traces and faxes are undocumented: content that looks like an error page may be
        # valid.
        return pass_through.forward(request)
    except PlatformError as error:
        if error.status in (403, 404):
            raise ApiError(error.status, str(error)) from error
        raise to_gateway_error(error) from error
    with request.context.mirror_db.read() as connection:
        row = media_files.state(connection, kind, record_id)
    return _send_archived(path, row["sha256"] if row is not None else None, CONTENT_TYPES[suffix])


def audit_content(request: FacadeRequest, response: Response) -> None:
    """Record the access to a file in the audit log (promise S14).

    A file is what one of the known paths returns, and any other response that is not JSON: paths that the
    specification lacks can return files as well.
    """
    stem, _, suffix = request.path.strip("/").rpartition(".")
    collection, _, record_id = stem.partition("/")
    kind: str | None = _MEDIA_KINDS.get((collection, suffix))
    subject = request.path
    if kind is not None and record_id.isdecimal():
        subject = str(int(record_id[:MAX_ID_DIGITS]))
    elif request.operation is not None and request.operation.name == "GET /calls/{id}/trace":
        kind, subject = "live trace", str(int(request.path_parameters["id"]))
    elif response.mimetype != "application/json" or request.path.endswith(".pdf"):
        kind = "file"
    else:
        return
    try:
        audit.record_content(
            request.context.app_db,
            request.http_request,
            response,
            who=request.caller.name,
            action=f"fetched {kind}",
            subject=subject[:MAX_SUBJECT_LENGTH],
        )
    except StorageError as error:
        log.warning("cannot record the access of %s to %s: %s", request.caller.name, request.path, error)


def serve_user_cdrs(request: FacadeRequest) -> Response:
    """Stream `/users/{id}/cdrs.csv` from the mirror.

    `X-Export-Rows` has the number of records; a truncated file ends with the truncation marker
    (docs/exports.md).
    """
    if not request.caller.can_read_mirror:
        return pass_through.forward(request)
    target, user_id = get_resource("cdrs"), int(request.path_parameters["id"])
    if user_id > MAX_ID:
        raise ApiError(404, f"There is no {get_resource('users').title} {user_id}.")
    users = get_resource("users")
    with request.context.mirror_db.read() as connection:
        state = get_state(connection, target.collection)
        is_unread = not state.is_complete and single_record.is_empty(connection, target)
        user_record = single_record.find_record(connection, users, user_id)
        is_missing = (user_record is None or user_record.is_missing) and get_state(
            connection, users.collection
        ).is_complete
    if is_unread:
        return pass_through.forward(request)
    if is_missing:
        raise ApiError(404, f"There is no {users.title} {user_id}.")
    headers = reads.build_mirror_headers(state)
    own_condition = Condition("user_id", "eq", user_id)
    selection = select(target, {})
    selection = replace(
        selection, query=replace(selection.query, include_missing=False).with_conditions(own_condition)
    )
    chunks = csv.stream(request.context.mirror_db.read, selection)
    response = Response(
        mark_if_truncated(chunks), content_type="text/csv; charset=utf-8", headers=dict(headers)
    )
    response.call_on_close(chunks.close)
    response.headers["X-Export-Rows"] = str(chunks.row_count)
    if request.http_request.method != "HEAD":
        chunks.prefetch()
    return response


def _mirror_record(request: FacadeRequest, target: Resource, record_id: int) -> None:
    """Request and store the record of a file.

    The record determines the file's path. Raises ApiError, StorageError.
    """
    requested_at = clock.utc_text()
    try:
        record = request.context.platform.item(f"/{target.collection}/{record_id}", priority=INTERACTIVE)
    except PlatformError as error:
        if error.status in (403, 404):
            raise ApiError(error.status, f"There is no {target.title} {record_id}.") from error
        raise to_gateway_error(error) from error
    request.context.mirror_db.write(
        lambda tx: store_item(tx, target, record, source="read", requested_at=requested_at)
    )


def _stream_download(
    request: FacadeRequest, shared_download: SharedDownload, size: int, content_type: str
) -> Response:
    """Stream a file while it is downloaded."""
    start, stop, status = 0, size, 200
    extend_suffix_range(request.http_request, size)
    headers = {"Accept-Ranges": "bytes"}
    # The file has no ETag and no date yet, so If-Range cannot match: send the entire file.
    if request.http_request.range is not None and "If-Range" not in request.http_request.headers:
        byte_range = request.http_request.range.range_for_length(size)
        if byte_range is None:
            raise RequestedRangeNotSatisfiable(size)
        (start, stop), status = byte_range, 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"

    chunks = pass_through.stream(request, shared_download.read_chunks(start, stop))
    response = Response(chunks, status=status, mimetype=content_type, headers=headers)
    response.content_length = stop - start
    return response


def _find_archived(data_dir: Path, relative_path: str) -> Path | None:
    """Return the path of an archived file.

    None if the file is missing or leads out of the archive.
    """
    path = data_dir / relative_path
    return None if archive_paths.leads_out(data_dir, relative_path) or not path.is_file() else path


def _send_archived(path: Path, sha256: str | None, content_type: str) -> Response:
    return send_file(path.resolve(), mimetype=content_type, etag=sha256 or True, max_age=None)
