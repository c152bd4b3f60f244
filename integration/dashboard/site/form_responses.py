"""Form handling: writes to the platform, responses for scripts and browsers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from flask import jsonify, redirect, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.core.errors import error_body
from integration.dashboard.site import after_redirect, error_pages
from integration.dashboard.site.guard import current_person
from integration.sync.writing import write_through
from integration.sync.writing.write_through import WriteRequest, WriteResult


def send_write(
    method: str,
    path: str,
    body: dict[str, Any] | list[dict[str, Any]] | None = None,
    *,
    once: bool = False,
    check: Callable[[sqlite3.Connection], None] | None = None,
) -> WriteResult:
    """Send one write to the platform for the current dashboard user.

    With `once` the form field `once` (`new_once()`) is the idempotency key: a double click or a reload gets
    the first result. Raises the DomainError of `check` (see WriteRequest) without sending.
    """
    form_id = request.form.get("once") if once else None
    write_request = WriteRequest(
        who=current_person().email,
        address=request.remote_addr or "",
        method=method,
        path=path,
        body=None if body is None else orjson.dumps(body),
        idempotency_key=f"form {form_id}" if form_id else None,
        may_repeat_refused=True,
        check=check,
    )
    return write_through.send(app_context(), write_request)


def is_script_request() -> bool:
    """Return whether a script sent the form.

    Scripts get JSON, browsers a page.
    """
    return request.accept_mimetypes.best == "application/json"


def respond_done(message: str, url: str, *, undo: Mapping[str, str] | None = None) -> Response:
    """Respond to a successful form.

    Scripts get `message`, and the `action` and `label` of a form that undoes it. Browsers get a redirect to
    `url`, which shows the message.
    """
    if is_script_request():
        return jsonify({"done": True, "message": message, **({"undo": undo} if undo else {})})
    return after_redirect.redirect_to(url, message)


def respond_question(question: str, label: str, fields: Mapping[str, str]) -> Response:
    """Request a confirmation from a script.

    A button `label` sends the same form with the additional `fields`.
    """
    return jsonify({"done": False, "message": question, "confirm": {"label": label, "fields": fields}})


def respond_refused(result: WriteResult) -> Response:
    """Respond with the reason of a refused write or an unknown result."""
    if is_script_request():
        # Status 200: the page shows the message, and browsers log every error status on the console.
        return jsonify({**error_body(result.message), "done": False, "fields": result.fields})
    status = result.status if result.status and 400 <= result.status < 500 else 502
    return error_pages.render_error(status, result.message, "Not saved" if result.status else "No response")


def respond(result: WriteResult, message: str, url: str) -> Response:
    """Respond to a write: with `message` if it is done, else with the reason."""
    return respond_done(message, url) if result.is_done else respond_refused(result)


def refuse(status: int, message: str) -> Response:
    return respond_refused(WriteResult(status, message))


def redirect_elsewhere(url: str) -> Response:
    """Send the user to another page that needs an input first."""
    return jsonify({"location": url}) if is_script_request() else redirect(url, 303)
