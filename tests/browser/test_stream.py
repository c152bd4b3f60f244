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
from tests.support.people import CALLER
from tests.support.records import ACCOUNT_NUMBER

pytestmark = pytest.mark.exhaustive

PASSWORD = "a long enough password"  # of an installation of minutes


def ring(app, leg: int) -> None:
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING")


def test_a_stalled_connection_is_reopened_and_catches_up(browse, app, page):
    page.clock.install()
    page.route("**/live/stream**", lambda route: None, times=1)  # no response, as after a sleep
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    browse("/")
    ring(app, 41)
    expect(page.get_by_text("No calls right now")).to_be_visible()
    page.clock.run_for(60_000)
    expect(page.locator("#call-41")).to_be_visible()


def test_a_replaced_stream_polls_and_is_not_reopened(browse, app, page):
    opened = []
    page.on("request", lambda request: "/live/stream" in request.url and opened.append(request.url))
    page.route(
        "**/live/stream**",
        lambda route: route.fulfill(body="event: replaced\ndata: {}\n\n", content_type="text/event-stream"),
    )
    page.clock.install()
    with page.expect_event("requestfinished", lambda request: "/live/stream" in request.url):
        browse("/")
    ring(app, 43)
    page.clock.run_for(120_000)
    expect(page.locator("#call-43")).to_be_visible()
    assert len(opened) == 1


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
    expect(age).to_have_text("Live", use_inner_text=True)


def test_a_page_shows_a_warning_until_the_server_responds(browse, app, page, problems, cut_streams):
    page.clock.install()
    ring(app, 41)
    browse("/")
    expect(page).to_have_title(re.compile(r"^\(1\) Live"))  # before any event
    expect(page.locator("#lost")).to_be_hidden()
    page.route("**/live**", lambda route: route.abort())
    page.route(app.url + "/", lambda route: route.abort())
    cut_streams()

    def is_warned() -> bool:
        page.clock.run_for(3000)
        return page.locator("#lost").is_visible()

    wait_for(is_warned, "the warning that there is no connection")
    expect(page.locator("#lost time")).to_have_text(re.compile(r"^\d:\d\d$"))
    page.unroute("**/live**")
    page.unroute(app.url + "/")
    page.clock.run_for(60_000)
    expect(page.locator("#lost")).to_be_hidden()
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


def test_after_a_network_failure_the_page_shows_calls_received_during_it(
    browse, app, page, problems, cut_streams
):
    browse("/")
    ring(app, 41)
    expect(page.locator("#call-41")).to_be_visible()
    page.route("**/live/stream**", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        cut_streams()
    ring(app, 42)
    page.unroute("**/live/stream**")
    expect(page.locator("#call-42")).to_be_visible(timeout=30_000)
    assert all("ERR_FAILED" in one for one in problems)
    problems.clear()


def test_a_page_survives_a_restart_of_the_server_without_reload(tmp_path, page):
    product = Product(tmp_path / "data")

    def receive_call(number: int) -> str:
        """Send the webhook of a ringing call; return its row's selector."""
        now = clock.utc_text()
        event = {"id": f"t.{number}", "event_time": now, "event_name": "call.ringing", "state": "RINGING"}
        call = {"call_id": number, "start_time": now, "connected_at": None, "destination": "in"}
        ends = {"src": "447700900101", "src_id": "0", "dst": "442079460002", "dst_id": "10002"}
        body = json.dumps({**event, **call, **ends, "context": "LOCAL_USER"}).encode()
        assert product.client.send("POST", product.webhook_path, body)[0] == 200
        return f"#call-{number}"

    try:
        added = product.command(
            "user", "add", "a@example.com", "--role", "agent", "--password-stdin", stdin=PASSWORD
        )
        assert added.returncode == 0, added.stderr
        page.goto(product.url + "/login")
        page.get_by_label("E-mail").fill("a@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator(receive_call(901))).to_be_visible(timeout=30_000)
        page.evaluate("window.stillHere = true")
        product.stop()
        product = Product(tmp_path / "data", port=product.port)
        expect(page.locator(receive_call(902))).to_be_visible(timeout=40_000)
        assert page.evaluate("window.stillHere")
    finally:
        product.stop()
