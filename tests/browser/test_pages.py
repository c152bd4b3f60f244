"""Pages in a browser: scripts, live updates, console errors and width."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.core import clock
from integration.mirror.page_queries import messages
from integration.workspace.callback_following import update_from_mirror
from tests.browser.conftest import go_by_keys, watch
from tests.browser.test_accessibility import PAGES, full
from tests.support.clock import ago
from tests.support.harness import wait_for
from tests.support.people import CALLER
from tests.support.records import ACCOUNT_NUMBER

pytestmark = pytest.mark.exhaustive

__all__ = ["full"]


def ring(app, leg: int, **values) -> None:
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING", **values)


@pytest.fixture
def records(app):
    """Records of most kinds."""
    app.app_db.write(lambda tx: tx.execute("INSERT INTO callback_start VALUES (0, ?)", (ago(86400),)))
    app.call(39, ago(600), outcome="missed", party_name="Greta Lindqvist", change_no=1)
    while update_from_mirror(app.app_db, app.mirror_db):
        pass
    for number in range(1, 31):
        app.call(number, ago(60 * number), party_name=f"Caller {number}", recordings=int(number == 1))
    app.call(40, ago(30), state="talking", outcome=None, user_name="Ann Example", user_id=1)
    app.put("monitors", {"id": 900, "live_id": 1, "user_id": 1, "duration": 60, "transcript": "Hello"})
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    app.put(
        "sms",
        {"id": 1, "created_at": ago(50), "from": "447700900101", "to": "1", "message": "Hi", "type": "I"},
    )
    app.insert("_walks", collection="cdrs", last_success_at=ago(5), complete_at=ago(60))


def test_every_page_loads_without_console_errors_fits_its_window_and_has_header_scopes(browse, full, page):
    for path in PAGES:
        browse(path)
        expect(page.locator("main")).to_be_visible()
        assert page.locator("table th:not([scope])").count() == 0, path
        for width in (1200, 820, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            beyond = page.locator(".cards").evaluate_all(
                "(tables) => tables.filter((one) => one.scrollWidth > one.parentElement.clientWidth).length"
            )
            assert not beyond, (path, width)
        if path not in ("/login/second-factor", "/docs"):
            expect(page.get_by_role("navigation", name="Main", exact=True)).to_be_in_viewport()


def test_long_names_do_not_widen_a_page_or_cover_other_cells(browse, app, page):
    name = "Featherstonehaugh-Cholmondeley" * 6
    app.call(1, ago(60), party_name=name, user_name=name, group_name=name, recordings=1)
    app.call(2, ago(30), party_name=name, user_name=name, our_number=name, state="talking", outcome=None)
    app.put("users", {"id": 1, "first_name": name, "last_name": name, "ext": "1001"})
    app.put("contacts", {"id": 1, "first_name": name, "company": name, "tel": CALLER, "email": name})
    app.put("monitors", {"id": 900, "live_id": 1, "duration": 60, "called": name})
    for path in ("/", "/missed", "/calls", "/calls/1", "/recordings", "/contacts", "/contacts/1", "/reports"):
        browse(path)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            covered = page.locator(".cards :is(td, th)").evaluate_all(
                "(cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth"
                " && getComputedStyle(cell).overflowX === 'visible').map((cell) => cell.className)"
            )
            assert covered == [], (path, width)


def test_the_theme_is_switched_by_key_and_stored(browse, records, page):
    page.emulate_media(color_scheme="dark")
    browse("/")
    paint = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paint)
    page.keyboard.press("t")
    assert page.evaluate(paint) != dark
    browse("/calls")
    assert page.evaluate(paint) != dark
    page.keyboard.press("t")
    assert page.evaluate(paint) == dark


def test_a_timer_counts_by_the_servers_clock(browse, app, page):
    page.clock.install()
    page.clock.set_system_time(clock.unix() * 1000 - 86_400_000)  # the clock of this browser is a day behind
    begun = clock.unix() - 65
    app.call(1, clock.utc_text(begun), state="talking", outcome=None)
    browse("/")

    def shown() -> int:
        minutes, seconds = page.locator("#call-1 .timer").inner_text().split(":")
        return 60 * int(minutes) + int(seconds)

    first = shown()
    assert 65 <= first <= clock.unix() - begun + 1
    page.clock.run_for(3000)
    wait_for(lambda: shown() >= first + 2, "the timer to advance")


def test_a_timer_turns_amber_and_red_at_the_thresholds(browse, app, page):
    page.clock.install()
    app.call(1, ago(0), state="ringing", outcome=None)
    browse("/")
    timer = page.locator("#call-1 .timer")
    expect(timer).not_to_have_class(re.compile("amber|red"))
    page.clock.fast_forward(16_000)
    expect(timer).to_have_class(re.compile("amber"))
    page.clock.fast_forward(20_000)
    expect(timer).to_have_class(re.compile("red"))


def test_a_live_call_appears_changes_its_group_and_ends_on_an_open_page(browse, app, page):
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    browse("/")
    expect(page.get_by_text("No calls right now")).to_be_visible()
    ring(app, 41)
    row = page.locator("#call-41")
    expect(row).to_contain_text("Ringing")
    expect(page.locator("#group-ringing #call-41")).to_be_visible()
    expect(page.get_by_text("No calls right now")).to_be_hidden()
    expect(page.locator("[data-count='live']")).to_have_text("1")
    expect(page).to_have_title(re.compile(r"^\(1\) Live"))
    expect(page.locator("#said")).to_have_text("Call ringing from 07700 900101")
    app.event("call.connected", 41, clock.utc_text(), state="CONNECTED", connected_at=clock.utc_text())
    expect(page.locator("#group-talking #call-41")).to_contain_text("Talking")
    app.event("call.hangup", 41, clock.utc_text(), state="HANGUP")
    expect(page.locator("#group-ended #call-41")).to_be_visible()
    expect(page.locator("[data-figure='talking']")).to_have_text("0")


def test_the_history_shows_a_new_call_after_a_click(browse, records, app, page):
    browse("/calls")
    ring(app, 41)
    app.event("call.hangup", 41, clock.utc_text(), state="HANGUP")
    page.get_by_role("button", name="new call").click()
    expect(page.locator("#call-41")).to_be_visible()


def test_a_ringing_call_in_the_history_is_updated_when_it_ends(browse, app, page):
    ring(app, 900)
    browse("/calls")
    row = page.locator("#call-900")
    expect(row).to_contain_text("Ringing")
    expect(row.locator(".timer")).to_have_count(1)
    app.event("call.hangup", 900, clock.utc_text(), state="HANGUP")
    expect(row).to_contain_text("Ended")
    expect(row.locator(".timer")).to_have_count(0)
    expect(page.locator("#newer")).to_be_hidden()


def test_the_newest_message_stays_visible_above_the_form(browse, app, page):
    message = {"type": "I", "message": "Hello?", "from": CALLER}
    app.put("sms", *({"id": number, "created_at": ago(90 - number), **message} for number in range(1, 31)))
    browse(f"/messages?with={CALLER}")

    def hidden() -> float:
        """Height of the last message behind the form, in pixels."""
        return page.evaluate(
            "document.querySelector('.bubble:last-child').getBoundingClientRect().bottom"
            " - document.querySelector('.compose').getBoundingClientRect().top"
        )

    assert hidden() <= 0
    event = messages.SmsReceived("e", clock.utc_text(), None, CALLER, ACCOUNT_NUMBER, "Anybody there?", "{}")
    app.mirror_db.write(lambda tx: messages.add_event(tx, event))
    expect(page.locator(".bubble")).to_have_count(31)
    wait_for(lambda: hidden() <= 0, "the new message to be seen")


def test_a_call_between_rendering_and_stream_is_shown(browse, app, page):
    ring(app, 41)
    # The call comes after the page is rendered and before the stream is open.
    page.route("**/live/stream**", lambda route: (ring(app, 42), route.continue_()))
    browse("/")
    expect(page.locator("#call-42")).to_be_visible()


def test_two_tabs_share_one_stream_and_both_show_the_call(browse, app, page, problems):
    browse("/")
    other = page.context.new_page()
    watch(other, problems)
    other.goto(app.url + "/")
    ring(app, 43)
    for tab in (page, other):
        expect(tab.locator("#call-43")).to_be_visible()
    assert app.context.live_hub.subscriber_count == 1
    page.close()
    ring(app, 44)
    expect(other.locator("#call-44")).to_be_visible()


def test_a_page_refreshes_on_the_event_reload(browse, app, page):
    def send_reload(route):
        app.call(2, ago(5), state="ringing", outcome=None)  # without being announced
        route.fulfill(body="event: reload\ndata: {}\n\n", content_type="text/event-stream")

    page.route("**/live/stream**", send_reload, times=1)
    app.call(1, ago(10), state="talking", outcome=None)
    browse("/")
    expect(page.locator("#call-2")).to_be_visible(timeout=30_000)


def test_keys_reach_search_rows_drawer_filters_help_and_pages(browse, records, page):
    browse("/calls")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search calls by number or name")).to_be_focused()
    page.keyboard.type("j")  # in a field keys are text
    expect(page.locator("tr[aria-selected]")).to_have_count(0)
    page.keyboard.press("Escape")  # closes the results
    page.keyboard.press("Escape")  # leaves the field
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("tr.row").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_be_focused()  # Tab leads to what can be done there
    page.keyboard.press("j")
    expect(page.locator("#drawer h2")).to_have_text("Caller 1")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    expect(page.locator("#call-1 a.name")).to_be_focused()
    page.locator("summary", has_text="Filter").press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator(".dropdown[open]")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    go_by_keys(page, "m", "/missed")
    browse("/calls").keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer h2")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/calls/\d+$"))


def test_single_keys_can_be_switched_off(browse, records, page):
    browse("/calls")
    page.keyboard.press("?")
    page.get_by_label("Use single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("tr[aria-selected]")).to_have_count(0)


def test_only_our_policy_turns_text_into_nodes(browse, page, problems):
    browse("/contacts")
    attempt = """(attempt) => { try { attempt(); return "allowed"; } catch (error) { return error.name; } }"""
    for code in (
        "document.body.innerHTML = '<b>x</b>'",
        "new DOMParser().parseFromString('<b>x</b>', 'text/html')",
        "trustedTypes.createPolicy('another', { createHTML: String })",
        "trustedTypes.createPolicy('switchroom', { createHTML: String })",
    ):
        assert page.evaluate(f"({attempt})(() => {{ {code} }})") == "TypeError", code
    assert len(problems) == 4
    problems.clear()
