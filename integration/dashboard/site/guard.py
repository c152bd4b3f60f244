"""Access control of the dashboard: login, roles, rights and CSRF protection.

Every route requires a login unless its endpoint or blueprint is named as open at the installation of the
guard. Open routes check their own credentials (receiver, facade, metrics) or need none (health, static). The
login and setup forms need no login, but they require a CSRF token like every other unsafe route.

A login that lacks the second factor opens only the pages of SECOND_FACTOR_BLUEPRINT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar
from urllib.parse import urlencode

from flask import Flask, Response, abort, g, jsonify, make_response, redirect, render_template, request

from integration.access import audit, browser, sessions, visibility
from integration.access.people import Person
from integration.access.rights import EXPORTS_ONLY, Role, has
from integration.access.sessions import Session
from integration.access.visibility import AgentsSee, Visibility
from integration.context import app_context
from integration.core import tokens
from integration.core.errors import error_body
from integration.live.stream import Viewer
from integration.maintenance.database_checks import describe_repair
from integration.sqlite.database import Database

P = ParamSpec("P")
R = TypeVar("R")

LOGIN_BLUEPRINT = "login"
"""Blueprint of the login and setup forms."""
SECOND_FACTOR_BLUEPRINT = "second_factor"
"""Blueprint of the pages on which a second factor is entered or set up."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_FORM_BYTES = 1024 * 1024
"""Bytes of a request body; the forms of the dashboard are smaller."""
UPLOAD_ENDPOINT = "account.save_record"
"""Endpoint of the forms that can have an audio file."""
MAX_UPLOAD_FORM_BYTES = 6 * 1024 * 1024
"""Bytes of a form with a file of at most 5 MB."""
MAX_LOGIN_FORM_BYTES = 16 * 1024
"""Bytes of a request body. The limit is lower because these forms need no login."""

OPEN_TO_EXPORTS_ONLY = frozenset(
    {
        *("exports", "export", "schedules.index", "schedules.remove_file"),
        *("reports", "report_missed", "report_labels", "report_summary"),
        *("profile", "help", "static", LOGIN_BLUEPRINT, SECOND_FACTOR_BLUEPRINT),
    }
)
"""Endpoints and blueprints that a user with the role EXPORTS_ONLY can open. All others are closed."""
HOME_OF_EXPORTS_ONLY = "/exports"

NO_ACCESS = "You don’t have access to this page. Ask an administrator."
REFUSALS: Mapping[str, str] = {
    "export": "You don’t have permission to export. Ask an administrator.",
    "recordings": "You don’t have permission to play recordings. Ask an administrator.",
}
"""Text of a refusal by the missing right; a missing role has NO_ACCESS."""

HEADLINES: Mapping[int, str] = {400: "Bad request", 403: "Not allowed", 404: "Page not found", 503: "Busy"}
"""Headline of a refusal by its status."""

_LOCAL_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


@dataclass(frozen=True, slots=True)
class Guard:
    """Checks before each request.

    `open_to_all` names the endpoints and blueprints that need no login.
    """

    app_db: Database
    public_url: str | None
    agents_see: AgentsSee
    second_factor_roles: Collection[Role]
    open_to_all: Collection[str]

    def install(self, app: Flask) -> None:
        """Check every route of `app`.

        Call this before any other `before_request` is added. Templates get `csrf_token()` and `person` (None
        before login).
        """
        app.before_request(self.check)
        app.after_request(self.finish)
        app.jinja_env.globals["csrf_token"] = csrf_token
        app.context_processor(lambda: {"person": g.get("person")})

    def check(self) -> Response | None:
        """Check login and CSRF token before each request.

        The login is checked before the body is read.
        """
        if request.endpoint in self.open_to_all or request.blueprint in self.open_to_all:
            return None
        if self.app_db.damage is not None:
            # Pages could show wrong rights, and lose what users enter.
            text = f"Webhooks are stored and records are synced. {describe_repair(self.app_db.name)}"
            return refuse(503, text, headline=f"{self.app_db.name} is damaged")
        request.max_content_length = (
            MAX_LOGIN_FORM_BYTES
            if request.blueprint in (LOGIN_BLUEPRINT, SECOND_FACTOR_BLUEPRINT)
            else MAX_UPLOAD_FORM_BYTES
            if request.endpoint == UPLOAD_ENDPOINT
            else MAX_FORM_BYTES
        )
        token = browser.browser_token(request)
        login = (
            sessions.find_incomplete(self.app_db, token, second_factor_roles=self.second_factor_roles)
            if token
            else None
        )
        if login is not None:
            g.session, g.session_person = login
            g.session_token = token
            if g.session.state == "complete":
                g.person = g.session_person
        if not self._is_login_sufficient():
            return _redirect_to_login()
        person = g.get("person")
        if person is not None and not can_open(person, request.endpoint):
            if request.path == "/" and request.method in SAFE_METHODS:
                return make_response(redirect(HOME_OF_EXPORTS_ONLY))
            return refuse(403, NO_ACCESS)
        if request.method not in SAFE_METHODS:
            return self._reject_forged(token)
        return None

    def finish(self, response: Response) -> Response:
        """Set the cookie of a browser that got its first form.

        The CSRF token of the form is bound to the cookie.
        """
        new_token = g.pop("fresh_token", None)
        if new_token is not None:
            browser.put_cookie(response, new_token, logged_in=False)
        return response

    def viewer(self) -> Viewer:
        """Return the viewer of a live stream.

        The stream ends with the session or a change of visibility. `?viewer=` is the viewer for whom the
        page was rendered (`describe_viewer`).
        """
        person, token = current_person(), g.session_token
        seen = visibility.of(person, self.agents_see)
        viewer_at_start = request.args.get("viewer") or describe_viewer(person, seen)

        def is_still_valid() -> bool:
            login = sessions.find(
                self.app_db, token, touch=False, second_factor_roles=self.second_factor_roles
            )
            if login is None:
                return False
            return describe_viewer(login[1], visibility.of(login[1], self.agents_see)) == viewer_at_start

        return Viewer(person, g.session.id, seen, is_still_valid)

    def _is_login_sufficient(self) -> bool:
        if request.blueprint == LOGIN_BLUEPRINT or g.get("person") is not None:
            return True
        return request.blueprint == SECOND_FACTOR_BLUEPRINT and g.get("session") is not None

    def _reject_forged(self, token: str | None) -> Response | None:
        origin = browser.foreign_origin(request, self.public_url)
        if origin is not None:
            return refuse(
                403,
                f"This request was sent by {origin}, which isn't the address of this dashboard. "
                "If it should be, set server.public_url or server.trusted_proxies.",
            )
        sent_token = request.headers.get("X-CSRF-Token") or request.form.get("csrf_token", "")
        expected_token = sessions.derive_csrf_token(token) if token else ""
        if not expected_token or not tokens.matches(sent_token, tokens.digest(expected_token)):
            return refuse(403, "This form is out of date. Go back, reload the page and try again.")
        return None


