"""`/exports/<resource>.csv`, `.xlsx`, `.jsonl`: the filter shown, as a file (interface.md §3, §6)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from flask import Blueprint, Response, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from integration.catalogue.shapes import Resource
from integration.context import House
from integration.dashboard import security
from integration.errors import QueryError
from integration.exports import asking, rights
from integration.exports.asking import TYPES, NoSuchExport
from integration.exports.rights import NotAllowed
from integration.exports.sheet import Stream
from integration.exports.zip import Archive
from integration.facade import narrowing
from integration.facade.answers import Stop, failure
from integration.facade.auth import Gatekeeper
from integration.house import audit, sessions
from integration.house.people import Person

NAME = "exports"

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
            chosen, _ = asking.named(name)
            who, only, person = self._who(chosen, form)
            args = asked_for(request.args)
            selection = asking.selection(self._house, name, args, only, person)
            chunks = asking.chunks(self._house, selection, form, args)
            if isinstance(chunks, Stream) and form in ("xlsx", "parquet") and request.method != "HEAD":
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
                who,
                "export",
                f"{asking.filed_under(name)}.{form}",
                f"{chunks.rows} rows",
                address=request.remote_addr or "",
            )
        return _download(chunks, form)

    def _who(self, chosen: Resource, form: str) -> tuple[str, int | None, Person | None]:
        """Who exports, for the audit, the user they are narrowed to, and the person (None: a key). Raises
        Stop 401, 403, NotAllowed."""
        needed = rights.rights_of(chosen)
        if "Authorization" in request.headers or "X-Auth-Token" in request.headers:
            caller = self._gatekeeper.identify(request)
            if not caller.from_mirror:
                raise Stop(403, "Only administrators' credentials and local keys may export.")
            if caller.key is not None and not caller.key.may_touch(needed):
                raise Stop(403, f"The key {caller.key.name!r} has no right to {needed}.")
            if caller.narrowed is not None and not narrowing.reachable(needed):
                raise Stop(403, "This key sees only its own user's records.")
            return caller.who, caller.narrowed, None
        token = security.browser_token(request)
        found = sessions.find(self._house.house, token) if token else None
        if found is None:
            raise Stop(401, "Log in first.")
        person = found[1]
        only = rights.only_of(person, chosen, form, self._house.settings.dashboard.agents_see)
        return person.email, only, person


def asked_for(args: MultiDict[str, str]) -> dict[str, str]:
    """Parameters by name. A form sends a `columns` for each tick, a link one with commas."""
    return {**args.to_dict(), "columns": ",".join(args.getlist("columns"))}


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
