"""Files: sound, faxes, traces and captures from the archive with Range and ETag, a user's CDRs as CSV."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flask import Response, send_file
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from integration.access import audit
from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import Stop, no_answer
from integration.core.errors import PlatformBroken, PlatformError, StorageError, StorageFull
from integration.exports.formats import csv
from integration.exports.selection import select
from integration.exports.truncation_marker import marked
from integration.facade import pass_through as passing
from integration.facade import reads
from integration.facade.request import Asked
from integration.mirror.query.filters import Condition
from integration.mirror.records import single_record as records
from integration.mirror.records.upsert import put_item
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state.media_files import Kind
from integration.platform_api.budget import PEOPLE
from integration.platform_api.shared_download import Arrival

log = logging.getLogger(__name__)

_KINDS: dict[tuple[str, str], Kind] = {
    ("monitors", "mp3"): "recording",
    ("voicemessages", "mp3"): "voicemail",
    ("faxes", "pdf"): "fax",
    ("cdrs", "trace"): "trace",
    ("cdrs", "pcap"): "pcap",
    ("msdrs", "trace"): "msdr_trace",
    ("msdrs", "pcap"): "msdr_pcap",
}
_TYPES = {
    "mp3": "audio/mpeg",
    "pdf": "application/pdf",
    "trace": "text/plain",
    "pcap": "application/vnd.tcpdump.pcap",
}


def archived(asked: Asked) -> Response:
    """`/monitors/{id}.mp3`, `/cdrs/{id}.pcap` and the like. What isn't archived yet is sent on while it is
    fetched, and kept; what can't be kept here is passed on all the same."""
    response = _file(asked)
    if asked.path.endswith((".mp3", ".pdf")) and response.status_code in (200, 206):
        _note_access(asked)
    return response


def _file(asked: Asked) -> Response:
    if not asked.caller.from_mirror:
        return passing.through(asked)
    target, ending = resource(asked.collections[0]), asked.path.rpartition(".")[2]
    kind, number = _KINDS[target.collection, ending], int(asked.parameters["id"])
    if number >= 2**63:
        raise Stop(404, f"There is no {target.title} {number}.")
    reads.own_record(asked, target, number)
    with asked.house.mirror.read() as connection:
        row = media.state(connection, kind, number)
        known = records.stored(connection, target, number)
    if known is None and kind == "fax":
        # The specification has no path for one fax: whether this one exists is the platform's to say.
        return passing.through(asked)
    if known is None:
        _learn(asked, target, number)
    elif known.missing:
        raise Stop(404, f"There is no {target.title} {number}.")
    if row is not None and row["state"] == "have":
        path = _inside(asked.house.settings.storage.data_dir, row["path"])
        if path is not None:
            return _sent(path, row["sha256"], _TYPES[ending])
    try:
        arrival = _fetched(asked, kind, number)
        if isinstance(arrival, Arrival) and not arrival.over and arrival.size is not None:
            return _along(asked, arrival, arrival.size, _TYPES[ending])
        path = arrival.wait() if isinstance(arrival, Arrival) else arrival
    except (StorageFull, OSError) as error:
        log.warning("%s is passed on without keeping it: %s", asked.path, error)
        return passing.through(asked)
    except PlatformBroken as error:
        if kind in ("recording", "voicemail"):
            raise no_answer(error) from error
        # Nobody documents what traces and faxes look like: what we take for an error page may be one.
        return passing.through(asked)
    except PlatformError as error:
        if error.status in (403, 404):
            raise Stop(error.status, str(error)) from error
        raise no_answer(error) from error
    with asked.house.mirror.read() as connection:
        row = media.state(connection, kind, number)
    return _sent(path, row["sha256"] if row is not None else None, _TYPES[ending])


