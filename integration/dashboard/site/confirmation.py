"""Confirmation before sensitive changes: by password, code or typed name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import Response, current_app, g, make_response, render_template, request
from werkzeug.datastructures import ImmutableMultiDict

from integration.access import audit, login_throttle, passwords, people, sessions
from integration.access.login import second_factor
from integration.access.login_throttle import TooManyAttempts
from integration.access.people import Person
from integration.context import app_context
from integration.dashboard.site import guard
from integration.dashboard.site.after_redirect import OnceValues
from integration.dashboard.site.form_responses import is_script_request
from integration.dashboard.site.login_start import find_device_id

P = ParamSpec("P")
R = TypeVar("R")

FIELD = "confirmation"
"""Form field with the password or code."""
SECRET_FIELDS = frozenset({"password", "secret"})
"""Form fields that the page of the confirmation does not contain. They are in memory instead."""
_SECRETS_EXTENSION = "switchroom secrets before confirmations"
_SECRETS_FIELD = "has_secrets"
"""Form field of the page whose form had secrets."""
NAME_FIELD = "confirm"
"""Form field with the name of the record that is to be deleted."""


def requires_confirmation(
    is_needed: Callable[[], bool] = lambda: True,
) -> Callable[[Callable[P, R]], Callable[P, R | Response]]:
    """Decorate a view: require a confirmation of the last ten minutes.

    Otherwise the response is a page that requests it and sends the form a second time. `is_needed` limits
    this to some forms. Secrets of the form are in memory for at most two minutes, not on the page.
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R | Response]:
        @wraps(view)
        def confirmed(*args: P.args, **kwargs: P.kwargs) -> R | Response:
            refusal = _restore_secrets()
            if refusal is None and is_needed():
                refusal = _refuse_unconfirmed()
            return view(*args, **kwargs) if refusal is None else refusal

        return confirmed

    return decorate


def is_name_typed(name: str) -> bool:
    """Return whether the form field `confirm` has the name of a record.

    Case and spaces do not matter.
    """
    return _fold_name(request.form.get(NAME_FIELD, "")) == _fold_name(name)


def _fold_name(name: str) -> str:
    return " ".join(name.split()).casefold()


def has_new_secret() -> bool:
    """Return whether the form changes the secret of a target."""
    return bool(request.form.get("secret", "").strip() or request.form.get("no_secret"))


def check_password(person: Person, text: str, *, accepts_code: bool) -> str | None:
    """Return None for the correct password or code, else the reason.

    Attempts are limited like those of a login.
    """
    app_db, address = app_context().app_db, request.remote_addr or ""
    is_code = accepts_code and second_factor.is_code(text)
    try:
        attempt = login_throttle.begin_attempt(
            app_db, "code" if is_code else "password", person.email, address, find_device_id(person.email)
        )
    except TooManyAttempts as too_many:
        return str(too_many)
    try:
        is_correct = (
            second_factor.verify(app_db, person.id, text) is not None
            if is_code
            else people.has_password(app_db, person, text)
        )
    except passwords.TooManyLogins as overloaded:
        login_throttle.discard_attempt(app_db, attempt)
        return str(overloaded)
    if is_correct:
        login_throttle.discard_attempt(app_db, attempt)
        return None
    audit.record(app_db, person.email, "confirmation", result="refused", address=address)
    return "The code is wrong or was used already." if is_code else "The password is wrong."


def _refuse_unconfirmed() -> Response | None:
    session, person = guard.current_session()
    if session.is_confirmed:
        return None
    text, error = request.form.get(FIELD), None
    if text is not None:
        error = check_password(person, text, accepts_code=True)
        if error is None:
            sessions.confirm(app_context().app_db, session.id)
            return None
    if is_script_request():
        return guard.refuse(403, "Confirm this change with your password: log out and log in again.")
    secrets = {name: request.form[name] for name in SECRET_FIELDS if request.form.get(name)}
    if secrets:
        _current_secrets().put(g.session_token, request.path, secrets)
    with app_context().app_db.read() as connection:
        has_factor = second_factor.has_factor(connection, person.id)
    page = render_template(
        "confirm.html",
        action=request.full_path.rstrip("?"),
        fields=[
            (name, value)
            for name, value in request.form.items(multi=True)
            if name not in (FIELD, "csrf_token", _SECRETS_FIELD, *SECRET_FIELDS)
        ]
        + [(_SECRETS_FIELD, "1")] * bool(secrets),
        email=person.email,
        has_factor=has_factor,
        error=error,
        minutes=int(sessions.CONFIRMED_SECONDS / 60),
    )
    return make_response(page, 403)


def _restore_secrets() -> Response | None:
    """Add the secrets of the form before the confirmation. Returns the refusal if they are dropped."""
    if _SECRETS_FIELD not in request.form:
        return None
    secrets = _current_secrets().take(g.session_token, request.path)
    if not secrets:
        reason = "the confirmation took longer than two minutes. Go back and enter the secret again."
        return guard.refuse(400, f"Not saved: {reason}")
    request.form = ImmutableMultiDict([*request.form.items(multi=True), *secrets.items()])
    return None


def _current_secrets() -> OnceValues:
    values: OnceValues = current_app.extensions.setdefault(_SECRETS_EXTENSION, OnceValues())
    return values
