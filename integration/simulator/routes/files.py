"""Paths that end in .mp3, .trace, .pcap, .pdf or .csv."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable
from typing import Any

from flask import Flask, Response

from integration import catalogue
from integration.simulator.http.responses import Answered, accepted, caller, item, machine
from integration.simulator.media import audio, capture, sip
from integration.simulator.records import faxes as papers
from integration.simulator.routes.reads import open_collection, open_record

Record = dict[str, Any]

_SOUND_PACKETS = 25
_DIALOGUES = {"cdrs": sip.of_cdr, "msdrs": sip.of_msdr}


def add_routes(app: Flask) -> None:
    for name in ("monitors", "voicemessages"):
        app.get(f"/{name}/<key>.mp3", endpoint=f"mp3 {name}")(_mp3(name))
    for name in _DIALOGUES:
        app.get(f"/{name}/<key>.trace", endpoint=f"trace {name}")(_trace(name))
        app.get(f"/{name}/<key>.pcap", endpoint=f"pcap {name}")(_pcap(name))

    @app.get("/<name>.csv")
    def export(name: str) -> Response:
        """A queued export, whose file never comes by this path (observed.md §6)."""
        if name not in machine().world.collections:
            raise Answered(404, "Resource not found")
        open_collection(name)
        return accepted("Export has been queued")

    @app.get("/users/<key>/cdrs.csv")
    def user_csv(key: str) -> Response:
        with machine().world.lock:
            user = open_record("users", key)
            mine = [
                r for r in machine().world.collections["cdrs"].visible(caller()) if r["user_id"] == user["id"]
            ]
            return Response(_csv(mine), content_type="text/csv; charset=utf-8")

    @app.get("/faxes/<key>.pdf")
    def fax(key: str) -> Response:
        return Response(papers.fax_pdf(open_record("faxes", key)), content_type="application/pdf")

    @app.get("/transactions/<key>.pdf")
    def invoice(key: str) -> Response:
        record = open_record("transactions", key)
        if record["result"] != "OK":
            raise Answered(400, "This Transaction is not completed yet. Unable to generate PDF invoice.")
        encoded = base64.b64encode(papers.invoice_pdf(record)).decode()
        return item({"mime_type": "application/pdf", "base64": encoded})


def _mp3(name: str) -> Any:
    def sound(key: str) -> Response:
        """The whole file; Range is ignored, as observed (observed.md §6)."""
        record = open_record(name, key)
        return Response(audio.mp3(record["duration"], record["id"]), content_type="audio/mpeg3")

    return sound


def _trace(name: str) -> Any:
    def trace(key: str) -> Response:
        told = _DIALOGUES[name](open_record(name, key))
        return Response(sip.trace(told), content_type="text/plain; charset=utf-8")

    return trace


def _pcap(name: str) -> Any:
    def pcap(key: str) -> Response:
        told = _DIALOGUES[name](open_record(name, key))
        data = capture.file(sip.packets(told, sound=_SOUND_PACKETS))
        return Response(data, content_type="application/vnd.tcpdump.pcap")

    return pcap


def _csv(records: Iterable[Record]) -> str:
    """The documented fields of CDRs; the platform's own columns are not shown."""
    names = [field.name for field in catalogue.resource("cdrs").fields if field.documented]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()
