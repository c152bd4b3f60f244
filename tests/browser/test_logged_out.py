"""Open pages of users who are logged out, or who lose a right: they show no data any more."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.access import people
from integration.core import clock
from integration.live import stream
from tests.browser.conftest import log_in, watch
from tests.support.application import Browser
from tests.support.harness import wait_for
from tests.support.people import ALICE

pytestmark = pytest.mark.exhaustive

EMAIL = "ann@example.com"
CONTACT = {"first_name": "Zelda", "last_name": "Quill", "tel": "447700900155"}
PATHS = ("/", "/calls?range=all", "/contacts/7", "/reports")
WIDE, PHONE = {"width": 1366, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def office(app):
    """The application with a contact that rings now."""
    app.insert("contacts", id=7, **CONTACT)
    now = clock.utc_text()
    for leg in (41, 42):
        app.event("call.ringing", leg, now, state="RINGING", src=CONTACT["tel"], src_name="Zelda Quill")
    return app


@pytest.fixture
def administrator(office):
    return Browser(office.url, office.make_token(ALICE))


def open_tabs(office, page, problems):
    """Open PATHS, each wide and as on a phone, as a supervisor in one browser."""
    log_in(office, page.context, "supervisor")
    tabs = []
    for path in PATHS:
        for size in (WIDE, PHONE):
            tab = page.context.new_page()
            watch(tab, problems)
            tab.set_viewport_size(size)
            tab.goto(office.url + path)
            tabs.append(tab)
    assert sum("Quill" in tab.content() for tab in tabs) >= 6
    expect(tabs[0].locator("body[data-flowing]")).to_be_attached()
    return tabs


def expect_logged_out(tab, text: str) -> None:
    expect(tab.get_by_role("status")).to_have_text(text)
    expect(tab).to_have_title("Log in · Switchroom")
    assert not re.search("Quill|900155|900 155", tab.content())


def test_the_pages_of_a_removed_user_show_the_login_at_once(office, page, administrator, problems):
    tabs = open_tabs(office, page, problems)
    begun = clock.monotonic()
    person = people.find(office.app_db, EMAIL)
    assert administrator.post(f"/settings/people/{person.id}/remove").status_code == 200
    for tab in tabs:
        expect_logged_out(tab, "You were logged out by an administrator.")
    assert clock.monotonic() - begun < stream.KEEP_ALIVE
    assert "next=%2Fcontacts%2F7" in tabs[4].url
    tabs[4].go_back()
    assert "Quill" not in tabs[4].content()
    assert all("401" in problem for problem in problems)


def test_a_page_that_polls_shows_the_login_with_the_next_poll(office, page, administrator, problems):
    log_in(office, page.context, "agent")
    page.clock.install()
    page.route("**/live/stream**", lambda route: route.abort())
    page.goto(office.url + "/")
    expect(page.locator("#call-41")).to_contain_text("Quill")
    person = people.find(office.app_db, EMAIL)
    administrator.post(f"/settings/people/{person.id}/log-out")

    def is_covered() -> bool:
        page.clock.run_for(2_000)
        return page.locator("#call-41").count() == 0

    wait_for(is_covered, "the next poll")
    expect_logged_out(page, "You were logged out by an administrator.")


def test_other_tabs_and_the_page_before_show_the_login_after_a_logout(office, page, problems):
    log_in(office, page.context, "agent")
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto(office.url + "/")
        expect(tab.locator("#call-41")).to_contain_text("Quill")
    page.goto(office.url + "/contacts/7")
    page.get_by_role("button", name=re.compile("^Log out")).click()
    expect(page).to_have_title("Log in · Switchroom")
    expect_logged_out(other, "You were logged out.")
    page.go_back()
    expect(page).to_have_title("Log in · Switchroom")
    assert "Quill" not in page.content()


def test_a_page_without_its_right_is_replaced(office, page, administrator, problems):
    log_in(office, page.context, "supervisor")
    reports, calls = page, page.context.new_page()
    for tab, path in ((reports, "/reports"), (calls, "/calls?range=all")):
        tab.goto(office.url + path)
        expect(tab.get_by_role("link", name="Reports")).to_be_attached()
    expect(reports.locator("body[data-flowing]")).to_be_attached()
    calls.evaluate("window.stillHere = true")
    person = people.find(office.app_db, EMAIL)
    administrator.post(f"/settings/people/{person.id}", role="agent", version="")
    expect(reports.get_by_text("You don’t have access to this page.")).to_be_visible()
    expect(calls.get_by_role("link", name="Reports")).to_have_count(0)
    assert not calls.evaluate("window.stillHere")


def test_a_page_from_before_a_changed_right_is_replaced_when_it_connects(office, page, administrator):
    log_in(office, page.context, "supervisor")
    page.route("**/live/stream**", lambda route: route.abort())
    page.goto(office.url + "/calls?range=all")
    person = people.find(office.app_db, EMAIL)
    administrator.post(f"/settings/people/{person.id}", role="agent", version="")
    page.unroute("**/live/stream**")
    expect(page.get_by_role("link", name="Reports")).to_have_count(0)
