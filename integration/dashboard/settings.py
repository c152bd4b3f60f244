"""Settings: people and their rights, keys, wallboards, the webhook address, the audit. Administrators only.

What is shown once (links, secrets, wallboard addresses) is in the answer to the form that made it, never in a
redirect, a log or the audit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Blueprint, Response, abort, redirect, request

from integration import catalogue
from integration.context import this_house
from integration.dashboard import shell
from integration.dashboard.guard import current_person, needs
from integration.errors import SwitchroomError
from integration.house import audit, keys, people, sessions, setup_links, wallboards
from integration.house.refused import Refused
from integration.mirror import history
from integration.secrets import forget_old_secret, rotate_secret, webhook_secrets
from integration.upkeep import public_address

blueprint = Blueprint("settings", __name__, url_prefix="/settings")

AUDIT_PAGE = 100
SAID = {
    "changed": "Changed.",
    "removed": "Removed.",
    "revoked": "It works no longer.",
    "ended": "Logged out.",
}


def _home(said: str = "", place: str = "") -> Response:
    query = f"?said={said}" if said else ""
    return redirect(f"/settings{query}{'#' + place if place else ''}", 303)  # type: ignore[return-value]


def _page(**shown: Any) -> str:
    house = this_house()
    with house.mirror.read() as connection:
        users = history.people(connection)
    return shell.page(
        "system",
        "settings.html",
        people=people.everyone(house.house),
        users={user["id"]: user for user in users},
        keys=keys.everything(house.house),
        boards=wallboards.everything(house.house),
        hook=_hook(),
        roles=people.ROLES,
        said=SAID.get(request.args.get("said", ""), ""),
        **shown,
    )


def _hook() -> dict[str, Any]:
    """The address to enter at the platform. The secret is shown to administrators: they have to copy it."""
    settings = this_house().settings
    secrets = webhook_secrets(settings)
    base = setup_links.base_url(settings).rstrip("/")
    return {
        "url": f"{base}/webhooks/{secrets[0]}",
        "public": settings.server.public_url,
        "rotating": len(secrets) > 1,
        "configured": settings.webhooks.secret is not None,
        "basic": settings.webhooks.username is not None,
    }


def _note(what: str, about: str = "") -> None:
    audit.record(this_house().house, current_person().email, what, about, address=request.remote_addr or "")


def administers(view: Callable[..., Any]) -> Callable[..., Any]:
    """A view for administrators; what house.db refuses is said on the page, with nothing done."""

    @needs("admin")
    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return view(*args, **kwargs)
        except Refused as refusal:
            return _page(refused=str(refusal)), 400

    return guarded


@blueprint.get("")
@administers
def index() -> str:
    return _page()


# --- people ----------------------------------------------------------------------------------------------


@blueprint.post("/people")
@administers
def add_person() -> str:
    house = this_house().house
    person = people.create(
        house,
        request.form.get("email", ""),
        request.form.get("role", "viewer"),
        platform_user_id=_user_id(),
    )
    _note("user added", f"{person.email}, {person.role}")
    return _page(link=_link(person), link_for=person.email)


@blueprint.get("/people/<int:number>")
@administers
def person(number: int) -> str:
    return _person_page(_known(number))


@blueprint.post("/people/<int:number>")
@administers
def change_person(number: int) -> Response | tuple[str, int]:
    house, known = this_house().house, _known(number)
    try:
        changed = people.set_role(house, known.email, request.form.get("role", known.role))
        for right in people.RIGHTS:
            given = {"yes": True, "no": False}.get(request.form.get(right, ""))
            changed = people.set_right(house, known.email, right, given)
        changed = people.set_platform_user(house, known.email, _user_id())
    except Refused as refusal:
        return _person_page(_known(number), refused=str(refusal)), 400
    may = ", ".join(sorted(changed.rights)) or "nothing more"
    _note("user changed", f"{changed.email}, {changed.role}, may {may}")
    return _home("changed", "people")


@blueprint.post("/people/<int:number>/reset")
@administers
def reset_person(number: int) -> str:
    known = _known(number)
    link = _link(known)
    _note("set-up link made", known.email)
    return _page(link=link, link_for=known.email)


@blueprint.post("/people/<int:number>/remove")
@administers
def remove_person(number: int) -> Response:
    known = _known(number)
    people.remove(this_house().house, known.email)
    _note("user removed", known.email)
    return _home("removed", "people")


@blueprint.post("/people/<int:number>/log-out")
@administers
def end_session(number: int) -> Response:
    """One session, or all of the person."""
    house, known = this_house().house, _known(number)
    one = request.form.get("session", "")
    if one.isdecimal():
        if int(one) not in {session.id for session in sessions.of_person(house, known.id)}:
            raise Refused("this session has ended already")
        sessions.revoke(house, int(one))
    else:
        sessions.revoke_all(house, known.id)
    _note("logged out", known.email)
    return redirect(f"/settings/people/{known.id}?said=ended", 303)  # type: ignore[return-value]


def _person_page(known: people.Person, **shown: Any) -> str:
    house = this_house()
    with house.mirror.read() as connection:
        users = history.people(connection)
    return shell.page(
        "system",
        "settings_person.html",
        known=known,
        own=people.own_rights(house.house, known.id),
        users=users,
        sessions=sessions.of_person(house.house, known.id),
        roles=people.ROLES,
        rights=people.RIGHTS,
        said=SAID.get(request.args.get("said", ""), ""),
        **shown,
    )


def _known(number: int) -> people.Person:
    found = people.get(this_house().house, number)
    if found is None:
        abort(404)
    return found


def _link(known: people.Person) -> str:
    house = this_house()
    return setup_links.one_time_link(house.house, known.email, setup_links.base_url(house.settings))


def _user_id() -> int | None:
    text = request.form.get("platform_user_id", "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise Refused("the platform user is a number")
    return int(text)


# --- keys and wallboards ---------------------------------------------------------------------------------


@blueprint.post("/keys")
@administers
def add_key() -> str:
    house = this_house()
    named = [name for name in request.form.get("collections", "").replace(",", " ").split() if name]
    try:
        collections = [catalogue.resource(name.strip("/")).collection for name in named]
    except catalogue.UnknownResource as unknown:
        raise Refused(str(unknown)) from None
    name, scope = request.form.get("name", ""), request.form.get("scope", "read")
    user_id, secret = keys.add(
        house.house,
        name,
        scope,
        collections or None,
        _user_id(),
        taken=keys.platform_users(house.mirror.path),
    )
    _note("key added", f"{name}, {scope}, {user_id}")
    return _page(secret=f"{user_id}:{secret}", secret_for=name)


@blueprint.post("/keys/<int:number>/revoke")
@administers
def revoke_key(number: int) -> Response:
    house = this_house().house
    name = next((key.name for key in keys.everything(house) if key.user_id == number), None)
    if name is None:
        raise Refused("this key was revoked already")
    keys.revoke(house, name)
    _note("key revoked", name)
    return _home("revoked", "keys")


@blueprint.post("/wallboards")
@administers
def add_wallboard() -> str:
    house = this_house()
    name = request.form.get("name", "")
    token = wallboards.add(
        house.house, name, level=_whole("level", 80), wait=_whole("wait", 60), missed=_whole("missed", 0)
    )
    _note("wallboard added", name)
    return _page(wall=f"{setup_links.base_url(house.settings).rstrip('/')}/wall/{token}", wall_for=name)


@blueprint.post("/wallboards/<int:number>/revoke")
@administers
def revoke_wallboard(number: int) -> Response:
    _note("wallboard revoked", wallboards.revoke(this_house().house, number))
    return _home("revoked", "wallboards")


def _whole(name: str, otherwise: int) -> int:
    text = request.form.get(name, "").strip()
    if not text:
        return otherwise
    if not text.isdecimal() or len(text) > 6:
        raise Refused("a target is a whole number")
    return int(text)


# --- webhooks, audit -------------------------------------------------------------------------------------


@blueprint.post("/webhook/check")
@administers
def check_webhook() -> str:
    """Ask our own receiver at its public address, as the platform would."""
    return _page(checked=list(public_address.examine(this_house().settings)))


@blueprint.post("/webhook/rotate")
@administers
def rotate_webhook() -> Response:
    _with_secret(rotate_secret, "webhook secret rotated")
    return _home("changed", "webhook")


@blueprint.post("/webhook/forget")
@administers
def forget_webhook() -> Response:
    _with_secret(forget_old_secret, "old webhook secret forgotten")
    return _home("changed", "webhook")


def _with_secret(deed: Callable[[Any], None], what: str) -> None:
    try:
        deed(this_house().settings)
    except Refused:
        raise
    except SwitchroomError as error:
        raise Refused(str(error)) from error
    _note(what)


@blueprint.get("/audit")
@administers
def audited() -> str:
    before = request.args.get("before", "")
    found = audit.newest(
        this_house().house,
        AUDIT_PAGE + 1,
        int(before) if before.isdecimal() and len(before) <= 18 else None,
    )
    older = found[AUDIT_PAGE - 1].id if len(found) > AUDIT_PAGE else None
    return shell.page(
        "system", "settings_audit.html", entries=found[:AUDIT_PAGE], older=older, newest=not before
    )
