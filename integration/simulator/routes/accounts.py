"""Routes of sessions, password resets, API tokens, sign-ups and the deletion of the account.

The specification shows no bodies of sign-ups; they are invented. Status: new → (PATCH with any `code`) →
confirmed → (PATCH `number`) → completed. Requests for a completed registration return 403. A sign-up creates
no second account in the simulator.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, g

from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context, get_world
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import numbers
from integration.simulator.records.authentication import API_KEY_IDLE_SECONDS, LoginService, Token, print_mail
from integration.simulator.records.people import CUSTOMER_ID, Person
from integration.simulator.routes.reads import select_page

blueprint = Blueprint("accounts", __name__)

_NAMES = {"first_name": bodies.non_empty_text, "last_name": bodies.non_empty_text, "company": bodies.text}
_NEW_FORM = bodies.Form({"email": bodies.email, **_NAMES}, ("email", "first_name", "last_name"))
_CHANGE_FORM = bodies.Form({"code": bodies.text, "number": bodies.phone_digits, **_NAMES})
_TOKEN_FORM = bodies.Form(
    {"name": bodies.non_empty_text, "expiry": bodies.make_check(int, accepts=lambda value: value > 0)},
    ("name",),
)
_TOKEN_FIELDS = ("token", "name", "user_id", "expiry", "created_at")
_MIN_PASSWORD_LENGTH = 8
_EMAIL_FORM = bodies.Form({"email": bodies.email}, ("email",))
_RESET_FORM = bodies.Form({"token": bodies.non_empty_text, "password": bodies.text}, ("token", "password"))


def _find_open_registration(hash_: str) -> dict[str, Any]:
    """Return the record of an open registration. Raises ErrorResponse."""
    record = get_simulator_context().registrations.get(hash_)
    if record is None:
        raise ErrorResponse(404, "Resource not found")
    if record["status"] == "completed":
        raise ErrorResponse(403, "Access denied")
    return record


def _get_login_service() -> LoginService:
    return get_simulator_context().login_service


@blueprint.post("/login")
def login() -> Response:
    body = bodies.read_object()
    token, nonce = _get_login_service().log_in(body.get("email"), body.get("password"))
    if token is None:
        return make_json_response({"message": "Two factor authentication required.", "nonce": nonce}, 202)
    return _make_login_response(token)


@blueprint.post("/login2fa")
def login2fa() -> Response:
    body = bodies.read_object()
    token = _get_login_service().verify_second_factor(body.get("nonce"), body.get("code"))
    return _make_login_response(token)


@blueprint.post("/logout")
def logout() -> Response:
    _get_login_service().revoke(g.token.secret)
    return make_json_response({"message": "Logout success"})


def _make_login_response(token: Token) -> Response:
    return make_json_response(
        {"message": "Login success", "user_token": token.secret, "user_id": token.person.id}
    )


"""Add routes for e-mail confirmation and password resets.

The texts of e-mails are printed on standard error. /_simulator/account shows the last reset token.
"""


def read_person() -> Person:
    person = _get_login_service().find_person(_EMAIL_FORM.read(bodies.read_object())["email"])
    if person is None:
        raise make_validation_error("email")
    return person


@blueprint.post("/confirmation")
def resend_confirmation() -> Response:
    print_mail(f"{read_person().email} is confirmed already")
    return make_json_response({"message": "Confirmation e-mail has been sent."})


@blueprint.post("/password")
def begin_password_reset() -> Response:
    _get_login_service().begin_reset(read_person())
    return make_json_response({"message": "Password reset e-mail has been sent."})


@blueprint.post("/reset")
def reset_password() -> Response:
    fields = _RESET_FORM.read(bodies.read_object())
    if len(fields["password"]) < _MIN_PASSWORD_LENGTH:
        raise make_validation_error("password")
    if not _get_login_service().reset_password(fields["token"], fields["password"]):
        raise make_validation_error("token")
    return make_json_response({"message": "Password has been changed."})


@blueprint.get("/apitokens")
def list_tokens() -> Response:
    rows = [token.as_record() for token in _get_login_service().list_api_keys(get_current_user())]
    return make_list_response(*select_page(rows, _TOKEN_FIELDS))


@blueprint.post("/apitokens")
def create_token() -> Response:
    fields, user = _TOKEN_FORM.read(bodies.read_object()), get_current_user()
    expiry = fields.get("expiry", API_KEY_IDLE_SECONDS)
    token = _get_login_service().create_api_key(user, fields["name"], float(expiry))
    if token is None:
        raise make_validation_error("name")
    return make_item_response(token.as_record(), 201)


@blueprint.delete("/apitokens/<token>")
def delete_token(token: str) -> Response:
    service = _get_login_service()
    if token not in [key.secret for key in service.list_api_keys(get_current_user())]:
        raise ErrorResponse(404, "Resource not found")
    service.revoke(token)
    return make_no_content_response()


@blueprint.delete("/customers/<key>")
def delete_account(key: str) -> Response:
    """Close the account: all tokens are revoked and logins are refused."""
    if not get_current_user().is_root or key != str(CUSTOMER_ID):
        raise ErrorResponse(403, "Access denied")
    get_simulator_context().login_service.close_account()
    get_simulator_context().traffic_generator.stop()
    return make_no_content_response()


def make_response(record: dict[str, Any]) -> Response:
    return make_item_response(record, path=f"/registrations/{record['hash']}")


@blueprint.post("/registrations")
def register() -> Response:
    fields, context = _NEW_FORM.read(bodies.read_object()), get_simulator_context()
    if any(person.email == fields["email"] for person in get_world().people):
        entry = {"code": "CU1001", "field": "email", "message": "This e-mail address is already in use."}
        raise ErrorResponse(400, "Validation error", [entry])
    hash_ = context.login_service.make_secret()
    record = {"hash": hash_, "status": "new", "number": None, "created_at": clock.utc_text(), **fields}
    context.registrations[hash_] = record
    return make_response(record)


@blueprint.get("/registrations/<hash_>")
def read_registration(hash_: str) -> Response:
    return make_response(_find_open_registration(hash_))


@blueprint.patch("/registrations/<hash_>")
def change_registration(hash_: str) -> Response:
    record = _find_open_registration(hash_)
    fields = _CHANGE_FORM.read(bodies.read_object(), is_change=True)
    if fields.pop("code", None):
        record["status"] = "confirmed"
    if fields.get("number"):
        record["status"] = "completed"
    record.update(fields)
    return make_response(record)


@blueprint.post("/registrations/<hash_>/resend")
def resend(hash_: str) -> Response:
    _find_open_registration(hash_)
    return make_json_response({"message": "The code has been sent."})


@blueprint.get("/registrations/<hash_>/numbers/<area>")
def list_numbers(hash_: str, area: str) -> Response:
    _find_open_registration(hash_)
    free_numbers = [numbers.make_london_number(n) for n in range(180, 190)]
    matching = [number for number in free_numbers if number[2:].startswith(area.removeprefix("0"))]
    if not matching:
        raise ErrorResponse(404, "Resource not found")
    return make_list_response({"e164": number, "areacode": area} for number in matching)
