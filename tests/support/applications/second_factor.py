"""Authenticator app, and set-up of a second factor."""

from __future__ import annotations

import re

import pyotp

from tests.support.application import TestApp
from tests.support.applications.login_site import Visitor
from tests.support.clock import Clock

STEP_SECONDS = 30


def read_codes(page: str) -> list[str]:
    """Recovery codes on a page."""
    return re.findall(r"<li>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</li>", page)


class AuthenticatorApp:
    """Authenticator app with the secret of a set-up page.

    Its clock is that of the product.
    """

    def __init__(self, page: str, clock: Clock) -> None:
        found = re.search(r'class="mono break">([A-Z2-7 ]+)</p>', page)
        assert found is not None, "the page shows no secret"
        self._totp = pyotp.TOTP(found[1].replace(" ", ""))
        self._clock = clock

    def code(self, steps: int = 0) -> str:
        return self._totp.at(int(self._clock.unix()) + steps * STEP_SECONDS)


def set_up_second_factor(visitor: Visitor, clock: Clock) -> tuple[AuthenticatorApp, list[str]]:
    """Set up a second factor for a logged-in user.

    Returns the app and the recovery codes. The clock moves on, so that the next code of the app was not used
    yet.
    """
    token = read_csrf(visitor.get("/login/second-factor").text)
    assert visitor.post("/login/second-factor/start", {"csrf_token": token}).status_code == 303
    page = visitor.get("/login/second-factor").text
    app = AuthenticatorApp(page, clock)
    done = visitor.post("/login/second-factor", {"csrf_token": token, "code": app.code()})
    assert done.status_code == 303, done.text
    codes = read_codes(visitor.get(done.headers["Location"]).text)
    clock.advance(STEP_SECONDS)
    return app, codes


def read_csrf(page: str) -> str:
    """CSRF token of the first form of a page."""
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


def enter_code(visitor: Visitor, code: str) -> int:
    """Enter a code after the password. Returns the status."""
    token = read_csrf(visitor.get("/login/code").text)
    return visitor.post("/login/code", {"csrf_token": token, "code": code}).status_code


def count_rows(app: TestApp, sql: str) -> int:
    with app.app_db.read() as connection:
        return int(connection.execute(sql).fetchone()[0])
