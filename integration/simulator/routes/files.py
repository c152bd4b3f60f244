"""Routes of files: .mp3, .trace, .pcap, .pdf and .csv."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterable
from functools import partial

from flask import Blueprint, Flask, Response

from integration import catalogue
from integration.simulator.context import get_current_user, get_world
from integration.simulator.http.responses import ErrorResponse, make_accepted_response, make_item_response
from integration.simulator.media import audio, canned
from integration.simulator.records.record_fields import Record
from integration.simulator.routes.reads import get_permitted_record, get_readable_collection

blueprint = Blueprint("files", __name__)

_FILES: dict[str, tuple[tuple[str, ...], str, Callable[[Record], bytes | str]]] = {
    # Range is ignored, as observed (docs/platform.md#6-files).
    "mp3": (
        ("monitors", "voicemessages"),
        "audio/mpeg3",
        lambda record: audio.make_mp3(record["duration"], record["id"]),
    ),
    "trace": (
        ("cdrs", "msdrs"),
        "text/plain; charset=utf-8",
        lambda record: canned.format_trace(record["id"], record.get("calldate") or record["created_at"]),
    ),
    "pcap": (("cdrs", "msdrs"), "application/vnd.tcpdump.pcap", lambda _: canned.PCAP),
    "pdf": (("faxes",), "application/pdf", lambda record: canned.make_pdf(record["id"])),
}
"""Collections, content type and content of files, by suffix."""


def add_routes(app: Flask) -> None:
    app.register_blueprint(blueprint)
    for suffix, (names, *_) in _FILES.items():
        for name in names:
            app.get(f"/{name}/<key>.{suffix}", endpoint=f"{suffix} {name}")(partial(_read_file, name, suffix))


def _read_file(name: str, suffix: str, key: str) -> Response:
    _, content_type, make_content = _FILES[suffix]
    return Response(make_content(get_permitted_record(name, key)), content_type=content_type)


@blueprint.get("/<name>.csv")
def export_csv(name: str) -> Response:
    """Queue an export. This path never returns its file (docs/platform.md#6-files)."""
    if name not in get_world().collections:
        raise ErrorResponse(404, "Resource not found")
    get_readable_collection(name)
    return make_accepted_response("Export has been queued")


@blueprint.get("/users/<key>/cdrs.csv")
def export_user_cdrs(key: str) -> Response:
    with get_world().lock:
        user = get_permitted_record("users", key)
        cdrs = get_world().collections["cdrs"].list_visible(get_current_user())
        user_cdrs = [cdr for cdr in cdrs if cdr["user_id"] == user["id"]]
        return Response(_format_csv(user_cdrs), content_type="text/csv; charset=utf-8")


@blueprint.get("/transactions/<key>.pdf")
def read_invoice(key: str) -> Response:
    record = get_permitted_record("transactions", key)
    if record["result"] != "OK":
        raise ErrorResponse(400, "This Transaction is not completed yet. Unable to generate PDF invoice.")
    encoded = base64.b64encode(canned.make_pdf(record["id"])).decode()
    return make_item_response({"mime_type": "application/pdf", "base64": encoded})


def _format_csv(records: Iterable[Record]) -> str:
    """Format CDRs as CSV with their documented fields.

    The platform's columns are undocumented.
    """
    names = [field.name for field in catalogue.get_resource("cdrs").fields if field.documented]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()
