"""Login, logout and setup pages: /login, /login/reset, /logout, /setup/<token>, /demo/<token>."""

from __future__ import annotations

from flask import Blueprint, Response, abort, g, make_response, render_template, request

from integration.access import audit, browser, login_throttle, passwords, people, sessions, setup_links
from integration.access.login import mail_queue
from integration.access.login_throttle import TooManyAttempts
from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.site import guard
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.login_start import find_device_id, list_user_texts, send_mails, start_login
from integration.outbound import mail_server
from integration.settings.demo_marker import EMAIL, is_demo
from integration.sqlite.database import Database


def make_blueprint(app_db: Database) -> Blueprint:
    """Return the routes that need no login."""
    blueprint = Blueprint(guard.LOGIN_BLUEPRINT, __name__)

    @blueprint.get("/login")
    def show_login() -> Response:
        target = guard.to_local_path(request.args.get("next"))
        if g.get("person") is not None:
            return redirect_to(target)
        token = browser.browser_token(request)
        reason = sessions.explain_end(app_db, token) if token else ""
        is_ended = reason or "ended" in request.args
        return _login_page(target, notice=f"You were logged out {reason}".strip() + "." if is_ended else "")

    @blueprint.post("/login")
    def log_in() -> Response:
        email, password = request.form.get("email", ""), request.form.get("password", "")
        target = guard.to_local_path(request.form.get("next"))
        address = request.remote_addr or ""
        try:
            attempt = login_throttle.begin_attempt(app_db, "password", email, address, find_device_id(email))
        except TooManyAttempts as too_many:
            return _login_page(target, str(too_many), 429, too_many.retry_after)
        try:
            person = people.authenticate(app_db, email, password)
        except passwords.TooManyLogins as overloaded:
            login_throttle.discard_attempt(app_db, attempt)
            return _login_page(target, str(overloaded), 503, 5)
        if person is None:
            # The input is not logged: it may be a password in the wrong field.
            existing_person = people.find(app_db, email)
            audit.record(
                app_db,
                existing_person.email if existing_person else "",
                "login",
                result="refused",
                address=address,
            )
            return _login_page(target, "E-mail address or password is wrong.", 401)
        login_throttle.discard_attempt(app_db, attempt)
        return start_login(person, target, "login")

    @blueprint.get("/login/reset")
    def show_reset() -> Response:
        return _reset_page(is_sent=request.args.get("sent") == "1")

    @blueprint.post("/login/reset")
    def request_reset() -> Response:
        if not _can_send_mail():
            return _reset_page(status=404)
        email, address = request.form.get("email", ""), request.remote_addr or ""
        try:
            # Counted even if it succeeds: each request sends an e-mail.
            login_throttle.begin_attempt(app_db, "reset", email, address, find_device_id(email))
        except TooManyAttempts as too_many:
            return _reset_page(str(too_many), 429, too_many.retry_after)
        # The account is looked up later, by the job that sends: this response takes the same time for all.
        mail_queue.request_reset(app_db, email)
        send_mails()
        return redirect_to("/login/reset?sent=1")

    @blueprint.post("/logout")
    def log_out() -> Response:
        token = browser.browser_token(request)
        if token is not None:
            sessions.end(app_db, token)
        response = redirect_to("/login")
        browser.drop_cookie(response)
        return response

    @blueprint.get("/setup/<token>", strict_slashes=False)
    def show_setup(token: str) -> Response:
        link = setup_links.find(app_db, token)
        return _invalid_link_page() if link is None else _setup_page(link)

    @blueprint.post("/setup/<token>", strict_slashes=False)
    def finish_setup(token: str) -> Response:
        link = setup_links.find(app_db, token)
        if link is None:
            return _invalid_link_page()
        password = request.form.get("password", "")
        if password != request.form.get("repeat", password):
            return _setup_page(link, "The two passwords differ.", 400)
        try:
            texts = list_user_texts(link.person, request.form.get("email", ""))
            person = setup_links.redeem(
                app_db, token, passwords.hash_password(password, texts), request.form.get("email")
            )
        except passwords.TooManyLogins as overloaded:
            return _setup_page(link, str(overloaded), 503)
        except DomainError as refusal:
            return _setup_page(link, str(refusal), 400)
        return _invalid_link_page() if person is None else start_login(person, "/", "password link used")

    @blueprint.get("/demo/<token>", strict_slashes=False)
    def show_demo(token: str) -> Response:
        _require_local_demo()
        if setup_links.find(app_db, token) is None:
            return _used_demo_page()
        return make_response(render_template("demo.html"))

    @blueprint.post("/demo/<token>", strict_slashes=False)
    def enter_demo(token: str) -> Response:
        _require_local_demo()
        person = setup_links.redeem(app_db, token, None)
        return _used_demo_page() if person is None else start_login(person, "/", "demo link used")

    return blueprint


def _require_local_demo() -> None:
    if not (is_demo(app_context().settings) and browser.is_local_request(request)):
        abort(404)


def _used_demo_page() -> Response:
    notice = "This link was already used. Log in with the password that the demo has printed."
    return _login_page("/", notice=notice, email=EMAIL)


def _login_page(
    target: str,
    error: str = "",
    status: int = 200,
    retry_after: int | None = None,
    *,
    notice: str = "",
    email: str = "",
) -> Response:
    page = render_template(
        "login.html", next=target, error=error, notice=notice, email=email, can_send_mail=_can_send_mail()
    )
    return _respond(page, status, retry_after)


def _reset_page(
    error: str = "", status: int = 200, retry_after: int | None = None, *, is_sent: bool = False
) -> Response:
    page = render_template(
        "reset_request.html",
        error=error,
        is_sent=is_sent,
        can_send_mail=_can_send_mail(),
        link_minutes=int(setup_links.RESET_SECONDS / 60),
    )
    return _respond(page, status, retry_after)


def _respond(page: str, status: int, retry_after: int | None) -> Response:
    response = make_response(page, status)
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def _can_send_mail() -> bool:
    context = app_context()
    return mail_server.load(context.settings, context.app_db) is not None


def _setup_page(link: setup_links.SetupLink, error: str = "", status: int = 200) -> Response:
    page = render_template(
        "setup.html",
        email=link.person.email if link.person else None,
        typed=request.form.get("email", "") if status != 200 else "",
        error=error,
        shortest=passwords.MIN_LENGTH,
    )
    return make_response(page, status)


def _invalid_link_page() -> Response:
    return guard.refuse(
        404,
        "This link has expired or was already used. Ask an administrator for a new one, "
        "or request a new password on the login page.",
    )
