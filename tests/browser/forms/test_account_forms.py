"""Forms of the account in a browser, by keyboard, in front of a simulated platform."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import log_in, watch
from tests.support.applications.account_office import run_account_office

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    with run_account_office(tmp_path_factory.mktemp("office") / "data") as office:
        yield office


@pytest.fixture
def open_page(office, browser):
    contexts, problems = [], []

    def open_page(path: str, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        log_in(office, context)
        page = context.new_page()
        watch(page, problems)
        page.goto(office.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def test_a_ring_group_is_edited_by_keyboard_without_javascript(office, open_page):
    number = office.first_id("ringgroups")
    before = office.on_platform(f"/ringgroups/{number}")["users"]
    page = open_page(f"/account/ringgroups/{number}", java_script_enabled=False)
    page.get_by_role("link", name="Edit").press("Enter")
    page.get_by_label("Name", exact=True).press("ControlOrMeta+A")
    page.keyboard.type("Front desk")
    places = page.get_by_label("Place of")
    places.nth(1).focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Front desk", level=1)).to_be_visible()
    record = office.on_platform(f"/ringgroups/{number}")
    assert (record["name"], record["users"]) == ("Front desk", [before[1], before[0], *before[2:]])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations_and_forms_fit_their_window(office, open_page, scheme):
    users = [one["id"] for one in office.list_records("users")]
    paths = (
        f"/account/ringgroups/{office.first_id('ringgroups')}?edit=1",
        "/account/queues?edit=1",
        "/account/ivrs?edit=1",
        f"/account/reportschedules/{office.first_id('reportschedules')}?edit=1",
        f"/account/routingrules/{office.first_id('routingrules')}?edit=1",
        "/account/calltracking/campaigns?edit=1",
        "/account/vmannouncements?edit=1",
        "/account/routingrules?edit=1&block=447700900322",
        f"/account/users?edit=many&id={users[0]}&id={users[1]}",
        "/account/users",
    )
    page = open_page("/account", color_scheme=scheme)
    for path in paths:
        page.goto(office.url + path)
        page.evaluate("document.querySelectorAll('.sure').forEach(one => one.open = true)")
        violations = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == [], path
        for width in (390, 820, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
