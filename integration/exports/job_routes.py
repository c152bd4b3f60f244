"""`/exports/prepared/<id>`: how far a large export is, and its file, for whoever asked and nobody else.

GET     how far it is, as JSON; `file` is where it will be
GET     /exports/prepared/<id>/file   the file, in parts too (Range)
DELETE  end it, or remove its file; with a key
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, current_app, jsonify, redirect, request, send_file
from werkzeug.wrappers import Response

from integration.access import audit
from integration.access import browser as security
from integration.access.export_caller import Caller, Door
from integration.access.rights import NotAllowed
from integration.context import House
from integration.core.api_responses import Stop, failure
from integration.core.refused import Refused
from integration.exports import export_request as asking
from integration.exports import prepared_exports
from integration.exports.export_request import TYPES
from integration.exports.jobs import Preparer, preparer_of
from integration.exports.prepared_exports import Prepared

ASK_AGAIN_SECONDS = 2
PAGE = "/exports"


def add_routes(blueprint: Blueprint, house: House) -> None:
    """Put the routes into `blueprint`, which checks its callers itself."""
    routes = _Routes(house)
    for rule, view, methods in (
        ("/exports/prepared/<int:number>", routes.tell, ["GET", "HEAD"]),
        ("/exports/prepared/<int:number>/file", routes.file, ["GET", "HEAD"]),
        ("/exports/prepared/<int:number>", routes.remove, ["DELETE"]),
    ):
        blueprint.add_url_rule(rule, view.__name__, _answering(view), methods=methods)


def ask(
    house: House, preparer: Preparer, caller: Caller, name: str, form: str, args: dict[str, str], rows: int
) -> Response:
    """Have it prepared. A browser is sent to the page that shows how far it is; a program gets 202 and
    where to ask."""
    filed = asking.filed_under(name)
    try:
        one = prepared_exports.add(
            house.house,
            owner=caller.owner,
            who=caller.who,
            person_id=caller.person.id if caller.person else None,
            export=name,
            form=form,
            args=args,
            only_user=caller.only,
            total=rows,
        )
    except Refused as refusal:
        return failure(429, str(refusal), headers={"Retry-After": "60"})
    about = f"{filed}.{form}"
    audit.record(
        house.house, caller.who, "export asked for", about, f"{rows} rows", address=request.remote_addr or ""
    )
    preparer.wake()
    if caller.person is not None and "text/html" in request.headers.get("Accept", ""):
        return redirect(PAGE, 303)
    answer = jsonify(told(preparer, one))
    answer.status_code = 202
    answer.headers["Location"] = f"/exports/prepared/{one.id}"
    answer.headers["Retry-After"] = str(ASK_AGAIN_SECONDS)
    return answer


def told(preparer: Preparer, one: Prepared) -> dict[str, Any]:
    """What a program is told. `done` of `total` rows are written; `total` is what was counted at first."""
    return {
        "id": one.id,
        "export": one.export,
        "form": one.form,
        "state": one.state,
        "done": preparer.written(one),
        "total": one.total if one.rows is None else one.rows,
        "bytes": one.bytes,
        "error": one.error,
        "file": f"/exports/prepared/{one.id}/file",
        "created_at": one.created_at,
        "kept_until": preparer.kept_until(one),
    }


class _Routes:
    def __init__(self, house: House) -> None:
        self._house = house
        self._door = Door(house)

    def tell(self, number: int) -> Response:
        preparer, one, _ = self._own(number)
        answer = jsonify(told(preparer, one))
        answer.headers["Cache-Control"] = "no-store"
        if one.under_way:
            answer.headers["Retry-After"] = str(ASK_AGAIN_SECONDS)
        return answer

    def file(self, number: int) -> Response:
        preparer, one, caller = self._own(number)
        path = preparer.path(one)
        if one.state != "done":
            raise Stop(409, f"This export is {one.state}.")
        if not path.is_file():
            raise Stop(410, "Its file was removed; ask for it again.")
        name = f"{asking.filed_under(one.export)}.{one.form}"
        # A file that is fetched in parts is one download.
        if request.method != "HEAD" and request.headers.get("Range", "bytes=0-").startswith("bytes=0-"):
            address = request.remote_addr or ""
            audit.record(self._house.house, caller.who, "export", name, f"{one.rows} rows", address=address)
        answer = send_file(
            path,
            mimetype=TYPES[one.form],
            as_attachment=True,
            download_name=name,
            conditional=True,
            max_age=0,
        )
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["X-Export-Rows"] = str(one.rows)
        return answer

    def remove(self, number: int) -> Response:
        if not self._door.with_key:
            # A browser sends its session wherever another page makes it: its button is a form of ours.
            status = 403 if security.browser_token(request) else 401
            raise Stop(status, "A key is needed: HTTP Basic user_id:secret, or the header X-Auth-Token.")
        preparer, one, _ = self._own(number)
        preparer.cancel(one)
        return Response(status=204)

    def _own(self, number: int) -> tuple[Preparer, Prepared, Caller]:
        """The export, if it is the caller's and they still may have what is in it. Raises Stop."""
        preparer = preparer_of(current_app)
        with self._house.house.read() as connection:
            one = prepared_exports.find(connection, number)
        # Strangers learn nothing of which there are: cdrs stand for what everybody who may export sees.
        chosen, _ = asking.named(one.export if one else "cdrs")
        caller = self._door.identify(chosen, one.form if one else "csv")
        if one is None or preparer is None or one.owner != caller.owner:
            raise Stop(404, "There is no such export of yours.")
        if one.only_user != caller.only:
            raise Stop(403, "What you may see has changed since you asked for it; ask again.")
        return preparer, one, caller


def _answering(view: Callable[[int], Response]) -> Callable[[int], Response]:
    def answer(number: int) -> Response:
        try:
            return view(number)
        except Stop as stop:
            if stop.status == 401 and "text/html" in request.headers.get("Accept", ""):
                return redirect("/login", 302)
            return stop.response()
        except NotAllowed as error:
            return failure(403, str(error))

    return answer
