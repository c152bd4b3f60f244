"""Parts of all settings pages, and the address that leads to the first of them.

Setup links, secrets of keys and wallboard URLs are shown once, on the page after the form that created them
(site/after_redirect.py). They are never in a redirect, a log line or the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, make_response, redirect, request

from integration.access.rights import ROLE_LABELS
from integration.context import app_context
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.site import after_redirect, layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import history

blueprint = Blueprint("settings", __name__, url_prefix="/settings")


@blueprint.get("")
@requires("admin")
def index() -> Response:
    return make_response(redirect("/settings/people"))


def make_blueprint(name: str, path: str, render_page: Callable[..., str]) -> Blueprint:
    """Return the blueprint of a settings page, for administrators.

    `render_page` returns the page with the values of its parameters. A DomainError is shown on it, with
    status 400.
    """
    blueprint = Blueprint(f"settings_{name}", __name__, url_prefix=path)
    blueprint.before_request(requires("admin")(lambda: None))
    blueprint.register_error_handler(DomainError, lambda refusal: (render_page(refused=str(refusal)), 400))
    blueprint.add_url_rule("", "index", lambda: render_page(**after_redirect.take()), methods=["GET"])
    return blueprint


def render(template: str, **values: Any) -> str:
    """Render a settings page."""
    return layout.render_page("system", template, roles=ROLE_LABELS, **values)


def list_phone_users() -> list[Any]:
    """Return the phone users of the account, with those that were deleted."""
    with app_context().mirror_db.read() as connection:
        return history.list_users(connection)


def parse_platform_user_id() -> int | None:
    text = request.form.get("platform_user_id", "").strip()
    if not text:
        return None
    user_id = parse_id(text)
    if user_id is None or len(text) > 12:
        raise DomainError("The linked phone user must be a number.")
    return user_id
