"""Wallboards, for administrators."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Response, request

from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.settings.page import make_blueprint, render
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action
from integration.settings.base_url import find_base_url
from integration.workspace import wallboards

Default = TypeVar("Default", int, None)

PATH = "/settings/screens"


def _render_page(**values: Any) -> str:
    return render("settings_screens.html", boards=wallboards.list_all(app_context().app_db), **values)


blueprint = make_blueprint("screens", PATH, _render_page)


@blueprint.post("")
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
    return redirect_to(
        PATH, wall=f"{find_base_url(context.settings).rstrip('/')}/wall/{token}", wall_for=name
    )


@blueprint.post("/<int:number>/revoke")
@requires_confirmation()
def revoke_wallboard(number: int) -> Response:
    audit_action("wallboard revoked", wallboards.revoke(app_context().app_db, number))
    return redirect_to(PATH, "Revoked.")


def _parse_whole_number(name: str, default: Default) -> int | Default:
    text = request.form.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or len(text) > 6:
        raise DomainError("Each target must be a whole number.")
    return int(text)
