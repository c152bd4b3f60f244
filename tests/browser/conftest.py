from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.live.hub import HubClosed
from tests.support.application import TestApp, running_app
from tests.support.harness import NOWHERE, wait_for
from tests.support.people import Member


@pytest.fixture
def app(tmp_path):
    # An unreachable platform: forms that send it requests show an error.
    with running_app(tmp_path / "data", platform__base_url=NOWHERE) as app:
        yield app
        app.context.platform.close()


@pytest.fixture
def problems():
    """Console errors of a browser: scripts, failed loads, violations of the CSP."""
    return []


@pytest.fixture
def browse(app, page, problems):
    """`browse("/calls")` opens the path in `page`, logged in.

    A console error fails the test.
    """
    watch(page, problems)
    log_in(app, page.context)

    def go(path: str):
        page.goto(app.url + path)
        return page

    yield go
    assert problems == []


@pytest.fixture
def cut_streams(app, monkeypatch):
    """`cut_streams()` ends the streams of all pages, like a network failure."""
    subscribe, subscriptions = app.context.live_hub.subscribe, []

    def recorded(last_event_id):
        subscriptions.append(subscribe(last_event_id))
        return subscriptions[-1]

    monkeypatch.setattr(app.context.live_hub, "subscribe", recorded)

    def cut() -> None:
        for subscription in subscriptions:
            subscription.end(HubClosed)

    return cut


def watch(page, problems: list[str]) -> None:
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))


def log_in(app: TestApp, context, role: str = "admin") -> None:
    context.add_cookies(
        [{"name": "session", "value": app.make_token(Member("ann@example.com", role)), "url": app.url}]
    )


def go_by_keys(page, key: str, path: str) -> None:
    """Press `g` and `key` until the page opens.

    The page ignores `key` if more than 1.2 s are between them.
    """

    def is_open() -> bool:
        page.keyboard.press("g")
        page.keyboard.press(key)
        try:
            expect(page).to_have_url(re.compile(f"{path}$"), timeout=5000)
        except AssertionError:
            return False
        return True

    wait_for(is_open, path)
    page.wait_for_load_state("load")


from tests.support.payloads.account_records import fill  # noqa
