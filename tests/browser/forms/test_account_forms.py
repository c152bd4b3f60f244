"""Forms of the account in a browser, by keyboard, in front of a simulated platform."""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import log_in, watch
from tests.support.applications.account_office import run_account_office
from tests.support.harness import ROOT

pytestmark = pytest.mark.exhaustive

WAV = (
    b"RIFF\x24\x08\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
    b"\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data"
    + ((2048).to_bytes(4, "little") + bytes([128]) * 2048)
)
"""A quarter of a second of silence: 8 kHz, mono, 8 bits."""


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    with run_account_office(tmp_path_factory.mktemp("office") / "data") as office:
        yield office


@pytest.fixture
def open_page(office, browser):
    contexts, problems = [], []

    def open_page(path: str, *, script: bool = True, **options):
        context = browser.new_context(java_script_enabled=script, **options)
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


@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without JavaScript"])
def test_a_ring_group_is_edited_by_keyboard(office, open_page, script):
    number = office.first_id("ringgroups")
    before = office.on_platform(f"/ringgroups/{number}")["users"]
    page = open_page(f"/account/ringgroups/{number}", script=script)
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


def test_an_ivr_is_created_with_numbers_and_a_destination(office, open_page):
    page = open_page("/account/ivrs")
    page.get_by_role("link", name="New").press("Enter")
    page.get_by_label("Name", exact=True).fill("Night menu")
    page.get_by_label("Wait for a key").fill("4")
    page.get_by_label("020 7946 0106").press("Space")
    page.get_by_label("If no one answers").select_option(label="Hang up")
    page.get_by_label("Post sounds").fill("night\nbye")
    page.get_by_label("Callers can dial extensions").select_option("Yes")
    page.get_by_role("button", name="Add").press("Enter")
    expect(page.get_by_role("heading", name="Night menu")).to_be_visible()
    record = next(one for one in office.list_records("ivrs") if one["name"] == "Night menu")
    assert (record["timeout"], record["final_dst_type"], record["post_sounds"]) == (4, "H", "night,bye")
    assert record["ext_dialing"] is True


def test_a_record_is_deleted_by_typing_its_name(office, open_page):
    page = open_page(f"/account/conferences/{office.first_id('conferences')}?edit=1")
    name = page.get_by_role("heading", level=1).inner_text()
    page.locator("summary", has_text="Delete").press("Enter")
    page.get_by_label(f"Type {name} to confirm").fill(name.upper())
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Conferences")).to_be_visible()
    assert name not in [one["name"] for one in office.list_records("conferences")]


def test_an_announcement_is_uploaded_and_listened_to(office, open_page):
    page = open_page("/account/vmannouncements?edit=1")
    page.get_by_label("Extension").select_option(index=1)
    page.get_by_label("Description").fill("Closed on Friday")
    page.get_by_label("Audio file").set_input_files(
        {"name": "friday.wav", "mimeType": "audio/wav", "buffer": WAV}
    )
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", name="Closed on Friday")).to_be_visible()
    duration = page.locator("audio").evaluate(
        "player => new Promise((resolve, reject) => { player.onloadedmetadata = () =>"
        " resolve(player.duration); player.onerror = () => reject(player.error.message); player.load(); })"
    )
    assert duration == pytest.approx(0.256, abs=0.01)


def test_a_caller_is_blocked_from_the_drawer(office, open_page):
    sample = ROOT / "tests/fixtures/platform/webhook-call.ringing.json"
    office.receive(
        json.loads(sample.read_text()) | {"id": "x.1", "call_id": 4_300_000_001, "src": "447700900321"}
    )
    page = open_page("/live")
    page.locator("#call-4300000001 .place").click()
    page.get_by_role("link", name="Block caller").click()
    expect(page.get_by_text("can only be removed in the panel of the phone system")).to_be_visible()
    expect(page.get_by_label("Source 1")).to_have_value("07700 900321")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert max(office.list_records("routingrules"), key=lambda one: one["id"])["source"] == "447700900321"


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
