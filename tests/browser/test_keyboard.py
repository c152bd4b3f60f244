"""An agent without a mouse: from the rail to a row, its buttons, its note, its call and a message."""

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
    """The first row by `j`, which works once the page's scripts have run."""
    page.wait_for_load_state("load")
    page.keyboard.press("j")
    expect(page.locator("tr.row").first).to_have_attribute("aria-selected", "true")


def tab_to(page, text: str) -> None:
    """Press Tab until what has the focus is called so; it must show that it has it."""
    for _ in range(60):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "(document.activeElement.getAttribute('aria-label') || document.activeElement.title"
            " || document.activeElement.innerText || document.activeElement.placeholder || '').trim()"
        )
        if said == text:
            outline = page.evaluate(
                "(() => { const s = getComputedStyle(document.activeElement);"
                " return s.outlineStyle !== 'none' || s.boxShadow !== 'none'; })()"
            )
            assert outline, f"{text} shows no focus"
            return
    raise AssertionError(f"Tab never reached {text}")


def test_a_caller_is_taken_noted_and_done_by_keyboard_alone(browse, full, page):
    browse("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    go_by_keys(page, "m", "/missed")
    rows = page.locator("tr.row")
    before = rows.count()
    choose_first(page)
    tab_to(page, "Take")
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("You")
    choose_first(page)
    tab_to(page, "Note")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("rings after four")
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("rings after four")
    choose_first(page)
    tab_to(page, "Done")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="is off the list")).to_be_visible()
    expect(rows).to_have_count(before - 1)


def test_a_call_is_opened_read_and_labelled_by_keyboard_alone(browse, full, page):
    browse("/calls")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer h2")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/calls/\d+$"))
    page.wait_for_load_state("load")
    tab_to(page, "New label")
    page.keyboard.type("Order")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=re.compile("Order"))).to_be_visible()


def test_a_change_of_the_call_leaves_the_focus_on_the_button_beside_the_list(browse, full, app, page):
    browse("/")
    page.locator("#call-42 a.name").press("Enter")
    expect(page.locator("#drawer h2")).to_be_visible()
    tab_to(page, "Open the call")
    page.evaluate("document.querySelector('#drawer h2').before_change = true")
    app.mirror_db.write(lambda tx: tx.announce("call", 42))
    wait_for(lambda: not page.evaluate("document.querySelector('#drawer h2').before_change"), "fresh content")
    assert page.evaluate("document.activeElement.innerText.trim()") == "Open the call"


def test_a_refresh_leaves_focus_and_chosen_row_where_they_are(browse, full, app, page):
    browse("/missed")
    choose_first(page)
    tab_to(page, "Take")
    page.evaluate("document.querySelector('tr.row').before_refresh = true")
    app.mirror_db.write(lambda tx: tx.announce("callback", 0))
    wait_for(lambda: not page.evaluate("document.querySelector('tr.row').before_refresh"), "fresh rows")
    assert page.evaluate("document.activeElement.innerText.trim()") == "Take"
    expect(page.locator("tr.row").first).to_have_attribute("aria-selected", "true")
