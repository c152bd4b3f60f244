"""Pages while the server process is killed and started again."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from integration.core import clock
from tests.support.harness import Product

pytestmark = pytest.mark.exhaustive

PASSWORD = "a long enough password"  # of an installation of minutes
PATIENCE = 40_000
"""Milliseconds until a page has noticed that the server responds."""


class Installation:
    """Product process that can be killed and started on the same port."""

    def __init__(self, data_dir) -> None:
        self.product = Product(data_dir)
        added = self.product.command(
            "user", "add", "a@example.com", "--role", "agent", "--password-stdin", stdin=PASSWORD
        )
        assert added.returncode == 0, added.stderr

    def kill(self) -> None:
        self.product.kill()

    def start(self) -> None:
        self.product.start()

    def ring(self, number: int) -> str:
        """Send the webhook of a ringing call; return its row's selector."""
        now = clock.utc_text()
        event = {"id": f"t.{number}", "event_time": now, "event_name": "call.ringing", "state": "RINGING"}
        call = {"call_id": number, "start_time": now, "connected_at": None, "destination": "in"}
        ends = {
            "src": f"4477009001{number % 100:02}",
            "src_id": "0",
            "dst": "442079460002",
            "dst_id": "10002",
        }
        body = json.dumps({**event, **call, **ends, "context": "LOCAL_USER"}).encode()
        assert self.product.client.send("POST", self.product.webhook_path, body)[0] == 200
        return f"#call-{number}"


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    installation = Installation(tmp_path_factory.mktemp("data"))
    yield installation
    installation.product.stop()


@pytest.fixture
def agent(installation, page):
    """Page of an agent; a navigation removes its mark `stillHere`."""
    page.goto(installation.product.url + "/login")
    page.get_by_label("E-mail").fill("a@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#age .dot")).to_be_visible()
    page.evaluate("window.stillHere = true")
    return page


def test_a_call_requested_while_the_server_is_down_opens_when_it_responds(installation, agent):
    page, row = agent, installation.ring(911)
    expect(page.locator(row)).to_be_visible()
    installation.kill()
    page.locator(row).get_by_role("link").first.click()
    expect(page.locator("#toast")).to_have_text("No connection. The call opens when the server responds.")
    installation.start()
    expect(page.locator("#drawer h2")).to_contain_text("7700 900111", timeout=PATIENCE)
    assert page.evaluate("window.stillHere")


def test_a_link_waits_for_the_server_and_a_search_too(installation, agent):
    page = agent
    for action, title in (
        (lambda: page.get_by_role("link", name="Missed").first.click(), "Missed"),
        (lambda: page.get_by_role("combobox", name="Search").press("Enter"), "Calls"),
    ):
        expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
        installation.kill()
        expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
        action()
        expect(page.locator("#toast")).to_have_text("No connection. The page opens when the server responds.")
        installation.start()
        expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=PATIENCE)


def test_the_bar_shows_live_only_while_the_stream_is_open(installation, agent):
    page, age = agent, agent.locator("#age")
    installation.ring(921)
    expect(page.locator("body[data-flowing]")).to_be_attached()
    installation.kill()
    expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("body[data-flowing]")).to_have_count(0)
    expect(age).not_to_contain_text("Live", use_inner_text=True)
    installation.start()
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)


def test_the_stream_reconnects_at_once_when_the_server_responds(installation, agent):
    page = agent
    # Without the later reconnect by a timer.
    page.add_init_script(
        "const start = setTimeout;"
        " window.setTimeout = (action, ms) => action.name === 'connect' ? 0 : start(action, ms);"
    )
    page.reload()
    expect(page.locator("body[data-flowing]")).to_be_attached()
    installation.kill()
    expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
    installation.start()
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
