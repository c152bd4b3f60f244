"""Player in a browser: bars, transcript and drawer in step with the sound."""

from __future__ import annotations

import re

import lameenc
import pytest
from playwright.sync_api import expect

from integration.core import clock
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive

SPOKEN = "\n".join(f"[0:{5 * n:02}] {'Agent' if n % 2 == 0 else 'Caller'}: Sentence {n}." for n in range(12))
"""Twelve lines, one each 5 s."""


def at(seconds: float) -> str:
    return clock.utc_text(clock.unix() - 100 + seconds)


@pytest.fixture
def recorded(app):
    """Call 5, which ended 30 s ago: 10 s of ringing and 60 s of talk, recorded."""
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    app.event("call.ringing", 5, at(0), state="RINGING", dst_id="1")
    app.event("call.connected", 5, at(10), state="CONNECTED", connected_at=at(10), dst_id="1")
    app.event("call.hangup", 5, at(70), state="HANGUP", dst_id="1")
    record = {"id": 900, "live_id": 5, "user_id": 1, "duration": 60, "timestamp": at(10)}
    app.put("monitors", {**record, "summary": "About an order.", "transcript_speakers": SPOKEN})
    encoder = lameenc.Encoder()
    encoder.set_in_sample_rate(8000)
    encoder.set_channels(1)
    encoder.set_bit_rate(16)
    audio = bytes(encoder.encode(bytes(2 * 8000 * 60))) + bytes(encoder.flush())
    app.archive("recording", 900, audio)
    app.insert("_walks", collection="sms", last_success_at=at(95), complete_at=at(0))
    return audio


def position(page) -> float:
    return page.evaluate("document.querySelector('main audio, #drawer audio').currentTime")


def cursor_share(page) -> float:
    """Position of the cursor over the bar of the talk, 0 to 1."""
    return page.evaluate(
        """() => {
          const bar = document.querySelector(".legs .talk").getBoundingClientRect();
          const line = document.querySelector(".legs .at").getBoundingClientRect();
          return (line.left + line.width / 2 - bar.left) / bar.width;
        }"""
    )


def test_cursor_and_transcript_follow_the_player(browse, recorded, page):
    browse("/calls/5")
    expect(page.locator(".legs .at")).to_be_hidden()
    page.get_by_label("Position in the recording").fill("30")
    wait_for(lambda: round(position(page)) == 30, "30 seconds")
    expect(page.locator(".transcript [aria-current]")).to_have_text("0:30 Agent Sentence 6.")
    assert cursor_share(page) == pytest.approx(0.5, abs=0.02)
    page.get_by_label("Speed").select_option("2")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".transcript [aria-current]")).to_have_text("0:35 Caller Sentence 7.")
    wait_for(lambda: cursor_share(page) > 0.57, "a moved cursor")


def test_clicks_and_keys_on_bars_and_lines_jump(browse, recorded, page):
    browse("/calls/5")
    page.locator(".legs .talk").click(position={"x": 1, "y": 5})
    wait_for(lambda: position(page) < 1, "the start of the bar")
    box = page.locator(".legs .talk").bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    wait_for(lambda: round(position(page)) == 45, "three quarters of the bar")
    page.locator(".transcript li", has_text="Sentence 3.").click()
    wait_for(lambda: position(page) == 15, "the line")
    page.locator("main").focus()
    page.keyboard.press("ArrowRight")
    wait_for(lambda: position(page) == 25, "ten seconds more")
    assert page.url.endswith("/calls/5")
    page.get_by_role("link", name="0:50").focus()
    page.keyboard.press("Enter")
    wait_for(lambda: position(page) == 50, "the line, by keyboard")
    # The list shows the line, which was below its end.
    expect(page.locator(".transcript [aria-current]")).to_be_in_viewport()
    page.locator(".legs a").focus()
    page.keyboard.press("Enter")
    wait_for(lambda: position(page) == 0, "the bar, by keyboard")


def test_a_phone_shows_a_readable_timeline_and_the_time_in_one_line(browse, recorded, page):
    page.set_viewport_size({"width": 340, "height": 700})
    browse("/calls/5")
    clock_size = page.locator(".deck > span").evaluate(
        "(text) => [text.offsetHeight, 2 * parseFloat(getComputedStyle(text).fontSize)]"
    )
    assert clock_size[0] < clock_size[1]
    # Pixels of the drawing's text: its units are scaled to the width.
    pixels = page.locator(".legs").evaluate(
        """(chart) => parseFloat(getComputedStyle(chart.querySelector("text")).fontSize)
          * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width"""
    )
    assert pixels >= 11


def test_the_player_in_the_drawer_survives_a_note(browse, recorded, page):
    browse("/")
    page.locator("#call-5 a.name").click()
    drawer = page.locator("#drawer")
    expect(drawer).to_contain_text("About an order.")
    drawer.get_by_role("link", name="0:20").click()
    wait_for(lambda: position(page) == 20, "the line")
    drawer.get_by_role("button", name="Play").click()
    wait_for(lambda: position(page) > 20.1, "playback")
    drawer.get_by_label("New note").fill("Asks for the invoice")
    drawer.get_by_role("button", name="Add note").click()
    # Without a platform the label stays here; the note is stored and the drawer renewed.
    expect(drawer.locator(".notes")).to_contain_text("Asks for the invoice")
    before = position(page)
    assert before > 20.1
    wait_for(lambda: position(page) > before, "playback after the note")
    drawer.get_by_role("button", name="Close").click()
    page.keyboard.press(" ")


@pytest.mark.parametrize("width", [1200, 1440, 1920])
def test_the_drawer_covers_no_column_of_the_list(browse, app, recorded, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("/", "/calls"):
        browse(path)
        page.locator("#call-5 a.name").click()
        expect(page.locator("#drawer h2")).to_be_visible()
        left = page.locator("#drawer").evaluate("(box) => box.getBoundingClientRect().left")
        for part in (".sheet", "#call-5 .time", ".aside" if path == "/" else ".bar .bell"):
            right = page.locator(part).first.evaluate("(box) => box.getBoundingClientRect().right")
            assert right <= left + 1, (path, part)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Escape")
        expect(page.locator("#drawer")).to_be_hidden()


def test_a_list_has_one_player_at_its_foot(browse, app, recorded, page):
    app.insert("monitors", id=901, timestamp=at(-60), caller="447700900109", duration=60)
    app.archive("recording", 901, recorded)
    browse("/recordings")
    player = page.get_by_role("region", name="Player")
    expect(player).to_be_hidden()
    page.locator("#recording-900 [data-play]").click()
    expect(player).to_be_in_viewport()
    expect(player.get_by_role("link")).to_have_attribute("href", re.compile("/calls/5$"))
    wait_for(lambda: position(page) > 0.1, "playback")
    player.get_by_label("Speed").select_option("2")
    player.get_by_role("button", name="+10").click()
    wait_for(lambda: position(page) > 10, "10 seconds")
    page.locator("#recording-900 [data-play]").click()
    expect(player.get_by_role("button", name="Play")).to_be_visible()
    page.locator("#recording-901 [data-play]").click()
    expect(player.locator(".top")).to_have_text("07700 900109")
    wait_for(lambda: 0 < position(page) < 10, "the other recording from its beginning")
    page.locator("#recording-900 [data-play]").click()
    wait_for(lambda: 0 < position(page) < 10, "the first recording from its beginning")
    assert page.evaluate("document.querySelector('main audio').playbackRate") == 2
    expect(page.locator("[data-play][aria-current]")).to_have_count(1)
