"""Second factor: the code at a login, and its set-up: /login/code, /login/second-factor."""

from __future__ import annotations

from urllib.parse import urlencode

import segno
from flask import Blueprint, Response, make_response, render_template, request

from integration.access import audit, login_throttle, sessions
from integration.access.login import mail_queue, second_factor
from integration.access.login_throttle import TooManyAttempts
from integration.access.people import Person
from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.profile.own_login import CODES_PATH
from integration.dashboard.site import after_redirect, guard
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.login_start import (
    describe_client,
    find_device_id,
    put_session,
    start_session,
)

blueprint = Blueprint(guard.SECOND_FACTOR_BLUEPRINT, __name__, url_prefix="/login")

QR_MODULE_PIXELS = 5
"""Pixels of a square of the QR code, which then fills the card of a narrow screen."""
GROUP_LENGTH = 4
"""Characters between the blanks of a secret that is typed by hand."""


@blueprint.get("/code")
def show_code_form() -> Response:
    if guard.current_session()[0].state != "code":
        return redirect_to(_get_target())
    return _code_page()


@blueprint.post("/code")
def check_code() -> Response:
    session, person = guard.current_session()
    if session.state != "code":
        return redirect_to(_get_target())
    app_db, address = app_context().app_db, request.remote_addr or ""
    try:
        attempt = login_throttle.begin_attempt(
            app_db, "code", person.email, address, find_device_id(person.email)
        )
    except TooManyAttempts as too_many:
        response = _code_page(str(too_many), 429)
        response.headers["Retry-After"] = str(too_many.retry_after)
        return response
    kind = second_factor.verify(app_db, person.id, request.form.get("code", ""))
    if kind is None:
        audit.record(app_db, person.email, "login", result="wrong code", address=address)
        return _code_page("The code is wrong or was used already. Wait for the next one.", 401)
    login_throttle.discard_attempt(app_db, attempt)
    if kind == "recovery code":
        client_text = describe_client()
        app_db.write(lambda tx: mail_queue.add_notice(tx, person.id, "recovery code used", client_text))
    action = "login" if kind == "code" else "login with a recovery code"
    return start_session(person, _get_target(), action, has_factor=True)


@blueprint.get("/second-factor")
def show_setup() -> Response:
    session, person = guard.current_session()
    with app_context().app_db.read() as connection:
        if second_factor.has_factor(connection, person.id):
            return redirect_to("/profile" if session.state == "complete" else "/login/code")
    return _setup_page(person)


@blueprint.post("/second-factor/start")
@requires_confirmation()
def start_setup() -> Response:
    person = guard.current_session()[1]
    try:
        second_factor.start_setup(app_context().app_db, person.id)
    except DomainError as refusal:
        return guard.refuse(400, str(refusal))
    return redirect_to("/login/second-factor?" + urlencode({"next": _get_target()}))


@blueprint.post("/second-factor")
def finish_setup() -> Response:
    """Enable the second factor; the next page shows the recovery codes once."""
    session, person = guard.current_session()
    app_db = app_context().app_db
    if session.state == "code":
        return redirect_to("/login/code")
    recovery_codes = second_factor.enable(app_db, person.id, request.form.get("code", ""))
    if recovery_codes is None:
        return _setup_page(
            person,
            "The code is wrong. Check the clock of your device, and enter the next code.",
            400,
        )
    client_text = describe_client()
    app_db.write(lambda tx: mail_queue.add_notice(tx, person.id, "second factor added", client_text))
    # Other browsers have not entered a code.
    sessions.revoke_all(app_db, person.id)
    response = redirect_to(CODES_PATH)
    token = put_session(response, person, "second factor added", has_factor=True, notifies=False)
    after_redirect.put(CODES_PATH, token=token, codes=recovery_codes, target=_get_target("/profile"))
    return response


def _code_page(error: str = "", status: int = 200) -> Response:
    return make_response(render_template("login_code.html", next=_get_target(), error=error), status)


def _setup_page(person: Person, error: str = "", status: int = 200) -> Response:
    secret = second_factor.load_setup_secret(app_context().app_db, person.id)
    page = render_template(
        "second_factor.html",
        next=_get_target("/profile"),
        error=error,
        is_required=guard.current_session()[0].state == "setup",
        secret=secret
        and " ".join(secret[start : start + GROUP_LENGTH] for start in range(0, len(secret), GROUP_LENGTH)),
        qr_code=secret and _draw_qr_code(second_factor.make_uri(secret, person.email)),
    )
    return make_response(page, status)


def _draw_qr_code(uri: str) -> str:
    """Return a `data:` URI of an SVG, always black on white.

    Many apps cannot read the inverse of the dark mode."""
    return segno.make(uri, error="m", micro=False).svg_data_uri(
        scale=QR_MODULE_PIXELS, dark="#000", light="#fff"
    )


def _get_target(default: str = "/") -> str:
    target = guard.to_local_path(request.values.get("next"))
    return default if target == "/" else target
