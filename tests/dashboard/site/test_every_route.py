"""The doors of the whole product: its own application, every rule it has, whatever is added later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.routing import Rule

from integration import factory
from integration.access import passwords, people
from integration.settings.model import load
from tests.dashboard.site.test_guard import METHODS, raw, spellings
from tests.support.applications.login_site import GOOD, Browser, served

NO_LOGIN = {
    "/static/<path:filename>",
    "/webhooks/<secret>",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/login",
    "/logout",
    "/setup/<token>",
    "/wall/<token>",
}
"""Rules that answer before a login: without data of the account, or by a rule of their own."""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[factory.Product]:
    data_dir: Path = tmp_path_factory.mktemp("data")
    product = factory.build(
        load(
            None,
            {
                "SWITCHROOM_PLATFORM__BASE_URL": "http://127.0.0.1:9/v1.2",
                "SWITCHROOM_PLATFORM__USER_ID": "100001",
                "SWITCHROOM_PLATFORM__API_KEY": "a" * 40,
                "SWITCHROOM_STORAGE__DATA_DIR": str(data_dir),
            },
        )
    )
    yield product
    product.stop()


@pytest.fixture
def app(product: factory.Product) -> Iterator[Flask]:
    product.site.extensions["hub"] = HubStaysOpen()
    yield product.site
    del product.site.extensions["hub"]


class HubStaysOpen:
    """The product's hub serves the next test as well."""

    def close(self) -> None:
        pass


def example(rule: Rule) -> str:
    """A path that the rule takes."""
    path = re.sub(r"<any\((\w+)[^>]*>", r"\1", str(rule))
    path = re.sub(r"<int:\w+>", "7", path)
    return re.sub(r"<(path:)?\w+>", "cdrs", path)


@pytest.mark.exhaustive
def test_nothing_is_shown_to_strangers(app: Flask) -> None:
    rules = [rule for rule in app.url_map.iter_rules() if str(rule) not in NO_LOGIN]
    assert len(rules) > 15
    with served(app) as base:
        for rule in rules:
            for target in sorted(spellings(example(rule))):
                if target.startswith(("/static/", "/login/", "/healthz/")):
                    continue
                for method in METHODS:
                    status = raw(base, method, target)
                    if rule.endpoint.startswith(("facade.", "exports.")):
                        # They take keys as well; the answer to OPTIONS has no body.
                        allowed = (302, 308, 400, 401, 404, 405, 501, *((200, 204) * (method == "OPTIONS")))
                    else:
                        allowed = (302, 400, 401)
                    assert status in allowed, f"{method} {target}: {status}"


def test_no_unsafe_route_works_without_the_proof_of_its_page(product: factory.Product, app: Flask) -> None:
    people.create(
        product.context.app_db, "ann@example.com", "admin", password_hash=passwords.hash_password(GOOD)
    )
    unsafe = [
        (method, rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
        if not rule.endpoint.startswith(("facade.", "webhooks."))
    ]
    assert len(unsafe) >= 8
    with served(app) as base:
        browser = Browser(base)
        assert browser.log_in().status_code == 303
        for method, rule in unsafe:
            answer = browser.http.request(method, base + example(rule), allow_redirects=False, timeout=30)
            assert answer.status_code == 403, f"{method} {rule}"
            foreign = browser.http.request(
                method,
                base + example(rule),
                headers={"X-CSRF-Token": "0" * 64, "Origin": "https://evil.example"},
                allow_redirects=False,
                timeout=30,
            )
            assert foreign.status_code == 403, f"{method} {rule}"


def test_every_answer_of_the_product_carries_the_headers(app: Flask) -> None:
    with served(app) as base:
        for path in ("/", "/login", "/healthz", "/readyz", "/v1.2/cdrs", "/webhooks/x", "/exports/cdrs.csv"):
            answer = Browser(base).get(path)
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"], path
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            assert answer.headers["Cache-Control"] == "no-store", path
