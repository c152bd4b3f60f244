"""Layout in a browser: tabs on a phone, empty columns, scroll bars and landmarks."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from integration.access import audit, keys
from integration.access.keys import KeyLimits
from integration.core import clock
from integration.workspace import opening_hours, wallboards
from integration.workspace.callback_following import update_from_mirror
from tests.browser.test_accessibility import PAGES, full

pytestmark = pytest.mark.exhaustive

__all__ = ["full"]

ONE_PIXEL_BARS = """() => [...document.querySelectorAll("*")].filter((box) => {
  const { overflowX, overflowY } = getComputedStyle(box), page = box === document.documentElement;
  const isBar = (overflow, pixels) => (page || /auto|scroll/.test(overflow)) && pixels > 0 && pixels < 4;
  const across = box.scrollWidth - box.clientWidth, down = box.scrollHeight - box.clientHeight;
  return isBar(overflowX, across) || isBar(overflowY, down);
}).map((box) => box.outerHTML.slice(0, 120))"""

LANDMARKS = """() => [...document.querySelectorAll("nav, aside, section, form[role=search]")]
  .filter((box) => box.getClientRects().length)
  .map((box) => [box, document.getElementById(box.getAttribute("aria-labelledby"))])
  .map(([box, heading]) => [box.tagName, box.ariaLabel || heading?.textContent])
  .filter(([, name]) => name).map(String)"""


@pytest.fixture
def records(app):
    """Calls without a person who answered, and a user."""
    for number in range(1, 61):
        app.call(number, clock.utc_text(clock.unix() - 60 * number), party_name=f"Caller {number}")
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example", "ext": "1001"})


@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_has_a_one_pixel_scroll_bar_or_two_landmarks_of_one_name(browse, full, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES:
        browse(path)
        assert page.evaluate(ONE_PIXEL_BARS) == [], path
        landmarks = page.evaluate(LANDMARKS)
        assert sorted(set(landmarks)) == sorted(landmarks), path


SCROLLING_TABLES = """() => [...document.querySelectorAll(".scroll")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.innerText.slice(0, 80))"""


def test_a_phone_shows_settings_and_audit_without_scrolling_sideways(app, browse, page):
    limits = KeyLimits(rights=frozenset({"export"}), networks=("192.0.2.0/24",), requests_per_minute=60)
    keys.add(app.app_db, "Reporting tool", "read", ["cdrs", "users"], None, limits=limits)
    wallboards.add(app.app_db, "Front desk")
    opening_hours.add_closed_days(app.app_db, {"2099-12-24": "Stocktaking and inventory of all stores"})
    audit.record(app.app_db, "ann.example@example.com", "many", "a long object of the audit log " * 3)
    page.set_viewport_size({"width": 340, "height": 700})
    for path in (
        "/settings/people",
        "/settings/keys",
        "/settings/screens",
        "/settings/hours",
        "/settings/people/1",
        "/privacy/audit",
    ):
        browse(path)
        assert page.locator("table:is(.records, .cards) tbody tr").count() >= 1, path
        assert page.evaluate(SCROLLING_TABLES) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") == 340, path
        for tab in page.locator(".tabs [aria-current]").all():
            expect(tab).to_be_in_viewport(ratio=1)


PLACES = """(all) => all.map(
  (one) => [one.getBoundingClientRect().left, one.scrollWidth - one.clientWidth])"""


def test_tables_of_shares_side_by_side_do_not_cover_each_other(app, browse, page):
    name = "Department for unusually long names of queues, second line support and returns"
    for number, kind in enumerate(("queue", "ringgroup"), 1):
        app.call(number, clock.utc_text(clock.unix() - 90), charge=0.5, group_kind=kind, group_id=number,
                 group_name=f"{name} {number}", user_id=number, user_name=f"{name} {number}")  # fmt: skip
    app.call(3, clock.utc_text(clock.unix() - 60), outcome="missed", user_id=1, user_name=f"{name} 1")
    for path in ("/reports", "/reports/missed"):
        for width in (1440, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            browse(path)
            places = page.locator(".pair section").evaluate_all(PLACES)
            assert len({left for left, _ in places}) == 2, places
            assert {overflow for _, overflow in places} == {0}


def test_a_phone_shows_five_tabs_and_the_others_behind_more(browse, page):
    page.set_viewport_size({"width": 390, "height": 844})
    browse("/")
    tabs = page.locator(".rail a.tab:visible")
    assert tabs.all_inner_texts() == ["Live", "Missed", "Calls", "Messages", "Voicemail"]
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.locator("#more a.tab:visible")).to_have_text(
        ["Contacts", "Account", "Reports", "Exports", "Privacy", "System"]
    )
    page.keyboard.press("Escape")
    expect(tabs).to_have_count(5)
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("link", name="Contacts").click()
    expect(page).to_have_title("Contacts · Switchroom")
    page.set_viewport_size({"width": 1280, "height": 844})
    expect(tabs).to_have_count(11)
    expect(page.get_by_role("button", name="More", exact=True)).to_be_hidden()


def test_a_column_without_values_is_hidden_on_a_narrow_screen(browse, records, page):
    column = page.get_by_role("columnheader", name="Person")
    browse("/calls?range=all")
    expect(column).to_be_visible()
    page.set_viewport_size({"width": 820, "height": 900})
    expect(column).to_be_hidden()
    expect(page.get_by_role("columnheader", name="Talked")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_toast_does_not_cover_the_form_of_a_message(browse, page, width):
    page.set_viewport_size({"width": width, "height": 844})
    browse("/messages?with=447700900101")
    page.evaluate("document.getElementById('toast').textContent = 'Sent to 07700 900101.'")
    page.evaluate("document.getElementById('toast').hidden = false")
    toast, form = page.locator("#toast").bounding_box(), page.locator(".compose").bounding_box()
    assert toast["y"] + toast["height"] <= form["y"]


EXTENTS = """(all) => all.map((one) => one.getBoundingClientRect())
  .filter((box) => box.height).map((box) => [box.top, box.bottom])"""


def count_lines(locator) -> int:
    """Count the lines of a wrapping row. Elements with overlapping vertical extents share a line."""
    count, end = 0, float("-inf")
    for top, bottom in sorted(locator.evaluate_all(EXTENTS)):
        count, end = count + (top >= end), max(end, bottom)
    return count


def test_a_tablet_shows_names_of_users_in_full(app, browse, page):
    app.call(1, clock.utc_text(clock.unix() - 60), user_id=1, user_name="Clara Whitfield", extension="1003")
    page.set_viewport_size({"width": 768, "height": 900})
    browse("/calls")
    assert page.locator("#calls .person-cell").evaluate("(cell) => cell.scrollWidth - cell.clientWidth") == 0


OVERLAPS = """(row) => {
  const boxes = (selector) => [...row.querySelectorAll(selector)].map((one) => one.getBoundingClientRect());
  const end = Math.max(...boxes(":scope > :not(:last-child)").map((cell) => cell.right));
  const buttons = boxes(".acts > form > .button, .acts > .button, .acts summary");
  return buttons.filter((one) => one.left < end).length;
}"""


OVERFLOWING = """(all) => all.filter((one) => one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.textContent)"""


@pytest.mark.parametrize("width", [768, 900, 1000, 1180, 1440])
def test_missed_with_owners_and_a_running_call_is_as_wide_as_its_column(app, browse, page, width):
    app.put("users", {"id": 1, "first_name": "Katharina-Charlotte", "last_name": "Whitfield", "ext": "1001",
                      "email": "ann@example.com"})  # fmt: skip
    for number in range(1, 4):
        party = f"44770090020{number}"
        app.call(number, clock.utc_text(clock.unix() - 3600), outcome="missed", party=party, change_no=number,
                 party_e164=f"+{party}", party_name="Quentin Esposito", group_kind="queue", group_id=5,
                 group_name="Second line support")  # fmt: skip
        app.mirror_db.write(lambda tx, number=number: tx.announce("call", number, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    sql = "UPDATE callbacks SET owner = 'katharina-charlotte@example.com', note = 'Wants the offer of May'"
    app.app_db.write(lambda tx: tx.execute(f"{sql} WHERE id < 3"))
    app.call(9, clock.utc_text(clock.unix() - 30), direction="out", state="talking", outcome=None, user_id=2,
             user_name="Katharina-Charlotte Whitfield", party="447700900203",
             party_e164="+447700900203")  # fmt: skip
    page.set_viewport_size({"width": width, "height": 900})
    browse("/missed")
    table, column = page.locator("#missed-page table").bounding_box(), page.locator(".tabs").bounding_box()
    assert table["width"] <= column["width"]
    for row in page.locator("tr.row").all():
        row.hover()
        assert row.evaluate(OVERLAPS) == 0
        assert row.locator(".name-cell").evaluate("(cell) => cell.scrollWidth - cell.clientWidth") == 0
        assert row.locator(".acts .button").evaluate_all(OVERFLOWING) == []
    lines = count_lines(page.locator("tr.row").last.locator(".acts > form, .acts > details"))
    assert lines == (2 if width <= 1000 else 1)
