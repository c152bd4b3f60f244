"""Keyboard use of lists, rows, forms and the drawer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import go_by_keys
from tests.browser.test_accessibility import full
from tests.support.harness import wait_for

__all__ = ["full"]

pytestmark = pytest.mark.exhaustive


def choose_first(page) -> None:
    """Select the first row by `j`, after the scripts have loaded."""
    page.wait_for_load_state("load")
    page.keyboard.press("j")
    expect(page.locator("tr.row").first).to_have_attribute("aria-selected", "true")


def tab_to(page, text: str) -> None:
    """Press Tab until the element of this name has a visible focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(document.activeElement.getAttribute('aria-label') || document.activeElement.title"
            " || document.activeElement.innerText || document.activeElement.placeholder || '').trim()"
        )
        if name == text:
            outline = page.evaluate(
                "(() => { const s = getComputedStyle(document.activeElement);"
                " return s.outlineStyle !== 'none' || s.boxShadow !== 'none'; })()"
            )
            assert outline, f"{text} shows no focus"
            return
    raise AssertionError(f"Tab never reached {text}")


def test_a_call_back_is_assigned_noted_and_closed_by_keyboard(browse, full, page):
    browse("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    go_by_keys(page, "m", "/missed")
    rows = page.locator("tr.row")
    before = rows.count()
    choose_first(page)
    tab_to(page, "Claim")
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("You")
    choose_first(page)
    tab_to(page, "More actions")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("rings after four")
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("rings after four")
    choose_first(page)
    tab_to(page, "Done")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="marked as done")).to_be_visible()
    expect(rows).to_have_count(before - 1)


def test_an_update_of_the_drawer_keeps_the_focus(browse, full, app, page):
    browse("/")
    page.locator("#call-42 a.name").press("Enter")
    expect(page.locator("#drawer h2")).to_be_visible()
    tab_to(page, "Open full details")
    page.evaluate("document.querySelector('#drawer h2').before_change = true")
    app.mirror_db.write(lambda tx: tx.announce("call", 42))
    wait_for(lambda: not page.evaluate("document.querySelector('#drawer h2').before_change"), "fresh content")
    assert page.evaluate("document.activeElement.innerText.trim()") == "Open full details"


def test_a_refresh_keeps_the_focus_and_the_selected_row(browse, full, app, page):
    browse("/missed")
    choose_first(page)
    tab_to(page, "Claim")
    page.evaluate("document.querySelector('tr.row').before_refresh = true")
    app.mirror_db.write(lambda tx: tx.announce("callback", 0))
    wait_for(lambda: not page.evaluate("document.querySelector('tr.row').before_refresh"), "fresh rows")
    assert page.evaluate("document.activeElement.innerText.trim()") == "Claim"
    expect(page.locator("tr.row").first).to_have_attribute("aria-selected", "true")


def test_the_search_field_is_a_combobox(browse, full, page):
    browse("/missed")
    page.wait_for_load_state("load")
    page.keyboard.press("Control+k")
    # The lists of the page have options of their own.
    field = page.get_by_role("combobox", name="Search calls by number or name")
    options = page.get_by_label("Results", exact=True).get_by_role("option")
    expect(field).to_be_focused()
    # Without a text it offers pages.
    expect(options.first).to_have_text("Live")
    page.keyboard.type("repor")
    expect(options.first).to_have_text("Reports")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_text("Reports")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/reports$"))
    # Without a chosen result Enter searches the calls.
    page.keyboard.press("Control+k")
    page.keyboard.type("7700")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/calls\?q=7700"))
