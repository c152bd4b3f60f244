"""`/exports/<resource>.csv`, `.xlsx`, `.jsonl`: the filter shown, as a file (interface.md §3, §6)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from integration import clock
from integration.catalogue import UnknownResource, resource
from integration.catalogue.shapes import Resource
from integration.context import House
from integration.dashboard import calls, security
from integration.dashboard.roles import only_calls_of
from integration.errors import QueryError
from integration.exports import csv, jsonl, parquet, xlsx
from integration.exports.presets import CALLS, PRESETS, Preset
from integration.exports.selection import Selection, select, select_preset
from integration.exports.sheet import Stream
from integration.exports.zip import Archive
from integration.facade import narrowing
from integration.facade.answers import Stop, failure
from integration.facade.auth import Gatekeeper
from integration.house import audit, sessions, setup_links
from integration.mirror import search
from integration.mirror.history import CallFilter
from integration.mirror.masking import hidden_of

NAME = "exports"

TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "zip": "application/zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

BROKEN_OFF = b"\r\n*** THIS EXPORT BROKE OFF AFTER AN ERROR AND IS NOT COMPLETE ***\r\n"

log = logging.getLogger(__name__)


def make_blueprint(house: House) -> Blueprint:
    """As a blueprint called `exports`, open to the guard: it takes a person with the right `export`, or a key
    of the facade."""
    blueprint = Blueprint(NAME, __name__)
    exports = Exports(house)
    rule = f"/exports/<path:name>.<any({','.join(TYPES)}):form>"
    blueprint.add_url_rule(rule, "export", exports.answer, methods=["GET", "HEAD"])
    return blueprint


class Exports:
    """What stands behind the route. One per application."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._gatekeeper = Gatekeeper(house)

    def answer(self, name: str, form: str) -> BaseResponse:
        try:
            preset = PRESETS.get(name)
            chosen = preset.resource if preset else _resource(name)
            who, only = self._who(chosen, form)
            chunks = self._chunks(self._selection(chosen, preset, only), form)
        except Stop as stop:
            if stop.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect("/login", 302)
            return stop.response()
        except QueryError as error:
            return failure(400, str(error))
        if request.method != "HEAD":
            audit.record(
                self._house.house,
                who,
                "export",
                f"{name if preset else chosen.collection}.{form}",
                f"{chunks.rows} rows",
                address=request.remote_addr or "",
            )
        return _download(chunks, form)

    def _selection(self, chosen: Resource, preset: Preset | None, only: int | None) -> Selection:
        """What the URL asks for, narrowed to the platform user `only`."""
        hidden, settings = hidden_of(chosen), self._house.settings
        if preset is None:
            selection = select(chosen, request.args, hidden)
        else:
            selection = select_preset(
                preset,
                request.args,
                timezone=settings.dashboard.timezone,
                base=setup_links.base_url(settings),
                hidden=hidden,
            )
            if preset.own_table:
                return selection.among(replace(self._shown() or CallFilter(), only_user=only))
            shown = self._shown()
            if shown is not None:
                if selection.resource.field("live_id") is None:
                    raise QueryError(f"view: {preset.name} belong to no calls")
                selection = selection.among(shown)
        if only is not None:
            with self._house.mirror.read() as connection:
                selection = selection.also(narrowing.own(connection, chosen, only))
        return selection

    def _shown(self) -> CallFilter | None:
        """The calls that the page Calls shows with the query string `view`; None without one."""
        view = request.args.get("view")
        if view is None:
            return None
        zone = ZoneInfo(self._house.settings.dashboard.timezone)
        asked = calls.read(
            dict(parse_qsl(view)),
            zone=zone,
            today=clock.now().astimezone(zone).date(),
            calling_code=calls.calling_code(self._house.settings.dashboard.country),
            house=self._house.house,
        ).asked
        if asked.wanted is not None:
            search.catch_up(self._house.mirror)
        return asked

    def _who(self, chosen: Resource, form: str) -> tuple[str, int | None]:
        """Who exports, for the audit, and the user they are narrowed to. Raises Stop 401, 403."""
        # Calls are made of CDRs: who may read these may read those.
        rights = "cdrs" if chosen is CALLS else chosen.collection
        if "Authorization" in request.headers or "X-Auth-Token" in request.headers:
            caller = self._gatekeeper.identify(request)
            if not caller.from_mirror:
                raise Stop(403, "Only administrators' credentials and local keys may export.")
            if caller.key is not None and not caller.key.may_touch(rights):
                raise Stop(403, f"The key {caller.key.name!r} has no right to {rights}.")
            if caller.narrowed is not None and not narrowing.reachable(rights):
                raise Stop(403, "This key sees only its own user's records.")
            return caller.who, caller.narrowed
        token = security.browser_token(request)
        found = sessions.find(self._house.house, token) if token else None
        if found is None:
            raise Stop(401, "Log in first.")
        person = found[1]
        if not person.may("export"):
            raise Stop(403, "This needs the right “export”. An administrator can give it to you.")
        if form == "zip" and not person.may("recordings"):
            raise Stop(403, "This needs the right “recordings”. An administrator can give it to you.")
        only = only_calls_of(person, self._house.settings.dashboard.agents_see)
        if only is not None and not narrowing.reachable(rights):
            raise Stop(403, "You see only your own calls, and this holds more.")
        return person.email, only

    def _chunks(self, selection: Selection, form: str) -> Stream | Archive:
        if form == "zip":
            return Archive(self._house.mirror.read, selection, self._house.settings.storage.data_dir)
        if form == "jsonl":
            return jsonl.stream(self._house.mirror.read, selection)
        if form in ("xlsx", "parquet"):
            write = xlsx.stream if form == "xlsx" else parquet.stream
            stream = write(self._house.mirror.read, selection)
            if request.method != "HEAD":
                stream.begin()
            return stream
        return csv.stream(self._house.mirror.read, selection, bom=request.args.get("bom") in ("1", "true"))


def _resource(name: str) -> Resource:
    try:
        found = resource(name)
    except UnknownResource as error:
        raise Stop(404, str(error)) from None
    if not found.listed or found.table == "me":
        raise Stop(404, f"{found.collection} is not a collection that can be exported")
    return found


def marked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The file; where an error breaks it off, with a last line that no reader takes for a record.

    The server ends the transfer in good order whatever happens here (Granian sends the final chunk after an
    exception too), so the file itself has to say that it is not whole.
    """
    try:
        yield from chunks
    except Exception:
        log.exception("an export broke off")
        yield BROKEN_OFF


def _download(chunks: Stream | Archive, form: str) -> Response:
    """`X-Export-Rows` is how many rows the file has: counted before its first byte, from the same view of the
    mirror, so that whoever reads the file can tell that all of it came. HEAD answers the count alone.

    """
    response = Response(marked(chunks), content_type=TYPES[form])
    response.call_on_close(chunks.close)
    response.headers["Content-Disposition"] = f'attachment; filename="{chunks.name}.{form}"'
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Export-Rows"] = str(chunks.rows)
    return response
