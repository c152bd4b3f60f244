"""Settings of dashboard users for administrators: roles, rights, setup links and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, abort, request

from integration.access import people, sessions, setup_links
from integration.access.login import devices, second_factor
from integration.access.rights import RIGHTS, ROLE_LABELS
from integration.context import app_context
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.settings.page import (
    list_phone_users,
    make_blueprint,
    parse_platform_user_id,
    render,
)
from integration.dashboard.site import edit_versions
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action
from integration.dashboard.site.login_start import send_mails
from integration.settings.base_url import find_base_url
from integration.workspace import person_settings

PATH = "/settings/people"

DEFAULT_RIGHT_LABEL = "Default for role"
"""Label of a right that is neither granted nor denied by name."""


def _render_page(**values: Any) -> str:
    return render(
        "settings_people.html",
        people=people.list_all(app_context().app_db),
        users={user["id"]: user for user in list_phone_users()},
        key_rights=RIGHTS.values(),
        link_hours=int(setup_links.VALID_SECONDS / 3600),
        **values,
    )


blueprint = make_blueprint("people", PATH, _render_page)


@blueprint.post("")
@requires_confirmation()
def add_person() -> Response:
    app_db = app_context().app_db
    person = people.create(
        app_db,
        request.form.get("email", ""),
        request.form.get("role", "viewer"),
        platform_user_id=parse_platform_user_id(),
    )
    audit_action("user added", f"{person.email}, {ROLE_LABELS[person.role]}")
    return redirect_to(PATH, link=_make_setup_link(person), link_for=person.email)


@blueprint.get("/<int:number>")
def show_person(number: int) -> str:
    return _render_person(_require_person(number))


@blueprint.post("/<int:number>")
@requires_confirmation()
def change_person(number: int) -> Response | tuple[str, int]:
    """Change the role, the rights and the phone user in one transaction.

    Only fields that the user changed are stored. If another user has changed one of them since the form was
    shown, nothing is stored.
    """
    person = _require_person(number)
    stored = _form_values(person)
    entered = {name: request.form.get(name, value).strip() for name, value in stored.items()}
    edit = edit_versions.compare(entered, stored)
    kept = {name: entered[name] for name in edit.changed}
    if edit.conflicts:
        result = edit_versions.make_refusal({name: _describe(name, stored[name]) for name in edit.conflicts})
        return _render_person(person, kept, refused=result.message, mistakes=result.fields), 409
    granted = {"yes": True, "no": False, "": None}
    try:
        updated_person = people.change(
            app_context().app_db,
            person.email,
            role=kept.get("role"),
            rights={name: granted.get(value) for name, value in kept.items() if name in RIGHTS},
            platform_user_id=parse_platform_user_id() if "platform_user_id" in kept else "unchanged",
        )
    except DomainError as refusal:
        return _render_person(person, kept, refused=str(refusal)), 400
    if "name" in kept:
        person_settings.save_name(app_context().app_db, person.id, kept["name"])
    audit_action("user changed", people.describe_access(updated_person))
    return redirect_to(PATH, "Changed.")


@blueprint.post("/<int:number>/reset")
@requires_confirmation()
def reset_person(number: int) -> Response:
    person = _require_person(number)
    link = _make_setup_link(person)
    audit_action("password link created", person.email)
    return redirect_to(PATH, link=link, link_for=person.email)


@blueprint.post("/<int:number>/second-factor/remove")
@requires_confirmation()
def remove_second_factor(number: int) -> Response:
    person = _require_person(number)
    people.remove_second_factor(app_context().app_db, person.email)
    audit_action("second factor removed", person.email)
    send_mails()
    return redirect_to(PATH, "Removed.")


@blueprint.post("/<int:number>/remove")
@requires_confirmation()
def remove_person(number: int) -> Response:
    person = _require_person(number)
    people.remove(app_context().app_db, person.email)
    audit_action("user removed", person.email)
    return redirect_to(PATH, "Removed.")


@blueprint.post("/<int:number>/log-out")
def end_session(number: int) -> Response:
    """End one session of a dashboard user, or all of them."""
    app_db, person = app_context().app_db, _require_person(number)
    session_text = request.form.get("session", "")
    if session_text:
        session_id = parse_id(session_text)
        if session_id not in {session.id for session in sessions.list_of_person(app_db, person.id)}:
            raise DomainError("This session has already ended.")
        sessions.revoke(app_db, session_id, by_admin=True)
    else:
        sessions.revoke_all(app_db, person.id, by_admin=True)
    audit_action("logged out", person.email)
    return redirect_to(f"{PATH}/{person.id}", "Logged out.")


def _form_values(person: people.Person) -> dict[str, str]:
    """Return the stored values in the form of the fields."""
    explicit = people.load_explicit_rights(app_context().app_db, person.id)
    rights = {right: {True: "yes", False: "no", None: ""}[explicit.get(right)] for right in RIGHTS}
    with app_context().app_db.read() as connection:
        name = person_settings.load(connection, person.id, "name") or ""
    return {
        "role": person.role,
        **rights,
        "name": name,
        "platform_user_id": str(person.platform_user_id or ""),
    }


def _describe(name: str, value: str) -> str:
    """Return the label of a value of the form."""
    if name != "platform_user_id":
        return ROLE_LABELS.get(value, value) or DEFAULT_RIGHT_LABEL
    names = {str(user["id"]): user["name"] for user in list_phone_users()}
    return names.get(value) or value


def _render_person(person: people.Person, entered: Mapping[str, str] | None = None, **values: Any) -> str:
    """Render the page of a dashboard user.

    `entered` replaces stored values of the form.
    """
    stored = _form_values(person)
    context = app_context()
    with context.app_db.read() as connection:
        has_factor = second_factor.has_factor(connection, person.id)
    return render(
        "settings_person.html",
        known=person,
        has_factor=has_factor,
        own=stored | dict(entered or {}),
        version=edit_versions.make_version(stored),
        DEFAULT_RIGHT=DEFAULT_RIGHT_LABEL,
        users=list_phone_users(),
        sessions=sessions.list_of_person(context.app_db, person.id),
        rights=RIGHTS.values(),
        describe_agent=devices.describe_agent,
        **values,
    )


def _require_person(number: int) -> people.Person:
    person = people.get(app_context().app_db, number)
    if person is None:
        abort(404)
    return person


def _make_setup_link(person: people.Person) -> str:
    context = app_context()
    return setup_links.create_link(context.app_db, person.email, find_base_url(context.settings))
