from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
import requests
from flask import Flask, Response, jsonify, make_response
from werkzeug.serving import make_server

import integration
from integration.access import passwords, people
from integration.app_schema import open_app_db
from integration.dashboard.site import guard, headers
from integration.dashboard.site.guard import current_person, requires
from integration.dashboard.site.login import make_blueprint
from integration.live.hub import Hub
from integration.live.stream import make_stream
from integration.settings.values import Network
from integration.sqlite.database import Database
from integration.sqlite.transaction import Change
from integration.web.trusted_proxies import install as install_proxies
from tests.support.applications.app_database import quick_hashes

__all__ = ["quick_hashes"]

GOOD = "correct horse battery"


class Fields(HTMLParser):
    """The hidden fields of a page's forms."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden" and given.get("name"):
            self.values[str(given["name"])] = given.get("value") or ""


@dataclass
class Browser:
    """A session of requests that follows no redirect by itself, at one origin."""

    base: str
    http: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str, **kw: object) -> requests.Response:
        return self.http.get(self.base + path, allow_redirects=False, timeout=30, **kw)  # type: ignore[arg-type]

    def post(self, path: str, data: dict[str, str] | None = None, **kw: object) -> requests.Response:
        return self.http.post(self.base + path, data, allow_redirects=False, timeout=30, **kw)  # type: ignore[arg-type]

    def log_in(self, email: str = "ann@example.com", password: str = GOOD, **more: str) -> requests.Response:
        form = Fields(self.get("/login").text).values
        return self.post("/login", {**form, "email": email, "password": password, **more})

    @property
    def token(self) -> str:
        """What a page of ours would put into its forms now."""
        return self.get("/token").text

    @property
    def cookie(self) -> str | None:
        return self.http.cookies.get("session")


@dataclass
class Site:
    app_db: Database
    app: Flask
    base: str

    def browser(self) -> Browser:
        return Browser(self.base)


def make_app(
    app_db: Database, *, public_url: str | None = None, trusted_proxies: tuple[Network, ...] = ()
) -> Flask:
    """The real guard, login and stream around a few pages."""
    root = Path(integration.__file__).parent.parent
    app = Flask("switchroom", template_folder=str(root / "templates"), static_folder=str(root / "static"))
    install_proxies(app, trusted_proxies)
    headers.install(app)
    door = guard.install(
        app, app_db, public_url=public_url, agents_see="own", open_to_all={"static", "healthz"}
    )
    app.register_blueprint(make_blueprint(app_db))

    def present(change: Change, person: object) -> list[tuple[str, dict[str, object]]]:
        return [("call", {"id": change.key})]

    hub = Hub(lambda number: [], "e")
    app.extensions["hub"] = hub
    app.register_blueprint(make_stream(hub, present, 8, find_viewer=door.viewer))

    @app.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @app.get("/")
    def home() -> Response:
        return make_response(f"hello {current_person().email}")

    @app.get("/token")
    def token() -> Response:
        return make_response(guard.csrf_token())

    @app.route("/notes", methods=["POST", "PUT", "PATCH", "DELETE"])
    def note() -> Response:
        return jsonify(written=True)

    @app.get("/exports/cdrs.csv")
    @requires("export")
    def export() -> Response:
        return make_response("id\n")

    @app.get("/people")
    @requires("admin")
    def who() -> Response:
        return make_response("everyone")

    return app


@pytest.fixture
def app_db(tmp_path: Path) -> Iterator[Database]:
    database = open_app_db(tmp_path / "house.db")
    yield database
    database.close()


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """`app` behind a real server; gives its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        app.extensions["hub"].close()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(app_db: Database) -> Iterator[Site]:
    people.create(app_db, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    app = make_app(app_db)
    with served(app) as base:
        yield Site(app_db, app, base)


@pytest.fixture
def visitor(site: Site) -> Browser:
    return site.browser()


@pytest.fixture
def inside(visitor: Browser) -> Browser:
    """A browser that is logged in."""
    assert visitor.log_in().status_code == 303
    return visitor
