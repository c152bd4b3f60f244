"""Routes of files: .mp3, .trace, .pcap, .pdf and .csv."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable
from typing import Any

from flask import Flask, Response

from integration import catalogue
from integration.simulator.context import get_current_user, get_simulator_context
from integration.simulator.http.responses import ErrorResponse, make_accepted_response, make_item_response
from integration.simulator.media import audio, canned
from integration.simulator.routes.record_checks import get_permitted_record, get_readable_collection

Record = dict[str, Any]

_TIME_FIELDS = {"cdrs": "calldate", "msdrs": "created_at"}


def add_routes(app: Flask) -> None:
    for name in ("monitors", "voicemessages"):
        app.get(f"/{name}/<key>.mp3", endpoint=f"mp3 {name}")(_make_mp3_view(name))
    for name in _TIME_FIELDS:
        app.get(f"/{name}/<key>.trace", endpoint=f"trace {name}")(_make_trace_view(name))
        app.get(f"/{name}/<key>.pcap", endpoint=f"pcap {name}")(_make_pcap_view(name))

    @app.get("/<name>.csv")
    def export_csv(name: str) -> Response:
        """Queue an export. This path never returns its file (docs/platform.md#6-files)."""
        if name not in get_simulator_context().world.collections:
            raise ErrorResponse(404, "Resource not found")
        get_readable_collection(name)
        return make_accepted_response("Export has been queued")

    @app.get("/users/<key>/cdrs.csv")
    def export_user_cdrs(key: str) -> Response:
        with get_simulator_context().world.lock:
            user = get_permitted_record("users", key)
            user_cdrs = [
                r
                for r in get_simulator_context().world.collections["cdrs"].list_visible(get_current_user())
                if r["user_id"] == user["id"]
            ]
            return Response(_format_csv(user_cdrs), content_type="text/csv; charset=utf-8")

    @app.get("/faxes/<key>.pdf")
    def read_fax_pdf(key: str) -> Response:
        record = get_permitted_record("faxes", key)
        return Response(canned.make_pdf(record["id"]), content_type="application/pdf")

    @app.get("/transactions/<key>.pdf")
    def read_invoice(key: str) -> Response:
        record = get_permitted_record("transactions", key)
        if record["result"] != "OK":
            raise ErrorResponse(400, "This Transaction is not completed yet. Unable to generate PDF invoice.")
        encoded = base64.b64encode(canned.make_pdf(record["id"])).decode()
        return make_item_response({"mime_type": "application/pdf", "base64": encoded})


def _make_mp3_view(name: str) -> Any:
    def read_mp3(key: str) -> Response:
        """Return the entire file; Range is ignored, as observed (docs/platform.md#6-files)."""
        record = get_permitted_record(name, key)
        return Response(audio.make_mp3(record["duration"], record["id"]), content_type="audio/mpeg3")

    return read_mp3


def _make_trace_view(name: str) -> Any:
    def read_trace(key: str) -> Response:
        record = get_permitted_record(name, key)
        trace = canned.format_trace(record["id"], record[_TIME_FIELDS[name]])
        return Response(trace, content_type="text/plain; charset=utf-8")

    return read_trace


def _make_pcap_view(name: str) -> Any:
    def read_pcap(key: str) -> Response:
        get_permitted_record(name, key)
        return Response(canned.PCAP, content_type="application/vnd.tcpdump.pcap")

    return read_pcap


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