def _note_access(asked: Asked) -> None:
    """Who got which sound or fax, and when (promise S14). Of many ranges the first is the listening."""
    request = asked.request
    later = request.range is not None and request.range.ranges[0][0] != 0
    if request.method == "HEAD" or later:
        return
    kind = _KINDS[asked.collections[0], asked.path.rpartition(".")[2]]
    address = request.remote_addr or ""
    try:
        audit.record(
            asked.house.house, asked.caller.who, f"fetched {kind}", asked.parameters["id"], address=address
        )
    except StorageError as error:
        log.warning("that %s got %s could not be noted: %s", asked.caller.who, asked.path, error)


def user_cdrs(asked: Asked) -> Response:
    """`/users/{id}/cdrs.csv`, made from the mirror and sent while it is made; how many records it has is told
    in advance, and its end says so if it broke off (docs/exports.md)."""
    if not asked.caller.from_mirror:
        return passing.through(asked)
    target, user = resource("cdrs"), int(asked.parameters["id"])
    if user >= 2**63:
        raise Stop(404, f"There is no {resource('users').title} {user}.")
    users = resource("users")
    with asked.house.mirror.read() as connection:
        standing = records.standing(connection, target)
        unread = not standing.complete and records.is_empty(connection, target)
        known = records.stored(connection, users, user)
        gone = (known is None or known.missing) and records.standing(connection, users).complete
    if unread:
        return passing.through(asked)
    if gone:
        raise Stop(404, f"There is no {users.title} {user}.")
    headers = reads.headers_of(standing)
    mine = Condition("user_id", "eq", user)
    chosen = select(target, {})
    chosen = replace(chosen, question=replace(chosen.question, missing=False).also(mine))
    chunks = csv.stream(asked.house.mirror.read, chosen)
    response = Response(marked(chunks), content_type="text/csv; charset=utf-8", headers=dict(headers))
    response.call_on_close(chunks.close)
    response.headers["X-Export-Rows"] = str(chunks.rows)
    if asked.request.method != "HEAD":
        chunks.begin()
    return response


def _learn(asked: Asked, target: Resource, number: int) -> None:
    """The record of a file that is not mirrored yet, since it says where the file belongs. Raises Stop."""
    asked_at = clock.stamp()
    try:
        record = asked.house.platform.item(f"/{target.collection}/{number}", who=PEOPLE)
    except PlatformError as error:
        if error.status in (403, 404):
            raise Stop(error.status, f"There is no {target.title} {number}.") from error
        raise no_answer(error) from error
    asked.house.mirror.write(lambda tx: put_item(tx, target, record, source="read", asked_at=asked_at))


def _fetched(asked: Asked, kind: Kind, number: int) -> Path | Arrival:
    if asked.fetch is None:
        raise Stop(502, "The file is not in the archive yet.")
    return asked.fetch(kind, number)


def _along(asked: Asked, arrival: Arrival, size: int, kind: str) -> Response:
    """The file while it comes. What fails now ends the body short of its Content-Length; an exception here
    would do the same, but end up in the server's log as a fault of ours."""
    start, stop, status = 0, size, 200
    headers = {"Accept-Ranges": "bytes"}
    # It has no ETag and no date yet: If-Range can't hold, so that the whole is sent.
    if asked.request.range is not None and "If-Range" not in asked.request.headers:
        span = asked.request.range.range_for_length(size)
        if span is None:
            raise RequestedRangeNotSatisfiable(size)
        (start, stop), status = span, 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"

    def body() -> Iterator[bytes]:
        try:
            yield from arrival.pieces(start, stop)
        except (PlatformError, StorageError, OSError) as error:
            log.warning("%s ended early: %s", asked.path, error)

    response = Response(body(), status=status, mimetype=kind, headers=headers)
    response.content_length = stop - start
    return response


def _inside(data_dir: Path, relative: str) -> Path | None:
    """The archived file; None if it is gone, or is not a plain file in its folder (promise S13)."""
    path = data_dir / relative
    folder = data_dir.resolve()
    if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(folder):
        return None
    return path


def _sent(path: Path, sha256: str | None, kind: str) -> Response:
    """Range, If-Range, If-None-Match and If-Modified-Since are Werkzeug's."""
    return send_file(path.resolve(), mimetype=kind, conditional=True, etag=sha256 or True, max_age=None)
