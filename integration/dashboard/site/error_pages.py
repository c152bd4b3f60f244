"""Error pages: the cause and the next step. Scripts get JSON."""

from __future__ import annotations

import logging
import sqlite3

from flask import Flask, Response, current_app, g, make_response, redirect, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from integration.core.errors import StorageBusy, StorageError
from integration.dashboard.site import guard, layout
from integration.sqlite.errors import DAMAGED_MESSAGE, is_damage

log = logging.getLogger(__name__)

ERROR_TEXTS = {
    400: ("Bad request", "Something in this request is malformed. Go back and try again."),
    403: ("Not allowed", "You don’t have access to this page. Ask an administrator."),
    404: ("Page not found", "It may have moved, or you may not have access."),
    405: ("Page not found", "It may have moved, or you may not have access."),
    413: ("Upload too large", "Send a smaller file or text."),
    500: (
        "This page could not be built",
        "The error is logged, and calls are still saved. Reload the page. If it fails again, report this page"
        " to your administrator.",
    ),
    503: ("Busy", "The database is busy. Reload the page in a few seconds."),
}


def register(app: Flask) -> None:
    app.register_error_handler(HTTPException, _handle_http_error)
    app.register_error_handler(sqlite3.OperationalError, _handle_interrupted)
    app.register_error_handler(sqlite3.DatabaseError, _handle_damage)
    app.register_error_handler(StorageError, _handle_storage_error)
    app.register_error_handler(500, _handle_http_error)


def _handle_http_error(error: HTTPException) -> Response:
    status = error.code or 500
    if isinstance(error, MethodNotAllowed) and (path := _find_form_page()) is not None:
        return make_response(redirect(path, 303))
    if error.response is not None or status < 400:
        return make_response(error.get_response())
    description = error.description if status in (400, 403, 503) and error.description else ""
    standard_description = type(error).description or ""
    return render_error(status, "" if description == standard_description else description)


def _find_form_page() -> str | None:
    """Return the page of the form of this address, or None.

    An address that only receives forms is requested by GET if a user reloads a page that refused a form. The
    page of the form is the nearest address above it that has one.
    """
    if request.method not in guard.SAFE_METHODS or g.get("person") is None:
        return None
    if not request.accept_mimetypes.accept_html or request.routing_exception is None:
        return None
    adapter, path = current_app.create_url_adapter(request), request.path
    while adapter is not None and path.strip("/"):
        path = path.rstrip("/").rpartition("/")[0] or "/"
        if adapter.test(path, "GET"):
            return path
    return None


def _handle_storage_error(error: StorageError) -> Response:
    log.error("%s %s: %s", request.method, request.path, error)
    return render_error(503, str(error) if isinstance(error, StorageBusy) else "")


def _handle_interrupted(error: sqlite3.OperationalError) -> Response:
    """Respond 503 to a query that `Database.read(seconds=…)` interrupted; raise other errors."""
    if str(error) != "interrupted":
        raise error
    return render_error(
        503, "This search takes too long. Narrow it to fewer days, or search for a longer fragment."
    )


def _handle_damage(error: sqlite3.DatabaseError) -> Response:
    """Respond 503 to a damaged page of a database; raise other errors."""
    if not is_damage(error):
        raise error
    log.error("%s %s: %s", request.method, request.path, error)
    return render_error(503, DAMAGED_MESSAGE, "Database damaged")


def render_error(status: int, text: str = "", headline: str = "") -> Response:
    title, default_text = ERROR_TEXTS.get(status, ERROR_TEXTS[500 if status >= 500 else 404])
    title, text = headline or title, text or default_text
    if g.get("person") is None or not request.accept_mimetypes.accept_html:
        return guard.refuse(status, text, headline=headline)
    try:
        body = layout.render_page("", "error.html", title=title, text=text)
    except (StorageError, sqlite3.Error):
        # The shell reads the databases too. If they fail, respond with a page without the shell.
        return guard.refuse(status, text, headline=headline)
    return make_response(body, status)
