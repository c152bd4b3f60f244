"""Forms of the dashboard: send their writes; JSON for scripts, a page or redirect for browsers."""

from __future__ import annotations

from typing import Any

import orjson
from flask import jsonify, redirect, request
from werkzeug.wrappers import Response

from integration.context import app_context
from integration.core.errors import error_body
from integration.dashboard.site import error_pages
from integration.dashboard.site.guard import current_person
from integration.sync.writing import write_through
from integration.sync.writing.write_through import WriteRequest, WriteResult


def send_write(
    method: str,
    path: str,
    body: dict[str, Any] | list[dict[str, Any]] | None = None,
    *,
    once: bool = False,
) -> WriteResult:
    """Send one write to the platform as the person who is logged in.

    With `once` a form is sent once, by its field `once` (`new_once()`): a double click or a reload gets the
    first result.
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
    )
    return write_through.send(app_context(), write_request)


def wants_json() -> bool:
    """Whether a script sent the form and wants to stay on its page."""
    return request.accept_mimetypes.best == "application/json"


def respond_done(message: str, url: str) -> Response:
    """It was done: `message` for a script, else on to the page `url`."""
    if wants_json():
        return jsonify({"done": True, "message": message})
    return redirect(url, 303)


def respond_refused(result: WriteResult) -> Response:
    """It was not done, or nobody knows: why, in words."""
    if wants_json():
        # Told in words on the page, not by a status, which browsers put on the console as a fault.
        return jsonify({**error_body(result.message), "done": False, "fields": result.fields})
    status = result.status if result.status and 400 <= result.status < 500 else 502
    return error_pages.render_error(status, result.message, "Not done" if result.status else "No answer")


def redirect_elsewhere(url: str) -> Response:
    """A question has to be answered on another page first."""
    return jsonify({"location": url}) if wants_json() else redirect(url, 303)
