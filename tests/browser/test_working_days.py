"""Working day of an agent in a browser.

The product runs as a process with a simulated platform. It is killed once, while a note is half written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import watch
from tests.support.applications.data_dir import query_database
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive

PASSWORD = "a long enough password"  # of a short-lived installation
PATIENCE = 60_000
"""Milliseconds to wait for an incremental sync."""
NO_SERVER = re.compile("net::ERR_(CONNECTION|EMPTY_RESPONSE|INCOMPLETE_CHUNKED|SOCKET)")
"""Console errors while the server is down."""
STAYS_OPEN = "No connection. This page stays open, because it has text that was not sent."


@pytest.fixture
def open_page_as(installation, context, problems):
    """`open_page_as("agent")`: a page of a new dashboard user with this role.

    A console error fails the test.
    """

    def enter(role: str):
        email = f"{role}@days.example.com"
        installation.product.command("user", "add", email, "--role", role, "--password-stdin", stdin=PASSWORD)
        page = context.new_page()
        watch(page, problems)
        page.goto(installation.product.url + "/login")
        page.get_by_label("E-mail").fill(email)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(lambda url: "/login" not in url)
        return page

    yield enter
    assert [problem for problem in problems if not NO_SERVER.search(problem)] == []


@contextmanager
def killed_server(installation, page, row) -> Iterator[Locator]:
    """Kill the server while a note is written in the drawer of `row`; start it after the block.

    Yields the field of the note. Page, drawer and text stay, and the page recovers without a reload.
    """
    # Until its scripts run, a link opens a page of its own.
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
    page.evaluate("window.isSamePage = true")
    row.get_by_role("link").first.click()
    note = page.locator("#drawer").get_by_label("New note")
    note.fill("Asks for the in")
    installation.product.kill()
    warning = page.locator("#disconnected")
    expect(warning).to_contain_text(re.compile(r"Connection lost \d+:\d\d ago"), timeout=PATIENCE)
    yield note
    expect(note).to_be_visible()
    installation.product.start()
    expect(warning).to_be_hidden(timeout=PATIENCE)
    expect(page.locator("body[data-flowing]")).to_be_attached(timeout=PATIENCE)
    # A refresh of the drawer would have started before these requests, which take longer.
    page.evaluate("async () => { for (const _ of [1, 2]) await (await fetch(location.href)).text(); }")
    assert page.evaluate("window.isSamePage")


def test_an_agents_day(installation, open_page_as):
    page, url = open_page_as("agent"), installation.product.url
    caller, missed = "442079460041", "442079460042"  # not in the simulated history

    # An inbound call rings: the row shows its number and that it is the first call.
    ringing = installation.script("plain_answered", caller=caller, until="ringing", talk_seconds=600)
    row = page.locator(f"#group-ringing #call-{ringing['root_call_id']}")
    expect(row).to_contain_text("020 7946 0041", timeout=PATIENCE)
    expect(row).to_contain_text("first call")
    expect(row.locator(".timer")).to_have_text(re.compile(r"^\d:\d\d$"))
    expect(page.locator(".aside")).to_contain_text("Queues")

    # Another caller is missed twice: one row of the call-back list, two attempts.
    for _ in range(2):
        installation.script("plain_missed", caller=missed, instant=True)
    page.get_by_role("link", name="Missed").first.click()
    waiting = page.locator("tr.row", has_text="020 7946 0042")
    expect(waiting).to_have_count(1, timeout=PATIENCE)
    expect(waiting.locator("td.drop.roomy")).to_have_text("twice", timeout=PATIENCE)
    waiting.get_by_role("button", name="Claim").click()
    expect(waiting).to_contain_text("You")
    waiting.locator("summary").click()
    waiting.get_by_role("textbox", name="Note on").fill("wants a date")
    waiting.get_by_role("button", name="Save").click()
    expect(waiting).to_contain_text("wants a date")

    # While the server is down, the caller is missed a third time, and a note is sent.
    with killed_server(installation, page, waiting) as note:
        installation.script("plain_missed", caller=missed, instant=True)
        page.get_by_role("link", name="Live").first.click()
        expect(page.locator("#toast")).to_have_text(STAYS_OPEN)
        note.fill("Asks for the invoice")
        page.get_by_role("button", name="Add note").click()
        expect(page.locator("#toast")).to_have_text("No connection. This is sent when the server responds.")
        expect(note).to_have_value("Asks for the invoice")
    expect(page.locator("#drawer .notes")).to_contain_text("Asks for the invoice", timeout=PATIENCE)
    expect(waiting.locator("td.drop.roomy")).to_have_text("3 times", timeout=PATIENCE)
    expect(waiting).to_contain_text("You")
    expect(waiting).to_contain_text("wants a date")
    page.keyboard.press("Escape")

    # The call-back is answered: the row disappears from the open page.
    installation.script("outbound", caller=missed, ring_seconds=1, talk_seconds=16)
    expect(waiting).to_have_count(0, timeout=PATIENCE)
    page.get_by_role("link", name="Done").click()
    expect(page.locator("tr.row", has_text="020 7946 0042")).to_contain_text("Reached by ")

    # A message is received, read and answered with a canned response.
    installation.simulator.control("POST", "sms", {"from": "447700900643", "message": "Is my bike ready?"})
    page.goto(f"{url}/messages")
    thread = page.locator("#threads a", has_text="07700 900643")
    expect(thread).to_contain_text("Is my bike ready?", timeout=PATIENCE)
    thread.click()
    sql = "SELECT count(*) FROM sms WHERE message = 'Is my bike ready?'"
    mirror = installation.product.data_dir / "mirror.db"
    wait_for(lambda: query_database(mirror, sql) == [(1,)], "the record of the message")
    page.reload()
    expect(page.locator("#talk").get_by_text("Is my bike ready?")).to_have_count(1)
    page.get_by_label("Template").select_option(index=1)
    prepared = page.get_by_label("Message", exact=True).input_value()
    assert prepared
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#talk .bubble.out").last).to_contain_text(prepared[:20])

    # The timeline of a number shows the message; the caller becomes a contact.
    page.goto(f"{url}/contacts/of/447700900643")
    expect(page.locator("main")).to_contain_text("Is my bike ready?")
    page.get_by_label("First name").fill("Nora")
    page.get_by_role("button", name="Save contact").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nora")
    page.goto(f"{url}/messages?with=447700900643")
    expect(page.get_by_role("heading", name="Nora")).to_be_visible()
