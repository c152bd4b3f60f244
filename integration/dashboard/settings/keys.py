"""Keys of the REST API, for administrators."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from integration import catalogue
from integration.access import keys
from integration.access.rights import list_key_rights
from integration.context import app_context
from integration.core import clock
from integration.core.errors import DomainError
from integration.dashboard.settings.page import (
    list_phone_users,
    make_blueprint,
    parse_platform_user_id,
    render,
)
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action
from integration.settings.base_url import find_api_url

PATH = "/settings/keys"


def _render_page(**values: Any) -> str:
    return render(
        "settings_keys.html",
        keys=keys.list_all(app_context().app_db),
        users={user["id"]: user for user in list_phone_users()},
        key_rights=list_key_rights(),
        key_overlap_hours=int(keys.DEFAULT_OVERLAP_HOURS),
        now_utc=clock.utc_text(),
        api_url=find_api_url(app_context().settings),
        **values,
    )


blueprint = make_blueprint("keys", PATH, _render_page)


@blueprint.post("")
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
        limits=keys.parse_limits(
            request.form.get("expires", ""),
            request.form.get("networks", "").replace(",", " ").split(),
            request.form.get("rate", ""),
            request.form.getlist("right"),
        ),
        reserved_ids=keys.list_platform_user_ids(context.mirror_db.path),
    )
    audit_action("key added", f"{name}, {scope}, {key_id}")
    return redirect_to(PATH, secret=f"{key_id}:{secret}", secret_for=name)


@blueprint.post("/<int:number>/revoke")
@requires_confirmation()
def revoke_key(number: int) -> Response:
    app_db, name = app_context().app_db, _require_key_name(number)
    keys.revoke(app_db, name)
    audit_action("key revoked", name)
    return redirect_to(PATH, "Revoked.")


@blueprint.post("/<int:number>/rotate")
@requires_confirmation()
def rotate_key(number: int) -> Response:
    """Replace the secret of a key.

    The old secret stays valid for a day.
    """
    name = _require_key_name(number)
    key_id, secret = keys.rotate(app_context().app_db, name)
    audit_action("key rotated", name)
    return redirect_to(PATH, secret=f"{key_id}:{secret}", secret_for=name)


def _require_key_name(number: int) -> str:
    name = next((key.name for key in keys.list_all(app_context().app_db) if key.user_id == number), None)
    if name is None:
        raise DomainError("This key was already revoked.")
    return name
