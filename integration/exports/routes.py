"""`/exports/<resource>.csv` and `.jsonl`: the filter shown, as a file (interface.md §3, §6 Exports)."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from integration.catalogue import UnknownResource, resource
from integration.catalogue.shapes import Resource
from integration.context import House
from integration.dashboard import security
from integration.dashboard.roles import only_calls_of
from integration.errors import QueryError
from integration.exports import csv, jsonl
from integration.exports.selection import Selection, select
from integration.facade import narrowing
from integration.facade.answers import Stop, failure
from integration.facade.auth import Gatekeeper
from integration.house import audit, sessions
from integration.mirror.filters import AnyOf, Condition
from integration.mirror.masking import hidden_of

NAME = "exports"


def make_blueprint(house: House) -> Blueprint:
    """As a blueprint called `exports`, open to the guard: it takes a person with the right `export`, or a key
    of the facade."""
    blueprint = Blueprint(NAME, __name__)
    exports = Exports(house)
    blueprint.add_url_rule(
        "/exports/<path:name>.<any(csv,jsonl):form>", "export", exports.answer, methods=["GET", "HEAD"]
    )
    return blueprint


class Exports:
    """What stands behind the route. One per application."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._gatekeeper = Gatekeeper(house)

    def answer(self, name: str, form: str) -> BaseResponse:
        try:
            chosen = _resource(name)
            who, only = self._who(chosen)
            selection = select(chosen, request.args, hidden_of(chosen))
            if only is not None:
                with self._house.mirror.read() as connection:
                    own = narrowing.own(connection, chosen, only)
                selection = _narrowed(selection, own)
            chunks = self._chunks(selection, form)
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
                f"{chosen.collection}.{form}",
                address=request.remote_addr or "",
            )
        return _download(chunks, chosen, form)

    def _who(self, chosen: Resource) -> tuple[str, int | None]:
        """Who exports, for the audit, and the user they are narrowed to. Raises Stop 401, 403."""
        if "Authorization" in request.headers or "X-Auth-Token" in request.headers:
            caller = self._gatekeeper.identify(request)
            if not caller.from_mirror:
                raise Stop(403, "Only administrators' credentials and local keys may export.")
            if caller.key is not None and not caller.key.may_touch(chosen.collection):
                raise Stop(403, f"The key {caller.key.name!r} has no right to {chosen.collection}.")
            if caller.narrowed is not None and not narrowing.reachable(chosen.collection):
                raise Stop(403, "This key sees only its own user's records.")
            return caller.who, caller.narrowed
        token = security.browser_token(request)
        found = sessions.find(self._house.house, token) if token else None
        if found is None:
            raise Stop(401, "Log in first.")
        person = found[1]
        if not person.may("export"):
            raise Stop(403, "This needs the right “export”. An administrator can give it to you.")
        only = only_calls_of(person, self._house.settings.dashboard.agents_see)
        if only is not None and not narrowing.reachable(chosen.collection):
            raise Stop(403, "You see only your own calls, and this holds more.")
        return person.email, only

    def _chunks(self, selection: Selection, form: str) -> Iterator[bytes]:
        if form == "jsonl":
            return jsonl.stream(self._house.mirror.read, selection)
        return csv.stream(self._house.mirror.read, selection, bom=request.args.get("bom") in ("1", "true"))


def _narrowed(selection: Selection, own: Condition | AnyOf) -> Selection:
    return Selection(selection.question.also(own), selection.columns, selection.zone)


def _resource(name: str) -> Resource:
    try:
        found = resource(name)
    except UnknownResource as error:
        raise Stop(404, str(error)) from None
    if not found.listed or found.table == "me":
        raise Stop(404, f"{found.collection} is not a collection that can be exported")
    return found


def _download(chunks: Iterator[bytes], chosen: Resource, form: str) -> Response:
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/x-ndjson"
    response = Response(chunks, content_type=kind)
    response.headers["Content-Disposition"] = f'attachment; filename="{chosen.table}.{form}"'
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
