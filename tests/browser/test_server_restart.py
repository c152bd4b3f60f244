"""Pages while the server process is killed and started again."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.test_stream import PASSWORD, PATIENCE, receive_call
from tests.support.harness import Product

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """Process that the tests kill and start on the same port."""
    product = Product(tmp_path_factory.mktemp("data"))
    added = product.command(
        "user", "add", "a@example.com", "--role", "agent", "--password-stdin", stdin=PASSWORD
    )
    assert added.returncode == 0, added.stderr
    yield product
    product.stop()


@pytest.fixture
def agent(product, page):
    """Page of an agent; a navigation removes its mark `stillHere`."""
    page.goto(product.url + "/login")
    page.get_by_label("E-mail").fill("a@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#age .dot")).to_be_visible()
    page.evaluate("window.stillHere = true")
    return page


def test_a_call_requested_while_the_server_is_down_opens_when_it_responds(product, agent):
    page, row = agent, receive_call(product, 911)
    expect(page.locator(row)).to_be_visible()
    product.kill()
    page.locator(row).get_by_role("link").first.click()
    expect(page.locator("#toast")).to_have_text("No connection. The call opens when the server responds.")
    product.start()
    expect(page.locator("#drawer h2")).to_contain_text("7700 900101", timeout=PATIENCE)
    assert page.evaluate("window.stillHere")


def test_a_link_waits_for_the_server_and_a_search_too(product, agent):
    page = agent
    for action, title in (
        (lambda: page.get_by_role("link", name="Missed").first.click(), "Missed"),
        (lambda: page.get_by_role("combobox", name="Search").press("Enter"), "Calls"),
    ):
        expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
        product.kill()
        expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
        action()
        expect(page.locator("#toast")).to_have_text("No connection. The page opens when the server responds.")
        product.start()
        expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=PATIENCE)


def test_the_bar_shows_live_only_while_the_stream_is_open(product, agent):
    page, age = agent, agent.locator("#age")
    receive_call(product, 921)
    expect(page.locator("body[data-flowing]")).to_be_attached()
    product.kill()
    expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("body[data-flowing]")).to_have_count(0)
    expect(age).not_to_contain_text("Live", use_inner_text=True)
    product.start()
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)


def test_the_stream_reconnects_at_once_when_the_server_responds(product, agent):
    page = agent
    # Without the later reconnect by a timer.
    page.add_init_script(
        "const start = setTimeout;"
        " window.setTimeout = (action, ms) => action.name === 'connect' ? 0 : start(action, ms);"
    )
    page.reload()
    expect(page.locator("body[data-flowing]")).to_be_attached()
    product.kill()
    expect(page.locator("#disconnected")).to_be_visible(timeout=PATIENCE)
    product.start()
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
