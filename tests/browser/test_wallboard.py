"""Wallboard, administration pages, notices and reports in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.alerts import rules as alert_rules
from integration.alerts.evaluate import RuleEvaluator
from integration.alerts.rules import Rule
from integration.core import clock
from integration.workspace import wallboards
from tests.browser.conftest import watch
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive

FARTHEST_PLACE = "document.getElementById('wall').style.cssText = 'transition: none; translate: 6px 6px'"
"""Sets the largest offset against burn-in, which is otherwise that of the minute."""
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll("#wall *")]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => parseFloat(getComputedStyle(e).fontSize)))"""
CLIPPED_LAMPS = """() => [...document.querySelectorAll(".lamps li")]
  .filter((lamp) => lamp.scrollWidth > lamp.clientWidth + 1).map((lamp) => lamp.textContent)"""


def test_a_wallboard_refreshes_and_recovers_from_a_server_failure(app, page, problems):
    watch(page, problems)
    token = wallboards.add(app.app_db, "Front desk")
    page.clock.install()
    page.goto(f"{app.url}/wall/{token}")
    expect(page.locator("#wall")).to_contain_text("Talking")
    app.call(1, clock.utc_text(), state="talking", outcome=None)
    page.clock.run_for(6000)
    expect(page.locator("dt:has-text('Talking') + dd")).to_have_text("1")
    assert problems == []

    page.route("**/wall/**", lambda route: route.abort())
    page.clock.run_for(6000)
    expect(page.get_by_text("Connection lost")).to_be_visible()
    expect(page.locator("#wall")).to_contain_text("Talking")  # the last figures stay

    page.unroute("**/wall/**")
    app.call(2, clock.utc_text(), state="talking", outcome=None)
    page.clock.run_for(6000)
    expect(page.locator("dt:has-text('Talking') + dd")).to_have_text("2")
    expect(page.get_by_text("Connection lost")).to_be_hidden()


def test_a_revoked_wallboard_shows_no_figures(app, page):
    token = wallboards.add(app.app_db, "Front desk")
    page.clock.install()
    page.goto(f"{app.url}/wall/{token}")
    expect(page.locator("#wall")).to_contain_text("Talking")
    wallboards.revoke(app.app_db, 1)
    page.clock.run_for(6000)
    expect(page.get_by_text("This wallboard was revoked")).to_be_visible()
    expect(page.get_by_text("Talking")).to_have_count(0)


def test_a_wallboard_fits_its_screen_and_is_readable_from_four_metres(app, page, problems):
    watch(page, problems)
    app.put("queues", {"id": 5, "name": "Support"}, {"id": 6, "name": "Service line of the workshop"})
    url = f"{app.url}/wall/{wallboards.add(app.app_db, 'Front desk')}"
    for width, height in ((1920, 1080), (1280, 720), (1920, 1200), (3840, 2160)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(url)
        page.evaluate(FARTHEST_PLACE)
        size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert size == [width, height]
        assert page.evaluate(CLIPPED_LAMPS) == []
        # 2.1 % of the width of a 55-inch screen: capitals of 18.6 mm, 16 minutes of arc at 4 m.
        assert page.evaluate(SMALLEST_TEXT) >= 0.0209 * width
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(url)
    page.evaluate(FARTHEST_PLACE)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(SMALLEST_TEXT) >= 16
    assert problems == []


def read_place(wall):
    """Return the offset of the wallboard's figures."""
    return wall.evaluate("e => e.style.translate")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_figures_move_a_little_each_minute(app, page, motion):
    page.emulate_media(reduced_motion=motion)
    page.clock.install()
    page.goto(f"{app.url}/wall/{wallboards.add(app.app_db, 'Front desk')}")
    wall, places = page.locator("#wall"), []
    for _ in range(8):
        # The place changes after the response to the first request of the minute.
        wait_for(lambda: read_place(wall) not in places[-1:], "the next place")
        places.append(read_place(wall))
        page.clock.run_for(60_000)
    moves = [tuple(int(number) for number in re.findall(r"-?\d+", place)) for place in places]
    assert len(set(places)) == 8
    assert max(abs(part) for move in moves for part in move) == 6
    seconds = wall.evaluate("e => getComputedStyle(e).transitionDuration")
    assert seconds == ("20s" if motion == "no-preference" else "0s")


def test_figures_are_chosen_on_the_wallboard_and_full_screen_hides_the_form(app, page, problems):
    watch(page, problems)
    page.goto(f"{app.url}/wall/{wallboards.add(app.app_db, 'Front desk')}")
    page.get_by_text("Choose figures").click()
    page.get_by_label("Large figure").select_option("Calls today")
    page.get_by_role("checkbox", name="Talking").uncheck()
    page.get_by_label("Theme").select_option("light")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".lead dt")).to_have_text("Calls today")
    expect(page.locator(".tiles")).not_to_contain_text("Talking")
    assert "hero=calls" in page.url
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.get_by_role("button", name="Full screen").click()
    expect(page.locator(".tools")).to_be_hidden()
    assert problems == []


def test_a_notice_appears_on_an_open_page_until_the_alert_ends(browse, app, page):
    alert_rules.save(app.app_db, Rule(0, "Long waits", "waiting", 60, notice=True))
    rules = RuleEvaluator(app.context, lambda: None)
    browse("/contacts")
    app.call(
        1, clock.utc_text(clock.unix() - 90), state="ringing", outcome=None, party_name="Greta Lindqvist"
    )
    rules.run()
    expect(page.locator("#notices")).to_contain_text("Long waits: Greta Lindqvist")
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET state = 'ended'"))
    rules.run()
    expect(page.locator("#notices")).not_to_contain_text("Greta")
