"""Actions in a browser, on the running product with a simulated platform."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.core import clock
from integration.workspace.callback_following import update_from_mirror
from tests.browser.conftest import log_in, watch
from tests.support.people import ERIN

pytestmark = pytest.mark.exhaustive

OPEN_TRANSFER = """() => {
  const [hangUp, transfer] = ["Hang up", "Transfer"].map((word) =>
    [...document.querySelectorAll("#drawer summary")].find((one) => one.textContent.includes(word)));
  const before = hangUp.getBoundingClientRect().toJSON();
  transfer.click();
  const people = document.querySelector("#drawer select[name=to]").getBoundingClientRect();
  return [before, hangUp.getBoundingClientRect().toJSON(), people.top];
}"""


@pytest.fixture
def talking(installation, logged_in):
    """Root id of a talking call that the live page shows."""
    logged_in.goto(installation.product.url + "/live")
    made = installation.script("plain_answered", talk_seconds=600, until="connected")
    expect(logged_in.locator(f"#call-{made['root_call_id']}")).to_contain_text("Talking")
    return made["root_call_id"]


def open_drawer(page, call) -> None:
    page.locator(f"#call-{call} a.name").click()
    expect(page.locator("#drawer h2")).to_be_visible()


def test_a_transfer_opens_below_its_buttons_and_needs_a_destination(installation, logged_in, talking):
    page = logged_in
    open_drawer(page, talking)
    # In one step: an update of the call can move the buttons between two.
    before, after, people_top = page.evaluate(OPEN_TRANSFER)
    toast = page.locator("#toast")
    assert after == before, "the buttons keep their places"
    people = page.locator("#drawer select[name=to]")
    assert people_top > before["bottom"]
    page.get_by_role("button", name="Transfer").click()
    expect(toast).to_have_text("Choose a person or enter a number.")
    expect(toast).to_have_class(re.compile("bad"))
    name, extension, _ = people.locator("optgroup[label=People] option").first.inner_text().split(" · ")
    people.select_option(extension)
    page.get_by_role("button", name="Transfer").click()
    expect(toast).to_have_text(f"Transferred to {name} ({extension}).")


# --- without the platform ------------------------------------------------------------------------------


def test_a_closed_call_back_disappears_from_every_open_page(browse, app, page, problems):
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text(), complete_at=clock.utc_text())
    app.call(
        7, clock.utc_text(clock.unix() - 600), outcome="missed", party_name="Greta Lindqvist", change_no=1
    )
    app.mirror_db.write(lambda tx: tx.announce("call", 7, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    browse("/missed")
    expect(page.locator("main")).to_contain_text("Greta Lindqvist")
    other = page.context.new_page()
    watch(other, problems)
    other.goto(app.url + "/calls")
    expect(other.locator("[data-count=missed]")).to_have_text("1")
    app.log_in(ERIN).post("/missed/1/close")
    expect(page.locator("main")).to_contain_text("No one to call back")
    expect(other.locator("[data-count=missed]")).to_have_text("")


def test_forms_work_without_javascript(app, browser):
    app.call(1, clock.utc_text(clock.unix() - 60))
    context = browser.new_context(java_script_enabled=False)
    log_in(app, context)
    page = context.new_page()
    page.goto(app.url + "/calls")
    page.locator("summary", has_text="View").click()
    page.get_by_label("Save this view as").fill("All of them")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("nav.chips").first).to_contain_text("All of them")
    page.goto(app.url + "/calls/1")
    page.get_by_label("New label").fill("Order")
    page.locator("#labelled ~ .chips").get_by_role("button", name="Add").click()
    tag = page.locator(".title .tag")
    expect(tag).to_have_text("Order")
    expect(tag.get_by_role("img", name="only here")).to_be_visible()
    context.close()


def test_sound_and_desktop_notice_are_given_if_enabled_and_once_per_call(browse, app, page):
    page.context.grant_permissions(["notifications"], origin=app.url)
    page.add_init_script(
        "window.signals = []; window.Notification = class { static permission = 'granted';"
        " static requestPermission = async () => 'granted'; constructor(text) { signals.push(text); } };"
        " const Real = AudioContext; window.AudioContext = class extends Real {"
        " constructor() { super(); signals.push('sound'); } };"
    )
    browse("/")

    def ring(leg: int) -> None:
        app.event("call.initial", leg, clock.utc_text(), state="INITIAL")
        app.event("call.ringing", leg, clock.utc_text(), state="RINGING")

    ring(41)
    expect(page.locator("#call-41")).to_contain_text("Ringing")
    assert page.evaluate("signals") == []
    page.keyboard.press("?")
    page.get_by_label("Show a desktop notification").check()
    page.get_by_label("Play a sound when").check()
    page.keyboard.press("Escape")
    page.evaluate("signals.length = 0")
    ring(42)
    expect(page.locator("#call-42")).to_contain_text("Ringing")
    assert sorted(page.evaluate("signals")) == ["Call ringing from 07700 900101", "sound"]
    expect(page).to_have_title(re.compile(r"^\(2\)"))
