"""/login, /logout, /setup/<token>."""

from __future__ import annotations

from flask import Blueprint, Response, g, make_response, redirect, render_template, request

from integration.access import audit, passwords, people, sessions, setup_links
from integration.access import browser as security
from integration.access import login_throttle as attempts
from integration.access.login_throttle import TooManyAttempts
from integration.core.refused import Refused
from integration.dashboard.site import guard
from integration.sqlite.database import Database


def make_login(house: Database) -> Blueprint:
    """The routes that need no login."""
    blueprint = Blueprint(guard.BEFORE_LOGIN, __name__)

    @blueprint.get("/login")
    def form() -> Response:
        target = guard.own_path(request.args.get("next"))
        if g.get("person") is not None:
            return make_response(redirect(target))
        return _login_page(target)

    @blueprint.post("/login")
    def log_in() -> Response:
        email, password = request.form.get("email", ""), request.form.get("password", "")
        target = guard.own_path(request.form.get("next"))
        address = request.remote_addr or ""
        try:
            attempt = attempts.begin(house, "password", email, address)
        except TooManyAttempts as many:
            return _login_page(target, str(many), 429, many.retry_after)
        try:
            person = people.authenticate(house, email, password)
        except passwords.Busy as busy:
            attempts.succeeded(house, attempt)
            return _login_page(target, str(busy), 503, 5)
        if person is None:
            # What was typed stays out of the audit: it may be a password in the wrong field.
            known = people.find(house, email)
            audit.record(house, known.email if known else "", "login", result="refused", address=address)
            return _login_page(target, "E-mail address or password is wrong.", 401)
        attempts.succeeded(house, attempt)
        return _welcome(house, person, target, "login")

    @blueprint.post("/logout")
    def log_out() -> Response:
        token = security.browser_token(request)
        if token is not None:
            sessions.end(house, token)
        response = make_response(redirect("/login", 303))
        security.drop_cookie(response)
        return response

    @blueprint.get("/setup/<token>")
    def set_up(token: str) -> Response:
        link = setup_links.look(house, token)
        return _no_link() if link is None else _setup_page(link)

    @blueprint.post("/setup/<token>")
    def finish_set_up(token: str) -> Response:
        link = setup_links.look(house, token)
        if link is None:
            return _no_link()
        password = request.form.get("password", "")
        if password != request.form.get("repeat", password):
            return _setup_page(link, "The two passwords differ.", 400)
        try:
            person = setup_links.use(
                house, token, passwords.hash_password(password), request.form.get("email")
            )
        except passwords.Busy as busy:
            return _setup_page(link, str(busy), 503)
        except Refused as refusal:
            return _setup_page(link, str(refusal), 400)
        return _no_link() if person is None else _welcome(house, person, "/", "set-up link used")

    return blueprint


def _login_page(target: str, error: str = "", status: int = 200, retry_after: int | None = None) -> Response:
    response = make_response(render_template("login.html", next=target, error=error), status)
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def _setup_page(link: setup_links.SetupLink, error: str = "", status: int = 200) -> Response:
    page = render_template(
        "setup.html",
        email=link.person.email if link.person else None,
        typed=request.form.get("email", "") if status != 200 else "",
        error=error,
        shortest=passwords.SHORTEST,
    )
    return make_response(page, status)


def _no_link() -> Response:
    return guard.refuse(
        404, "This set-up link was used already or is too old. Ask an administrator for a new one."
    )


def _welcome(house: Database, person: people.Person, target: str, how: str) -> Response:
    address = request.remote_addr or ""
    token = sessions.begin(
        house,
        person.id,
        address=address,
        agent=request.headers.get("User-Agent", ""),
        instead_of=security.browser_token(request),
    )
    audit.record(house, person.email, how, address=address)
    response = make_response(redirect(target, 303))
    security.put_cookie(response, token, logged_in=True)
    return response
