"""Sessions, forgotten passwords and API tokens over HTTP."""

from __future__ import annotations

from flask import Flask, Response, g

from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    Answered,
    caller,
    invalid,
    item,
    listing,
    machine,
    no_content,
    reply,
)
from integration.simulator.records.authentication import Denied, Token
from integration.simulator.routes.reads import select

_TOKEN_FIELDS = ("token", "name", "user_id", "expiry", "created_at")
_LEAST_PASSWORD = 8


def add_routes(app: Flask) -> None:
    _add_sessions(app)
    _add_passwords(app)
    _add_tokens(app)


def _add_sessions(app: Flask) -> None:
    @app.post("/login")
    def login() -> Response:
        sent = bodies.sent()
        try:
            token, nonce = machine().doorman.log_in(
                sent.get("email"),
                sent.get("password"),
                device=sent.get("device_fingerprint"),
                remember=sent.get("remember_me") is True,
            )
        except Denied as error:
            raise Answered(error.status, str(error)) from error
        if token is None:
            return reply({"message": "Two factor authentication required.", "nonce": nonce}, 202)
        return _welcome(token)

    @app.post("/login2fa")
    def login2fa() -> Response:
        sent = bodies.sent()
        try:
            token = machine().doorman.second_factor(
                sent.get("nonce"),
                sent.get("code"),
                add_device=sent.get("add_device") is True,
                remember=sent.get("remember_me") is True,
            )
        except Denied as error:
            raise Answered(error.status, str(error)) from error
        return _welcome(token)

    @app.post("/logout")
    def logout() -> Response:
        machine().doorman.revoke(g.token.secret)
        return reply({"message": "Logout success"})


def _welcome(token: Token) -> Response:
    return reply({"message": "Login success", "user_token": token.secret, "user_id": token.person.id})


def _add_passwords(app: Flask) -> None:
    """What would go out by e-mail is printed on standard error, and shown at /_simulator/account."""

    @app.post("/confirmation")
    def confirmation() -> Response:
        fields = bodies.Form({"email": bodies.email}, ("email",)).read(bodies.sent())
        if not machine().doorman.confirm_again(fields["email"]):
            raise invalid("email")
        return reply({"message": "Confirmation e-mail has been sent."})

    @app.post("/password")
    def forgotten() -> Response:
        fields = bodies.Form({"email": bodies.email}, ("email",)).read(bodies.sent())
        if not machine().doorman.begin_reset(fields["email"]):
            raise invalid("email")
        return reply({"message": "Password reset e-mail has been sent."})

    @app.post("/reset")
    def reset() -> Response:
        form = bodies.Form({"token": bodies.filled, "password": bodies.text}, ("token", "password"))
        fields = form.read(bodies.sent())
        if len(fields["password"]) < _LEAST_PASSWORD:
            raise invalid("password")
        if not machine().doorman.reset(fields["token"], fields["password"]):
            raise invalid("token")
        return reply({"message": "Password has been changed."})


def _add_tokens(app: Flask) -> None:
    @app.get("/apitokens")
    def list_tokens() -> Response:
        rows = [token.record() for token in machine().doorman.keys_of(caller())]
        return listing(*select(rows, _TOKEN_FIELDS))

    @app.post("/apitokens")
    def make_token() -> Response:
        sent = bodies.sent()
        name, expiry = sent.get("name"), sent.get("expiry", 604800)
        if not isinstance(name, str) or not name:
            raise invalid("name")
        if not isinstance(expiry, int) or expiry <= 0:
            raise invalid("expiry")
        token = machine().doorman.make_key(caller(), name, float(expiry))
        if token is None:
            raise invalid("name")
        return item(token.record(), 201)

    @app.delete("/apitokens/<token>")
    def drop_token(token: str) -> Response:
        mine = {entry.secret for entry in machine().doorman.keys_of(caller())}
        if token not in mine or not machine().doorman.revoke(token):
            raise Answered(404, "Resource not found")
        return no_content()
