"""Settings for administrators: keys, wallboards and webhook URL.

Settings of dashboard users are in people.py.

Setup links, secrets of keys and wallboard URLs are shown once, on the page after the form that created them
(site/after_redirect.py). They are never in a redirect, a log line or the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from flask import Blueprint, Response, make_response, redirect, request

from integration import catalogue
from integration.access import key_limits, keys, people, setup_links
from integration.access.rights import RIGHTS, ROLES
from integration.context import app_context
from integration.core import clock
from integration.core.errors import DomainError, SwitchroomError
from integration.core.ids import parse_id
from integration.dashboard.site import after_redirect, layout
from integration.dashboard.site.background_jobs import current_jobs
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action, requires
from integration.maintenance import public_address
from integration.mirror.page_queries import history
from integration.outbound import mail
from integration.settings.base_url import find_base_url
from integration.settings.data_dir_secrets import drop_old_secret, load_webhook_secrets, rotate_secret
from integration.workspace import wallboards

Default = TypeVar("Default", int, None)

blueprint = Blueprint("settings", __name__, url_prefix="/settings")

REFRESH_SECONDS = 2
MAIL_TEST_JOB = "test e-mail"
RESULT_MESSAGES = {
    "changed": "Changed.",
    "removed": "Removed.",
    "revoked": "Revoked.",
    "ended": "Logged out.",
}


def redirect_home(message_key: str = "", anchor: str = "", **shown_once: Any) -> Response:
    """Redirect to the settings, which show the values of `shown_once` once."""
    if shown_once:
        after_redirect.put(blueprint.url_prefix or "", **shown_once)
    query = f"?said={message_key}" if message_key else ""
    return redirect(f"/settings{query}{'#' + anchor if anchor else ''}", 303)  # type: ignore[return-value]


def render_page(**values: Any) -> str:
    context = app_context()
    with context.mirror_db.read() as connection:
        users = history.list_users(connection)
    return layout.render_page(
        "system",
        "settings.html",
        people=people.list_all(context.app_db),
        users={user["id"]: user for user in users},
        keys=keys.list_all(context.app_db),
        boards=wallboards.list_all(context.app_db),
        hook=_webhook_info(),
        smtp=context.settings.smtp,
        smtp_server=mail.describe_server(context.settings.smtp),
        mail_test=current_jobs().last_by_name.get(MAIL_TEST_JOB),
        roles=ROLES,
        key_rights=RIGHTS.values(),
        key_overlap_hours=int(keys.DEFAULT_OVERLAP_HOURS),
        link_hours=int(setup_links.VALID_SECONDS / 3600),
        now_utc=clock.utc_text(),
        message=RESULT_MESSAGES.get(request.args.get("said", ""), ""),
        **values,
    )


def _webhook_info() -> dict[str, Any]:
    """Return webhook settings for the page.

    The URL contains the secret, because users enter the URL on the platform.
    """
    settings = app_context().settings
    secrets = load_webhook_secrets(settings)
    base_url = find_base_url(settings).rstrip("/")
    return {
        "url": f"{base_url}/webhooks/{secrets[0]}",
        "public": settings.server.public_url,
        "rotating": len(secrets) > 1,
        "configured": settings.webhooks.secret is not None,
        "basic": settings.webhooks.username is not None,
    }


def requires_admin(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a view for administrators.

    A DomainError is shown on the settings page with status 400.
    """

    @requires("admin")
    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return view(*args, **kwargs)
        except DomainError as refusal:
            return render_page(refused=str(refusal)), 400

    return guarded


def parse_platform_user_id() -> int | None:
    text = request.form.get("platform_user_id", "").strip()
    if not text:
        return None
    user_id = parse_id(text)
    if user_id is None or len(text) > 12:
        raise DomainError("The linked phone user must be a number.")
    return user_id


@blueprint.get("")
@requires_admin
def index() -> Response:
    response = make_response(render_page(**after_redirect.take()))
    mail_test = current_jobs().last_by_name.get(MAIL_TEST_JOB)
    if mail_test is not None and mail_test.state == "running":
        # Shows the result of the test e-mail without JavaScript.
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response


# --- keys and wallboards ---------------------------------------------------------------------------------