def current_person() -> Person:
    """Return the dashboard user of this request. Only for routes that need a login."""
    person: Person = g.person
    return person


def can_open(person: Person, endpoint: str | None) -> bool:
    """Return whether the role of a dashboard user is not closed to an endpoint.

    None: no route has the path, so the response is 404.
    """
    if person.role != EXPORTS_ONLY or endpoint is None:
        return True
    return not OPEN_TO_EXPORTS_ONLY.isdisjoint((endpoint, endpoint.partition(".")[0]))


def current_session() -> tuple[Session, Person]:
    """Return session and dashboard user of this request.

    The second factor may be missing. Only for pages of SECOND_FACTOR_BLUEPRINT. Others use `current_person`.
    """
    return g.session, g.session_person


def describe_viewer(person: Person, seen: Visibility) -> str:
    """Return a text that differs between dashboard users, and after each change of what a user sees.

    Pages have it, so that they are replaced when it changes.
    """
    return f"{person.id} {seen.role} {','.join(sorted(seen.rights))} {seen.user_scope or ''}"


def audit_action(action: str, details: str = "") -> None:
    """Record an action of the current dashboard user in the audit log."""
    app_db = app_context().app_db
    audit.record(app_db, current_person().email, action, details, address=request.remote_addr or "")


def csrf_token() -> str:
    """Return the CSRF token of this browser.

    Forms send it in the field `csrf_token`, scripts in the header `X-CSRF-Token`. It is derived once for each
    page: a list of a hundred callers has five hundred forms.
    """
    if "csrf_token" not in g:
        token = browser.browser_token(request) or g.get("fresh_token")
        if token is None:
            token = g.fresh_token = tokens.new()
        g.csrf_token = sessions.derive_csrf_token(token)
    return str(g.csrf_token)


def requires(role_or_right: str, *others: str) -> Callable[[Callable[P, R]], Callable[P, R | Response]]:
    """Decorate a view: require at least this role, or this right, or one of `others`.

    Other users get 403.
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R | Response]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | Response:
            if not any(has(current_person(), name) for name in (role_or_right, *others)):
                message = REFUSALS.get(role_or_right, NO_ACCESS)
                if _is_page_request():
                    # The error page has the menu of the dashboard.
                    abort(403, message)
                return refuse(403, message)
            return view(*args, **kwargs)

        return guarded

    return decorate


def refuse(status: int, message: str, *, headline: str = "") -> Response:
    """Respond with an error: a page for browsers, JSON for scripts.

    `headline` of the page: '' for that of the status.
    """
    if not _is_page_request():
        return make_response(jsonify(error_body(message)), status)
    headline = headline or HEADLINES.get(status, "Not available")
    return make_response(render_template("notice.html", message=message, headline=headline), status)


def to_local_path(target: str | None) -> str:
    """Return `target` if it is a local path, else '/'.

    The result is the path of the redirect after login. It is never a path of login, logout or setup.
    """
    if target and len(target) <= 2000 and _LOCAL_PATH.fullmatch(target):
        path = target.partition("?")[0]
        if path not in ("/login", "/logout") and not path.startswith(("/setup/", "/demo/", "/login/")):
            return target
    return "/"


def _redirect_to_login() -> Response:
    if request.url_rule is None and not _is_page_request():
        return refuse(404, "There is nothing at this path.")
    if not _is_page_request() or request.method not in SAFE_METHODS:
        return refuse(401, "Log in first.")
    target = to_local_path(request.full_path.rstrip("?"))
    query = "" if target == "/" else "?" + urlencode({"next": target})
    session = g.get("session")
    path = {"code": "/login/code", "setup": "/login/second-factor"}[session.state] if session else "/login"
    return make_response(redirect(f"{path}{query}", 302))


def _is_page_request() -> bool:
    """Return whether a browser requests a page.

    Scripts and clients of the API get JSON.
    """
    if "X-Auth-Token" in request.headers or request.authorization is not None:
        return False
    if request.headers.get("Sec-Fetch-Dest", "document") != "document":
        return False
    best = request.accept_mimetypes.best_match(("text/html", "application/json", "text/event-stream"))
    return best == "text/html"
