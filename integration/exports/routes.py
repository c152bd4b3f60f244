"""`/exports/<resource>.csv`, `.xlsx`, `.jsonl`: the filter shown, as a file (interface.md §3, §6)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from integration.catalogue.shapes import Resource
from integration.context import House
from integration.dashboard import security
from integration.dashboard.roles import only_calls_of
from integration.errors import QueryError
from integration.exports import asking
from integration.exports.asking import TYPES, NoSuchExport
from integration.exports.sheet import Stream
from integration.exports.zip import Archive
from integration.facade import narrowing
from integration.facade.answers import Stop, failure
from integration.facade.auth import Gatekeeper
from integration.house import audit, sessions

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
            chosen, preset = asking.named(name)
            who, only = self._who(chosen, form)
            selection = asking.selection(self._house, name, request.args, only)
            chunks = asking.chunks(self._house, selection, form, request.args)
            if isinstance(chunks, Stream) and form in ("xlsx", "parquet") and request.method != "HEAD":
                chunks.begin()
        except Stop as stop:
            if stop.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect("/login", 302)
            return stop.response()
        except NoSuchExport as error:
            return failure(404, str(error))
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

    def _who(self, chosen: Resource, form: str) -> tuple[str, int | None]:
        """Who exports, for the audit, and the user they are narrowed to. Raises Stop 401, 403."""
        rights = asking.rights_of(chosen)
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
