"""`/exports/<resource>.csv`, `.xlsx`, `.jsonl`: the filter shown, as a file (interface.md §3, §6)."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from integration.access import audit
from integration.access.export_caller import Door
from integration.access.rights import NotAllowed
from integration.context import House
from integration.core.api_responses import Stop, failure
from integration.core.errors import QueryError
from integration.exports import export_request as asking
from integration.exports import job_routes as prepared
from integration.exports import jobs as preparing
from integration.exports.export_request import TYPES, NoSuchExport
from integration.exports.formats.zip import Archive
from integration.exports.jobs import FORMS, preparer_of
from integration.exports.query import Stream
from integration.exports.truncation_marker import marked

NAME = "exports"


def make_blueprint(house: House) -> Blueprint:
    """As a blueprint called `exports`, open to the guard: it takes a person with the right `export`, or a key
    of the facade."""
    blueprint = Blueprint(NAME, __name__)
    exports = Exports(house)
    rule = f"/exports/<path:name>.<any({','.join(TYPES)}):form>"
    blueprint.add_url_rule(rule, "export", exports.answer, methods=["GET", "HEAD"])
    prepared.add_routes(blueprint, house)
    return blueprint


class Exports:
    """What stands behind the route. One per application."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._door = Door(house)

    def answer(self, name: str, form: str) -> BaseResponse:
        try:
            chosen, _ = asking.named(name)
            caller = self._door.identify(chosen, form)
            args = asked_for(request.args)
            selection = asking.selection(self._house, name, args, caller.only, caller.person)
            chunks = asking.chunks(self._house, selection, form, args)
            if isinstance(chunks, Stream) and form in FORMS and request.method != "HEAD":
                preparer = preparer_of(current_app)
                if preparer is not None and chunks.rows > preparing.MANY:
                    chunks.close()
                    return prepared.ask(self._house, preparer, caller, name, form, args, chunks.rows)
                chunks.begin()
        except Stop as stop:
            if stop.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect("/login", 302)
            return stop.response()
        except NoSuchExport as error:
            return failure(404, str(error))
        except NotAllowed as error:
            return failure(403, str(error))
        except QueryError as error:
            return failure(400, str(error))
        if request.method != "HEAD":
            audit.record(
                self._house.house,
                caller.who,
                "export",
                f"{asking.filed_under(name)}.{form}",
                f"{chunks.rows} rows",
                address=request.remote_addr or "",
            )
        return _download(chunks, form)


def asked_for(args: MultiDict[str, str]) -> dict[str, str]:
    """Parameters by name. A form sends a `columns` for each tick, a link one with commas."""
    return {**args.to_dict(), "columns": ",".join(args.getlist("columns"))}


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
