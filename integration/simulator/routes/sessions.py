"""Routes of sessions, password resets and API tokens."""

from __future__ import annotations

from flask import Flask, Response, g

from integration.simulator.context import get_current_user, get_simulator_context
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records.authentication import LoginService, Token, print_mail
from integration.simulator.records.people import Person
from integration.simulator.routes.reads import select_page

_TOKEN_FIELDS = ("token", "name", "user_id", "expiry", "created_at")
_MIN_PASSWORD_LENGTH = 8
_EMAIL_FORM = bodies.Form({"email": bodies.email}, ("email",))
_RESET_FORM = bodies.Form({"token": bodies.non_empty_text, "password": bodies.text}, ("token", "password"))


def add_routes(app: Flask) -> None:
    _add_session_routes(app)
    _add_password_routes(app)
    _add_token_routes(app)


def _get_login_service() -> LoginService:
    return get_simulator_context().login_service


def _add_session_routes(app: Flask) -> None:
    @app.post("/login")
    def login() -> Response:
        body = bodies.read_object()
        token, nonce = _get_login_service().log_in(
            body.get("email"),
            body.get("password"),
            device=body.get("device_fingerprint"),
            is_remembered=body.get("remember_me") is True,
        )
        if token is None:
            return make_json_response({"message": "Two factor authentication required.", "nonce": nonce}, 202)
        return _make_login_response(token)

    @app.post("/login2fa")
    def login2fa() -> Response:
        body = bodies.read_object()
        token = _get_login_service().verify_second_factor(
            body.get("nonce"),
            body.get("code"),
            add_device=body.get("add_device") is True,
            is_remembered=body.get("remember_me") is True,
        )
        return _make_login_response(token)

    @app.post("/logout")
    def logout() -> Response:
        _get_login_service().revoke(g.token.secret)
        return make_json_response({"message": "Logout success"})


def _make_login_response(token: Token) -> Response:
    return make_json_response(
        {"message": "Login success", "user_token": token.secret, "user_id": token.person.id}
    )


def _add_password_routes(app: Flask) -> None:
    """Add routes for e-mail confirmation and password resets.

    The texts of e-mails are printed on standard error. /_simulator/account shows the last reset token.
    """

    def read_person() -> Person:
        person = _get_login_service().find_person(_EMAIL_FORM.read(bodies.read_object())["email"])
        if person is None:
            raise make_validation_error("email")
        return person

    @app.post("/confirmation")
    def resend_confirmation() -> Response:
        print_mail(f"{read_person().email} is confirmed already")
        return make_json_response({"message": "Confirmation e-mail has been sent."})

    @app.post("/password")
    def begin_password_reset() -> Response:
        _get_login_service().begin_reset(read_person())
        return make_json_response({"message": "Password reset e-mail has been sent."})

    @app.post("/reset")
    def reset_password() -> Response:
        fields = _RESET_FORM.read(bodies.read_object())
        if len(fields["password"]) < _MIN_PASSWORD_LENGTH:
            raise make_validation_error("password")
        if not _get_login_service().reset_password(fields["token"], fields["password"]):
            raise make_validation_error("token")
        return make_json_response({"message": "Password has been changed."})


def _add_token_routes(app: Flask) -> None:
    @app.get("/apitokens")
    def list_tokens() -> Response:
        rows = [token.as_record() for token in _get_login_service().list_api_keys(get_current_user())]
        return make_list_response(*select_page(rows, _TOKEN_FIELDS))

    @app.post("/apitokens")
    def create_token() -> Response:
        body = bodies.read_object()
        name, expiry = body.get("name"), body.get("expiry", 604800)
        if not isinstance(name, str) or not name:
            raise make_validation_error("name")
        if not isinstance(expiry, int) or expiry <= 0:
            raise make_validation_error("expiry")
        token = _get_login_service().create_api_key(get_current_user(), name, float(expiry))
        if token is None:
            raise make_validation_error("name")
        return make_item_response(token.as_record(), 201)

    @app.delete("/apitokens/<token>")
    def delete_token(token: str) -> Response:
        service = _get_login_service()
        if token not in [key.secret for key in service.list_api_keys(get_current_user())]:
            raise ErrorResponse(404, "Resource not found")
        service.revoke(token)
        return make_no_content_response()
