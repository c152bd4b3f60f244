"""Every panel, menu, popover, dialog and drawer is within the window, at six widths."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from integration.workspace import wallboards
from tests.browser.test_accessibility import PAGES, full  # noqa: F401

pytestmark = pytest.mark.exhaustive

SIZES = (
    (1920, 1080),
    (1280, 720),
    (1024, 768),
    (768, 1024),
    (390, 844),
    (340, 640),
)
"""Widths and heights of windows, in pixels."""
LONG_NAME = "Department for returns and second line support of the northern region " * 2

OUTSIDE = """
const describe = (box) => `${box.tagName}.${box.className} ${(box.innerText || box.name || "").slice(0, 60)}`;
// What is clipped, or scrolls in an area of its own, is measured by that area.
const isClipped = (box, root) => {
  for (let one = box.parentElement; one; one = one.parentElement) {
    if (getComputedStyle(one).overflowX !== "visible" && !one.matches("html, body")) return true;
    if (one === root) return false;
  }
  return false;
};
const isFixed = (box) => box && (getComputedStyle(box).position === "fixed" || isFixed(box.parentElement));
const findOutside = (root) => {
  const page = document.documentElement, found = [], width = page.clientWidth;
  for (const box of [root, ...root.querySelectorAll("*")]) {
    const { left, right, top, bottom, width: extent } = box.getBoundingClientRect();
    if (!extent || box.closest(".unseen, svg, option") || (box !== root && isClipped(box, root))) continue;
    const end = isFixed(box) ? innerHeight : page.scrollHeight - scrollY, begin = isFixed(box) ? 0 : -scrollY;
    if (left < -1 || right > width + 1 || top < begin - 1 || bottom > end + 1)
      found.push(`${describe(box)}: ${[left, right, top, bottom].map(Math.round)} in ${width} x ${end}`);
  }
  if (page.scrollWidth > width) found.push(`page: ${page.scrollWidth} in ${width}`);
  return found.slice(0, 3);
};
"""
OUTSIDE_OF_MENUS = f"""(root) => {{{OUTSIDE}
  const found = [];
  for (const menu of root.querySelectorAll("details")) {{
    const opened = [];
    for (let one = menu; one; one = one.parentElement.closest("details")) if (!one.open) opened.push(one);
    for (const one of opened) one.open = true;
    if (menu.getClientRects().length) found.push(...findOutside(menu));
    for (const one of opened) one.open = false;
  }}
  return found;
}}"""
OUTSIDE_OF_BOX = f"(box) => {{{OUTSIDE} return findOutside(box); }}"


@pytest.fixture
def long_names(app, request):
    """`full` with long names, which come first: changed users would compute its calls again."""
    app.put("users", {"id": 2, "first_name": LONG_NAME, "last_name": "Example", "ext": "1002"})
    app.put("ddis", {"id": 2, "e164": "442079460003", "name": LONG_NAME})
    app.put("queues", {"id": 6, "name": LONG_NAME, "number": "2002"})
    request.getfixturevalue("full")


def check(page, locator, script: str, description: str) -> None:
    """Resize the window to all SIZES and compare the boxes in `locator` with it."""
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert locator.evaluate(script) == [], f"{description} at {width}"


def test_menus_and_panels_are_within_the_window(browse, long_names, page):
    page.emulate_media(reduced_motion="reduce")
    for path in PAGES:
        browse(path)
        check(page, page.locator("body"), OUTSIDE_OF_MENUS, path)


def test_menus_of_pages_without_login_are_within_the_window(app, long_names, page):
    for path in (f"/wall/{wallboards.add(app.app_db, 'Hall')}", "/docs", "/login", "/login/reset"):
        page.goto(app.url + path)
        check(page, page.locator("body"), OUTSIDE_OF_MENUS, path)


def test_drawer_palette_dialog_and_popover_are_within_the_window(browse, long_names, page):
    page.emulate_media(reduced_motion="reduce")
    for path, row in (("/calls", "#call-1"), ("/", "#call-42")):
        browse(path).locator(f"{row} .name").click()
        drawer = page.locator("#drawer")
        expect(drawer.locator("h2")).to_be_visible()
        check(page, drawer, OUTSIDE_OF_BOX, f"drawer of {path}")
        check(page, drawer, OUTSIDE_OF_MENUS, f"menus of the drawer of {path}")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    check(page, page.get_by_role("dialog"), OUTSIDE_OF_BOX, "shortcuts")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("searchbox").or_(page.get_by_role("combobox")).first.fill("example")
    expect(page.locator("#palette a").first).to_be_visible()
    check(page, page.locator("#palette"), OUTSIDE_OF_BOX, "results")
    for width, height in SIZES[-2:]:
        page.set_viewport_size({"width": width, "height": height})
        browse("/")
        page.get_by_role("button", name="More", exact=True).click()
        assert page.locator("#more").evaluate(OUTSIDE_OF_BOX) == [], f"more tabs at {width}"
