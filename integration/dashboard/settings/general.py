"""Settings for administrators: keys, wallboards, the webhook address, the audit. People: settings_people.py.

What is shown once (links, secrets, wallboard addresses) is in the answer to the form that made it, never in a
redirect, a log or the audit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Blueprint, Response, redirect, request

from integration import catalogue
from integration.access import audit, keys, people, setup_links
from integration.context import this_house
from integration.core.errors import SwitchroomError
from integration.core.refused import Refused
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import audited, needs
from integration.maintenance import public_address
from integration.mirror.page_queries import history
from integration.settings.data_dir_secrets import forget_old_secret, rotate_secret, webhook_secrets
from integration.workspace import wallboards

blueprint = Blueprint("settings", __name__, url_prefix="/settings")

AUDIT_PAGE = 100
SAID = {
    "changed": "Changed.",
    "removed": "Removed.",
    "revoked": "It works no longer.",
    "ended": "Logged out.",
}


def home(said: str = "", place: str = "") -> Response:
    query = f"?said={said}" if said else ""
    return redirect(f"/settings{query}{'#' + place if place else ''}", 303)  # type: ignore[return-value]


def page(**shown: Any) -> str:
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


def administers(view: Callable[..., Any]) -> Callable[..., Any]:
    """A view for administrators; what house.db refuses is said on the page, with nothing done."""

    @needs("admin")
    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return view(*args, **kwargs)
        except Refused as refusal:
            return page(refused=str(refusal)), 400

    return guarded


def user_id() -> int | None:
    text = request.form.get("platform_user_id", "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise Refused("the platform user is a number")
    return int(text)


@blueprint.get("")
@administers
def index() -> str:
    return page()


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
    key_id, secret = keys.add(
        house.house,
        name,
        scope,
        collections or None,
        user_id(),
        taken=keys.platform_users(house.mirror.path),
    )
    audited("key added", f"{name}, {scope}, {key_id}")
    return page(secret=f"{key_id}:{secret}", secret_for=name)


@blueprint.post("/keys/<int:number>/revoke")
@administers
def revoke_key(number: int) -> Response:
    house = this_house().house
    name = next((key.name for key in keys.everything(house) if key.user_id == number), None)
    if name is None:
        raise Refused("this key was revoked already")
    keys.revoke(house, name)
    audited("key revoked", name)
    return home("revoked", "keys")


@blueprint.post("/wallboards")
@administers
def add_wallboard() -> str:
    house = this_house()
    name = request.form.get("name", "")
    token = wallboards.add(
        house.house, name, level=_whole("level", 80), wait=_whole("wait", 60), missed=_whole("missed", 0)
    )
    audited("wallboard added", name)
    return page(wall=f"{setup_links.base_url(house.settings).rstrip('/')}/wall/{token}", wall_for=name)


@blueprint.post("/wallboards/<int:number>/revoke")
@administers
def revoke_wallboard(number: int) -> Response:
    audited("wallboard revoked", wallboards.revoke(this_house().house, number))
    return home("revoked", "wallboards")


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
    return page(checked=list(public_address.examine(this_house().settings)))


@blueprint.post("/webhook/rotate")
@administers
def rotate_webhook() -> Response:
    _with_secret(rotate_secret, "webhook secret rotated")
    return home("changed", "webhook")


@blueprint.post("/webhook/forget")
@administers
def forget_webhook() -> Response:
    _with_secret(forget_old_secret, "old webhook secret forgotten")
    return home("changed", "webhook")


def _with_secret(deed: Callable[[Any], None], what: str) -> None:
    try:
        deed(this_house().settings)
    except Refused:
        raise
    except SwitchroomError as error:
        raise Refused(str(error)) from error
    audited(what)


@blueprint.get("/audit")
@administers
def shown_audit() -> str:
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
