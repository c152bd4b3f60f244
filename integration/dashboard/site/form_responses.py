"""How a form that does something answers: a script gets JSON and stays where it is, a browser a page."""

from __future__ import annotations

from flask import jsonify, redirect, request
from werkzeug.wrappers import Response

from integration.core.errors import error_body
from integration.dashboard.site import error_pages
from integration.dashboard.site.write_through import WriteResult


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
