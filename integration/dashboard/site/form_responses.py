"""How a form that does something answers: a script gets JSON and stays where it is, a browser a page."""

from __future__ import annotations

from flask import jsonify, redirect, request
from werkzeug.wrappers import Response

from integration.core.errors import error_body
from integration.dashboard.site import error_pages as errors
from integration.dashboard.site.write_through import Said


def inline() -> bool:
    """Whether a script sent the form and wants to stay on its page."""
    return request.accept_mimetypes.best == "application/json"


def done(message: str, to: str) -> Response:
    """It was done: `message` for a script, else on to the page `to`."""
    if inline():
        return jsonify({"done": True, "message": message})
    return redirect(to, 303)


def refused(said: Said) -> Response:
    """It was not done, or nobody knows: why, in words."""
    if inline():
        # Told in words on the page, not by a status, which browsers put on the console as a fault.
        return jsonify({**error_body(said.message), "done": False, "fields": said.fields})
    status = said.status if said.status and 400 <= said.status < 500 else 502
    return errors.answer(status, said.message, "Not done" if said.status else "No answer")


def elsewhere(to: str) -> Response:
    """A question has to be answered on another page first."""
    return jsonify({"location": to}) if inline() else redirect(to, 303)
