"""Own settings, password, second factor and sessions of a user: /profile."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, render_template, request

from integration.access import passwords, people, sessions
from integration.access.login import devices, second_factor
from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.site import after_redirect, layout, tabs
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import check_password, requires_confirmation
from integration.dashboard.site.guard import audit_action, current_person, current_session
from integration.dashboard.site.login_start import list_user_texts, put_session, send_mails
from integration.mirror.page_queries import phones
from integration.workspace import person_settings

PATH = "/profile"
blueprint = Blueprint("profile", __name__, url_prefix=PATH)

CODES_PATH = "/profile/second-factor/codes"
"""Path of the page that shows new recovery codes once."""


@blueprint.get("")
def index() -> str:
    return _render_page()


@blueprint.errorhandler(DomainError)
def show_refusal(refusal: DomainError) -> tuple[str, int]:
    return _render_page(refused=str(refusal)), 400


@blueprint.post("/start-page")
def save_start_page() -> Response | tuple[str, int]:
    person, path = current_person(), request.form.get("start_page", "")
    if path not in {tab.path for tab in tabs.list_tabs(person)}:
        return _render_page(refused="You don’t have access to this page. Choose another one."), 400
    person_settings.save(app_context().app_db, person.id, "start page", path)
    return redirect_to(PATH, "Saved.")


@blueprint.post("/name")
def save_name() -> Response:
    person_settings.save_name(app_context().app_db, current_person().id, request.form.get("name", ""))
    return redirect_to(PATH, "Saved.")


@blueprint.post("/password")
def change_password() -> Response | tuple[str, int]:
    app_db, person = app_context().app_db, current_person()
    new_password = request.form.get("password", "")
    error = check_password(person, request.form.get("current", ""), accepts_code=False)
    if error is not None:
        return _render_page(refused=error), 403
    if new_password != request.form.get("repeat", ""):
        return _render_page(refused="The two passwords differ."), 400
    try:
        new_hash = passwords.hash_password(new_password, list_user_texts(person))
    except passwords.TooManyLogins as overloaded:
        return _render_page(refused=str(overloaded)), 503
    people.set_password(app_db, person.email, new_hash)
    audit_action("password changed", person.email)
    response = redirect_to(PATH)
    token = put_session(response, person, "login", has_factor=_has_factor(person.id), notifies=False)
    message = "Password changed. All other browsers are logged out."
    after_redirect.put_message(PATH, message, token=token)
    return response


@blueprint.post("/second-factor/remove")
@requires_confirmation()
def remove_second_factor() -> Response:
    person = current_person()
    people.remove_second_factor(app_context().app_db, person.email)
    audit_action("second factor removed", person.email)
    send_mails()
    return redirect_to(PATH, "Second factor removed.")


@blueprint.post("/second-factor/codes")
@requires_confirmation()
def replace_recovery_codes() -> Response:
    person = current_person()
    codes = second_factor.replace_recovery_codes(app_context().app_db, person.id)
    audit_action("recovery codes replaced", person.email)
    return redirect_to(CODES_PATH, codes=codes, target=PATH)


@blueprint.get("/second-factor/codes")
def show_recovery_codes() -> str | Response:
    """Show new recovery codes once."""
    values = after_redirect.take()
    return render_template("recovery_codes.html", **values) if values else redirect_to(PATH)


@blueprint.post("/sessions/<int:number>/end")
def end_session(number: int) -> Response:
    app_db, person = app_context().app_db, current_person()
    if number not in {session.id for session in sessions.list_of_person(app_db, person.id)}:
        abort(404)
    sessions.revoke(app_db, number)
    audit_action("logged out", person.email)
    return redirect_to(PATH, "Logged out.")


@blueprint.post("/sessions/end-others")
def end_other_sessions() -> Response:
    person = current_person()
    sessions.revoke_all(app_context().app_db, person.id, except_id=current_session()[0].id)
    audit_action("logged out", person.email)
    return redirect_to(PATH, "Logged out.")


def _render_page(**values: Any) -> str:
    app_db, person = app_context().app_db, current_person()
    with app_db.read() as connection:
        recovery_codes = second_factor.count_recovery_codes(connection, person.id)
        entered_name = person_settings.load(connection, person.id, "name")
    with app_context().mirror_db.read() as connection:
        own_phone = phones.find_own_phone(connection, person.platform_user_id, person.email)
    return layout.render_page(
        "profile",
        "profile.html",
        sessions=sessions.list_of_person(app_db, person.id),
        own_session=current_session()[0],
        describe_agent=devices.describe_agent,
        has_factor=_has_factor(person.id),
        recovery_codes=recovery_codes,
        entered_name=entered_name,
        own_phone=own_phone,
        shortest=passwords.MIN_LENGTH,
        start_page=tabs.find_start_page(person),
        **values,
    )


def _has_factor(person_id: int) -> bool:
    with app_context().app_db.read() as connection:
        return second_factor.has_factor(connection, person_id)
