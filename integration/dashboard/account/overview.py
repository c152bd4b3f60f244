"""Account: everything mirrored, browsable. An overview, one list, one record page, made from the catalogue.

/account                    every collection with its count, age and completeness
/account/<collection>       its records (`/account/me`: its record)
  … ?edit=1                 the form to change it, or to make one, where staff do (account_edit.EDITABLE)
/account/<collection>/<id>  one record; without an id of its own by its place in the platform's answer
"""

from __future__ import annotations

from flask import Blueprint, abort, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from integration.context import this_house
from integration.dashboard.account import (
    collection as account_list,
)
from integration.dashboard.account import (
    edit as account_edit,
)
from integration.dashboard.account import (
    record as account_record,
)
from integration.dashboard.account.sections import GROUPS, SHELVES, Shelf, Sight
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import current_person, needs

blueprint = Blueprint("account", __name__)

SINGLE = "me"
"""The collection that is one record, at its own path."""


def _sight() -> Sight:
    return Sight(current_person(), shell.only_user())


@blueprint.get("/account")
def index() -> str:
    sight = _sight()
    shelves = sight.groups()
    with this_house().mirror.read(seconds=account_list.READ_SECONDS) as connection:
        standings = {
            shelf.collection: sight.standing(connection, shelf)
            for group in shelves.values()
            for shelf in group
        }
        away = shell.unreachable_since(connection)
    return shell.page(
        "account",
        "account.html",
        shelves=shelves,
        GROUPS=GROUPS,
        standings=standings,
        mirrored=sum(state.mirrored for state in standings.values()),
        away=away,
    )


@blueprint.get("/account/<path:path>")
def below(path: str) -> Response:
    """A collection where the whole path is one; else the record that its last part names."""
    shelf, key = _placed(path.rstrip("/"))
    sight = _sight()
    if not sight.reaches(shelf):
        abort(403, f"{shelf.title} are shown to supervisors and administrators.")
    if request.args.get("edit"):
        return account_edit.show(sight, shelf, key)
    if key is not None or shelf.collection == SINGLE:
        return account_record.show(sight, shelf, key)
    return account_list.show(sight, shelf)


@blueprint.post("/account/<path:path>")
@needs("agent")
def change(path: str) -> Response:
    """A record that is changed, or a new one of a collection."""
    shelf, key = _placed(path.rstrip("/"))
    return account_edit.change(_sight(), shelf, key)


def _placed(path: str) -> tuple[Shelf, str | None]:
    """The collection and the id in a path. Both may have slashes; the longest collection wins."""
    parts = path.split("/")
    for end in range(len(parts), 0, -1):
        shelf = SHELVES.get("/".join(parts[:end]))
        if shelf is not None:
            return shelf, "/".join(parts[end:]) or None
    raise NotFound
