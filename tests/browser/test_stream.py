"""Live stream in a browser: restarts, sleep, tabs and age of data."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from integration.core import clock
from integration.live import stream
from integration.mirror.page_queries import messages
from tests.browser.conftest import watch
from tests.support.harness import Product, wait_for
from tests.support.people import BOB, CALLER
from tests.support.records import ACCOUNT_NUMBER

pytestmark = pytest.mark.exhaustive

PASSWORD = "a long enough password"  # of an installation of minutes


FLOWING = "body[data-flowing]"
PATIENCE = 40_000
"""Milliseconds until a page has loaded, or has noticed that the server responds."""


def ring(app, leg: int) -> None:
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING")


def receive_call(product: Product, number: int) -> str:
    """Send the webhook of a ringing call; return its row's selector."""
    now = clock.utc_text()
    event = {"id": f"t.{number}", "event_time": now, "event_name": "call.ringing", "state": "RINGING"}
    call = {"call_id": number, "start_time": now, "connected_at": None, "destination": "in"}
    ends = {"src": "447700900101", "src_id": "0", "dst": "442079460002", "dst_id": "10002"}
    body = json.dumps({**event, **call, **ends, "context": "LOCAL_USER"}).encode()
    assert product.client.send("POST", product.webhook_path, body)[0] == 200
    return f"#call-{number}"


def test_a_stalled_connection_is_reopened_and_catches_up(browse, app, page):
    page.clock.install()
    page.route("**/live/stream**", lambda route: None, times=1)  # no response, as after a sleep
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    browse("/")
    ring(app, 41)
    expect(page.get_by_text("No calls right now")).to_be_visible()
    page.clock.run_for(60_000)
    expect(page.locator("#call-41")).to_be_visible()


def test_a_page_whose_stream_was_displaced_polls_and_gets_a_place_when_one_is_free(browse, app, page):
    opened = []

    def respond(route):
        opened.append(route.request.url)
        if len(opened) == 1:
            route.fulfill(body="event: replaced\ndata: {}\n\n", content_type="text/event-stream")
        elif len(opened) == 2:
            route.fulfill(status=204)
        else:
            route.continue_()

    page.route("**/live/stream**", respond)
    page.clock.install()
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    with page.expect_event("requestfinished", lambda request: "/live/stream" in request.url):
        browse("/")
    age = page.locator("#age")
    expect(age).to_have_text(re.compile(r"^Every 15 s\s*no webhooks$"), use_inner_text=True)
    ring(app, 43)
    page.clock.run_for(16_000)
    expect(page.locator("#call-43")).to_be_visible()

    def has_place() -> bool:
        page.clock.run_for(8_000)
        return len(opened) > 2

    wait_for(has_place, "a third request")
    assert all("&free" in url for url in opened[1:])
    expect(age).to_contain_text("Live", use_inner_text=True)
    opened_until_then = len(opened)
    page.clock.run_for(10_000)
    assert len(opened) == opened_until_then


def test_a_tab_rendered_before_and_connected_after_an_event_catches_up(browse, app, page, problems):
    browse("/")
    other = page.context.new_page()
    watch(other, problems)

    def late(route):
        answer = route.fetch()
        ring(app, 42)
        expect(page.locator("#call-42")).to_be_visible()  # the tab that reads the stream has passed it on
        route.fulfill(response=answer)

    other.route(app.url + "/", late)
    other.goto(app.url + "/")
    expect(other.locator("#call-42")).to_be_visible()
    assert app.context.live_hub.subscriber_count == 1


def test_an_open_page_keeps_showing_the_age_of_the_data(browse, app, page, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.1)
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text(clock.unix() - 7200))
    browse("/contacts")
    age = page.locator("#age")
    expect(age).to_contain_text("2 h ago")
    sql = "UPDATE _walks SET last_success_at = ?"
    app.mirror_db.write(lambda tx: tx.execute(sql, (clock.utc_text(),)))
    expect(age).to_have_text(re.compile(r"^Live\s*no webhooks$"), use_inner_text=True)
    app.context.inbox.receive(b'{"id": "t.1", "event_name": "call.ringing", "call_id": 41}').result(30)
    expect(age).to_have_text("Live", use_inner_text=True)


def test_a_page_shows_a_warning_until_the_server_responds(browse, app, page, problems, cut_streams):
    page.clock.install()
    ring(app, 41)
    browse("/")
    expect(page).to_have_title(re.compile(r"^\(1\) Live"))  # before any event
    expect(page.locator("#disconnected")).to_be_hidden()
    page.route("**/live**", lambda route: route.abort())
    page.route(app.url + "/", lambda route: route.abort())
    cut_streams()

    def is_warned() -> bool:
        page.clock.run_for(3000)
        return page.locator("#disconnected").is_visible()

    wait_for(is_warned, "the warning that there is no connection")
    expect(page.locator("#disconnected time")).to_have_text(re.compile(r"^\d:\d\d$"))
    page.unroute("**/live**")
    page.unroute(app.url + "/")
    page.clock.run_for(60_000)
    expect(page.locator("#disconnected")).to_be_hidden()
    assert all("ERR_FAILED" in one for one in problems)
    problems.clear()


