"""Parts of all settings pages, and the address that leads to the first of them.

Setup links, secrets of keys and wallboard URLs are shown once, on the page after the form that created them
(site/after_redirect.py). They are never in a redirect, a log line or the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from flask import Blueprint, Response, redirect, request

from integration.access.rights import ROLE_LABELS
from integration.context import app_context
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.site import after_redirect, layout
from integration.dashboard.site.guard import requires
from integration.mirror.page_queries import history

P = ParamSpec("P")

blueprint = Blueprint("settings", __name__, url_prefix="/settings")

RESULT_MESSAGES = {
    "changed": "Changed.",
    "removed": "Removed.",
    "revoked": "Revoked.",
    "ended": "Logged out.",
    "saved": "Saved.",
}


@blueprint.get("")
@requires("admin")
def index() -> Response:
    """Redirect to the first page.

    Browsers keep the anchor, and `app.js` opens the page that has its section now.
    """
    return redirect("/settings/people")  # type: ignore[return-value]


@blueprint.get("/audit")
@requires("admin")
def show_audit() -> Response:
    """Redirect from the former address of the audit log."""
    return redirect("/privacy/audit")  # type: ignore[return-value]


def redirect_to(path: str, message_key: str = "", anchor: str = "", **shown_once: Any) -> Response:
    """Redirect to a settings page, which shows the values of `shown_once` once."""
    if shown_once:
        after_redirect.put(path, **shown_once)
    query = f"?said={message_key}" if message_key else ""
    return redirect(f"{path}{query}{'#' + anchor if anchor else ''}", 303)  # type: ignore[return-value]


def render(template: str, **values: Any) -> str:
    """Render a settings page. `values` replace the common ones."""
    return layout.render_page(
        "system",
        template,
        **{
            "message": RESULT_MESSAGES.get(request.args.get("said", ""), ""),
            "roles": ROLE_LABELS,
            "refused": None,
            **values,
        },
    )


def requires_admin(
    render_page: Callable[..., str],
) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Decorate a view for administrators.

    A DomainError is shown on the page of `render_page` with status 400.
    """

    def decorate(view: Callable[P, Any]) -> Callable[P, Any]:
        @requires("admin")
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return view(*args, **kwargs)
            except DomainError as refusal:
                return render_page(refused=str(refusal)), 400

        return guarded

    return decorate


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