@blueprint.post("/keys")
@requires_admin
@requires_confirmation()
def add_key() -> Response:
    context = app_context()
    collection_names = [
        name for name in request.form.get("collections", "").replace(",", " ").split() if name
    ]
    try:
        collections = [catalogue.get_resource(name.strip("/")).collection for name in collection_names]
    except catalogue.UnknownResource as error:
        raise DomainError(str(error)) from None
    name, scope = request.form.get("name", ""), request.form.get("scope", "read")
    key_id, secret = keys.add(
        context.app_db,
        name,
        scope,
        collections or None,
        parse_platform_user_id(),
        limits=key_limits.parse_limits(
            request.form.get("expires", ""),
            request.form.get("networks", "").replace(",", " ").split(),
            request.form.get("rate", ""),
            request.form.getlist("right"),
        ),
        reserved_ids=keys.list_platform_user_ids(context.mirror_db.path),
    )
    audit_action("key added", f"{name}, {scope}, {key_id}")
    return redirect_home(secret=f"{key_id}:{secret}", secret_for=name)


@blueprint.post("/keys/<int:number>/revoke")
@requires_admin
@requires_confirmation()
def revoke_key(number: int) -> Response:
    app_db, name = app_context().app_db, _require_key_name(number)
    keys.revoke(app_db, name)
    audit_action("key revoked", name)
    return redirect_home("revoked", "keys")


@blueprint.post("/keys/<int:number>/rotate")
@requires_admin
@requires_confirmation()
def rotate_key(number: int) -> Response:
    """Replace the secret of a key.

    The old secret stays valid for a day.
    """
    name = _require_key_name(number)
    key_id, secret = keys.rotate(app_context().app_db, name)
    audit_action("key rotated", name)
    return redirect_home(secret=f"{key_id}:{secret}", secret_for=name)


def _require_key_name(number: int) -> str:
    name = next((key.name for key in keys.list_all(app_context().app_db) if key.user_id == number), None)
    if name is None:
        raise DomainError("This key was already revoked.")
    return name


@blueprint.post("/wallboards")
@requires_admin
@requires_confirmation()
def add_wallboard() -> Response:
    context = app_context()
    name = request.form.get("name", "")
    token = wallboards.add(
        context.app_db,
        name,
        level_target=_parse_whole_number("level", 80),
        wait_target=_parse_whole_number("wait", 60),
        callback_target=_parse_whole_number("missed", None),
    )
    audit_action("wallboard added", name)
    return redirect_home(wall=f"{find_base_url(context.settings).rstrip('/')}/wall/{token}", wall_for=name)


@blueprint.post("/wallboards/<int:number>/revoke")
@requires_admin
@requires_confirmation()
def revoke_wallboard(number: int) -> Response:
    audit_action("wallboard revoked", wallboards.revoke(app_context().app_db, number))
    return redirect_home("revoked", "wallboards")


def _parse_whole_number(name: str, default: Default) -> int | Default:
    text = request.form.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or len(text) > 6:
        raise DomainError("Each target must be a whole number.")
    return int(text)


# --- webhooks --------------------------------------------------------------------------------------------


@blueprint.post("/webhook/check")
@requires_admin
def check_webhook() -> Response:
    """Show whether the webhook receiver responds at `server.public_url`."""
    checked = list(public_address.check_public_url(app_context().settings))
    return redirect_home(anchor="webhook", checked=checked)


@blueprint.post("/webhook/rotate")
@requires_admin
@requires_confirmation()
def rotate_webhook() -> Response:
    _change_secret(rotate_secret, "webhook secret rotated")
    return redirect_home("changed", "webhook")


@blueprint.post("/webhook/forget")
@requires_admin
@requires_confirmation()
def drop_old_webhook_secret() -> Response:
    _change_secret(drop_old_secret, "old webhook secret deleted")
    return redirect_home("changed", "webhook")


def _change_secret(change: Callable[[Any], None], action: str) -> None:
    try:
        change(app_context().settings)
    except DomainError:
        raise
    except SwitchroomError as error:
        raise DomainError(str(error)) from error
    audit_action(action)


@blueprint.get("/audit")
@requires_admin
def show_audit() -> Response:
    """Redirect from the former address of the audit log."""
    return make_response(redirect("/privacy/audit"))