def test_a_page_repeats_a_failed_refresh(browse, app, page, problems):
    page.clock.install()
    browse(f"/messages?with={CALLER}")
    page.route("**/messages?**", lambda route: route.fulfill(status=503), times=1)
    event = messages.SmsReceived(
        "t.1", clock.utc_text(), None, CALLER, ACCOUNT_NUMBER, "Anybody there?", "{}"
    )
    app.mirror_db.write(lambda tx: messages.add_event(tx, event))

    def shown() -> bool:
        page.clock.run_for(2000)
        return page.get_by_text("Anybody there?").first.is_visible()

    wait_for(shown, "the message")
    assert "503" in problems.pop()


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """Product with two users, reachable as http://office.test, where browsers offer no locks."""
    product = Product(tmp_path_factory.mktemp("data"))
    for email, role in (("a@example.com", "agent"), ("b@example.com", "admin")):
        added = product.command("user", "add", email, "--role", role, "--password-stdin", stdin=PASSWORD)
        assert added.returncode == 0, added.stderr
    yield product
    product.stop()


@pytest.fixture
def plain_http(office, launch_browser):
    """`plain_http()` returns a new context of a browser that is logged in over plain HTTP, and the URL."""
    browser = launch_browser(args=["--host-resolver-rules=MAP office.test 127.0.0.1", "--no-sandbox"])
    url = f"http://office.test:{office.port}"

    def log_in():
        context = browser.new_context()
        page = context.new_page()
        page.goto(url + "/login")
        page.get_by_label("E-mail").fill("a@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(FLOWING)).to_be_attached(timeout=PATIENCE)
        assert not page.evaluate("Boolean(navigator.locks)")
        return context, page, url

    yield log_in
    browser.close()


def test_eight_tabs_over_plain_http_all_load_and_show_calls(office, plain_http):
    context, first, url = plain_http()
    tabs = [first, *(context.new_page() for _ in range(7))]
    for tab in tabs[1:]:
        tab.goto(url + "/", timeout=PATIENCE)
    row = receive_call(office, 910)
    for tab in tabs:
        expect(tab.locator(row)).to_be_visible(timeout=PATIENCE)
    wait_for(lambda: count_flowing(tabs) == 4, "four live tabs")
    expect(tabs[7].locator(FLOWING)).to_be_attached()
    assert sum(tab.locator("body[data-polling]").count() for tab in tabs) == 4
    # A displaced tab gets the place of a closed one.
    tabs.pop().close()
    wait_for(lambda: count_flowing(tabs) == 4, "the place of the closed tab")


def test_page_loads_elsewhere_displace_no_stream(office, plain_http):
    context, page, url = plain_http()
    _, other, _ = plain_http()
    kept = [context.new_page() for _ in range(2)]
    for tab in kept:
        tab.goto(url + "/")
        expect(tab.locator(FLOWING)).to_be_attached(timeout=PATIENCE)
    for tab in (page, *kept):
        tab.evaluate(
            "new MutationObserver(() => { window.displaced ||= 'polling' in document.body.dataset; })"
            ".observe(document.body, {attributes: true})"
        )
    moving = context.new_page()
    for path in ("/", "/calls", "/missed") * 3:
        other.goto(url + path)
        moving.goto(url + path)
        expect(moving.locator(FLOWING)).to_be_attached(timeout=PATIENCE)
    expect(other.locator(FLOWING)).to_be_attached(timeout=PATIENCE)
    displaced = [tab.evaluate("Boolean(window.displaced)") for tab in (page, *kept)]
    assert displaced == [False] * 3


def count_flowing(tabs) -> int:
    return sum(tab.locator(FLOWING).count() for tab in tabs)


def test_a_first_step_turns_green_without_a_reload(browse, app, page, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE", 1.0)
    browse("/")
    steps = page.locator("#first-steps")
    expect(steps.get_by_role("link", name="Make a first backup")).to_be_visible()
    expect(page.locator(FLOWING)).to_be_visible()
    (app.context.settings.storage.data_dir / "backups" / "switchroom-20261120-090000").mkdir(parents=True)
    expect(steps.locator(".good")).to_contain_text("Make a first backup")
    app.add(BOB)
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    app.context.inbox.receive(b"{}").result(30)
    expect(page.get_by_text("First steps")).to_be_hidden()
