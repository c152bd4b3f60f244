"""Application for tests: own databases, a fake platform and a movable clock."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pytest
import requests
from flask.testing import FlaskClient
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from integration import factory
from integration.access import keys, people, sessions
from integration.access.keys import KeyLimits
from integration.access.rights import RIGHTS
from integration.settings.model import load
from integration.sqlite.database import Database
from tests.support.clock import Clock
from tests.support.fake_exchange import API_KEY, NOT_FOUND, FakeExchange, add_account
from tests.support.people import ALICE, Member, add
from tests.support.records import Records
from tests.support.scripted_server import Server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

BASE_PATH = "/v1.2/voipstudio"
DEFAULTS = {
    "platform__base_url": f"http://platform.invalid{BASE_PATH}",
    "platform__user_id": "1000001",
    "platform__api_key": API_KEY,
    "dashboard__timezone": "Europe/London",
    "dashboard__country": "GB",
    # Always open: waits of call-backs do not depend on the hour at which the tests run.
    "calls__usual_hours": "[]",
    # Receivers of exports and notifications are servers of the tests.
    "outgoing__allow_hosts": "127.0.0.1",
}


class QuietHandler(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Log no request."""


class TestApp(Records):
    """Product built by `factory.Product`. No job runs before `product.start()`.

    `platform` holds the platform's responses and the requests of the product. `client` sends requests within
    the process, without request limits; `url` is the address of an HTTP server, started at its first use.
    """

    __test__ = False

    def __init__(
        self, settings: dict[str, str], platform: FakeExchange | Server | None, clock: Clock
    ) -> None:
        self.base = urlsplit(settings["platform__base_url"]).path
        self.clock = clock
        self._settings = settings
        self._platform = platform
        self._server: BaseWSGIServer | None = None
        self.build()

    def build(self) -> None:
        """Build the product on the files of `data_dir`."""
        environment = {f"SWITCHROOM_{key.upper()}": value for key, value in self._settings.items()}
        exchange = self._platform if isinstance(self._platform, FakeExchange) else None
        self.product = factory.Product(load(None, environment), exchange=exchange)
        self.context = self.product.context
        self.__dict__.pop("client", None)

    @cached_property
    def client(self) -> FlaskClient:
        return self.product.site.test_client()

    def application(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self.product.application(environ, start_response)

    def restart(self, **settings: str) -> None:
        """Stop the product and build it again with changed settings.

        The databases and files stay.
        """
        self._settings |= settings
        self.product.stop()
        if isinstance(self._platform, FakeExchange):
            self._platform.stopping.clear()
        self.build()

    @property
    def platform(self) -> FakeExchange | Server:
        assert self._platform is not None, "this application sends HTTP to platform__base_url"
        return self._platform

    @property
    def mirror_db(self) -> Database:
        return self.context.mirror_db

    @property
    def app_db(self) -> Database:
        return self.context.app_db

    @cached_property
    def url(self) -> str:
        self._server = make_server(
            "127.0.0.1", 0, self.application, threaded=True, request_handler=QuietHandler
        )
        cast(Any, self._server).daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.product.close_streams()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self.product.stop()

    # --- the facade --------------------------------------------------------------------------------

    @cached_property
    def headers(self) -> dict[str, str]:
        """Request header with a local key of scope `read`."""
        return self.add_key()

    def get(self, path: str, headers: dict[str, str] | None = None, **options: Any) -> Any:
        """Send GET to `path` of the facade.

        `headers` default to a read key.
        """
        headers = self.headers if headers is None else headers
        return self.client.get(self.base + path, headers=headers, **options)

    # --- dashboard users and keys ------------------------------------------------------------------

    def add(self, member: Member) -> people.Person:
        """Return the dashboard user of `member`; create it if it is missing."""
        return add(self.app_db, member)

    def make_token(self, member: Member = ALICE) -> str:
        """Create a session of `member`. Returns the value of the cookie `session`."""
        return sessions.create(self.app_db, self.add(member).id)

    def log_in(self, member: Member = ALICE) -> Browser:
        return Browser(self.url, self.make_token(member))

    def add_key(self, name: str = "tests", scope: str = "read", **options: Any) -> dict[str, str]:
        """Create a local key with all rights.

        Returns the request header that contains it.
        """
        limits = options.get("limits", KeyLimits(rights=frozenset(RIGHTS)))
        _, secret = keys.add(
            self.app_db, name, scope, options.get("collections"), options.get("user"), limits=limits
        )
        return {"X-Auth-Token": secret}


class Browser:
    """HTTP client of a logged-in dashboard user.

    Sends the session cookie and, in `post`, the CSRF token. `post` fails if a successful form responds with a
    page instead of a redirect.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.csrf = sessions.derive_csrf_token(token)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies.set("session", token)
        self._session.headers["Accept"] = "text/html"

    def get(self, path: str, **options: Any) -> requests.Response:
        return self._session.get(self.url + path, timeout=20, **options)

    def head(self, path: str, **options: Any) -> requests.Response:
        return self._session.head(self.url + path, timeout=20, **options)

    def post(
        self,
        path: str,
        *,
        csrf: bool = True,
        follow: bool = True,
        headers: dict[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        **fields: str,
    ) -> requests.Response:
        data = {**fields, **({"csrf_token": self.csrf} if csrf else {})}
        response = self._session.post(
            self.url + path, data=data, headers=headers, files=files, timeout=20, allow_redirects=follow
        )
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        assert not (
            is_page and response.ok and response.request.method == "POST" and not response.is_redirect
        ), f"POST {path} responds with a page instead of a redirect, so a reload sends the form again"
        return response


def make_app(
    data_dir: Path,
    *,
    platform: FakeExchange | Server | None = None,
    clock: Clock | None = None,
    **settings: str,
) -> TestApp:
    """Build the product on `data_dir`; `section__key` sets one setting.

    The platform is a FakeExchange, unless `platform` is a server, or `platform__base_url` the address of one.
    """
    values = {**DEFAULTS, "storage__data_dir": str(data_dir), **settings}
    if isinstance(platform, Server):
        values["platform__base_url"] = platform.url + platform.base
    elif platform is None and "platform__base_url" not in settings:
        platform = FakeExchange()
    return TestApp(values, platform, clock or Clock())


def basic_headers(user: object, secret: str) -> dict[str, str]:
    """Headers of HTTP Basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


@contextmanager
def running_app(data_dir: Path, **options: Any) -> Iterator[TestApp]:
    """Yield an application; close it at the end of the block."""
    app = make_app(data_dir, **options)
    try:
        yield app
    finally:
        app.close()
        app.clock.restore()


@pytest.fixture
def settings() -> dict[str, str]:
    """Settings of `app`, for tests to change."""
    return {}


@pytest.fixture
def platform() -> FakeExchange | Server:
    """Fake platform of `app`."""
    return FakeExchange()


@pytest.fixture
def wired_platform() -> Iterator[Server]:
    """HTTP server with the routes of an account, for the fixture `platform`."""
    server = Server(base=BASE_PATH)
    add_account(server)
    server.respond("*", NOT_FOUND, 404)
    yield server
    server.close()


@pytest.fixture
def app(
    settings: dict[str, str], platform: FakeExchange | Server, movable_clock: Clock, tmp_path: Path
) -> Iterator[TestApp]:
    app = make_app(tmp_path, platform=platform, clock=movable_clock, **settings)
    yield app
    app.close()
