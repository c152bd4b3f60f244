"""Product with one dashboard user, and clients that log in."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
import requests

from integration.access import passwords, people
from tests.support.application import TestApp
from tests.support.people import ERIN, Member

PASSWORD = "correct horse battery"

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")


class HiddenFields(HTMLParser):
    """Hidden fields in the forms of a page, by name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden" and given.get("name"):
            self.values[str(given["name"])] = given.get("value") or ""


@dataclass
class Visitor:
    """HTTP client that stores cookies and follows no redirect."""

    url: str
    http: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str, **options: object) -> requests.Response:
        return self.http.get(self.url + path, allow_redirects=False, timeout=30, **options)  # type: ignore[arg-type]

    def post(self, path: str, data: dict[str, str] | None = None, **options: object) -> requests.Response:
        return self.http.post(self.url + path, data, allow_redirects=False, timeout=30, **options)  # type: ignore[arg-type]

    def log_in(self, email: str = ERIN.email, password: str = PASSWORD, **values: str) -> requests.Response:
        form = HiddenFields(self.get("/login").text).values
        return self.post("/login", {**form, "email": email, "password": password, **values})

    @property
    def csrf_token(self) -> str:
        """CSRF token in the forms of a logged-in user."""
        return HiddenFields(self.get("/").text).values["csrf_token"]

    @property
    def cookie(self) -> str | None:
        return self.http.cookies.get("session")


def add_with_password(app: TestApp, member: Member) -> people.Person:
    """Create the dashboard user of `member` with the password PASSWORD."""
    return people.create(
        app.app_db, member.email, member.role, password_hash=passwords.hash_password(PASSWORD)
    )


def send_raw(url: str, method: str, target: str) -> int:
    """Send a request without normalizing `target`. Returns the status."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        lines = (
            f"{method} {target} HTTP/1.1",
            f"Host: {address.netloc}",
            "Content-Length: 0",
            "Accept: */*",
            "",
            "",
        )
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.makefile("rb").readline().split()[1])


def list_spellings(path: str) -> set[str]:
    """Variants of `path` that an attacker may request to bypass the login."""
    return {
        path,
        path + "/",
        "/" + path,
        path.replace("/", "//"),
        path.upper(),
        path + "?x=1",
        path + "%00",
        path + ";x",
        path + "/../" + path.strip("/"),
        "/./" + path.strip("/"),
        "/static/.." + path,
        "/static/%2e%2e" + path,
        "/healthz/.." + path,
        "/login/.." + path,
        "".join(f"%{ord(letter):02x}" if letter.isalpha() else letter for letter in path),
    }


@pytest.fixture
def site(app: TestApp) -> TestApp:
    """Product with Erin as its only dashboard user."""
    add_with_password(app, ERIN)
    return app


@pytest.fixture
def visitor(site: TestApp) -> Visitor:
    return Visitor(site.url)


@pytest.fixture
def logged_in_visitor(visitor: Visitor) -> Visitor:
    """HTTP client logged in as Erin."""
    assert visitor.log_in().status_code == 303
    return visitor
