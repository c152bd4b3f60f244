"""Call-backs of two agents in browsers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from integration.access import people
from integration.core import clock
from integration.workspace.callback_following import update_from_mirror
from tests.browser.conftest import watch
from tests.support.people import BOB

pytestmark = pytest.mark.exhaustive

CALLERS = 40
CALLER = "#item-8"
"""Row below the first screen."""


@pytest.fixture
def missed(app):
    """Forty missed callers; the first of them is in the last row."""
    for number in range(1, CALLERS + 1):
        app.call(
            number,
            clock.utc_text(clock.unix() - 6000 + 60 * number),
            outcome="missed",
            party=f"4477009002{number:02}",
            party_e164=f"+4477009002{number:02}",
            party_name=f"Caller {number}",
            change_no=number,
        )
    app.mirror_db.write(lambda tx: tx.announce("call", 1, {}))
    update_from_mirror(app.app_db, app.mirror_db)


def position(page) -> int:
    return page.evaluate("Math.round(document.querySelector('#item-12').getBoundingClientRect().top)")


def count_sent_calls(app) -> int:
    with app.app_db.read() as connection:
        return connection.execute("SELECT count(*) FROM journal WHERE path = '/calls'").fetchone()[0]


def test_every_action_keeps_the_position_of_the_page(browse, page, missed):
    browse("/missed")
    page.evaluate("window.stillHere = true")
    row, toast = page.locator(CALLER), page.locator("#toast")
    row.get_by_role("button", name="Claim").scroll_into_view_if_needed()
    before = position(page)
    assert page.evaluate("scrollY") > 400

    row.get_by_role("button", name="Claim").click()
    expect(row).to_contain_text("You")
    expect(toast).to_have_text("Caller 8 claimed.")
    assert position(page) == before
    row.locator("summary").click()
    row.get_by_label("Note on").fill("wants a date")
    row.get_by_label("Note on").press("Enter")
    expect(row.locator(".sub", has_text="wants a date")).to_be_visible()
    row.get_by_role("button", name="Done").click()
    expect(row).to_have_count(0)
    assert page.evaluate("scrollY") > 400
    expect(toast).to_contain_text("Caller 8 marked as done.")
    toast.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("wants a date")
    assert position(page) == before
    assert page.evaluate("window.stillHere")
    assert page.url.endswith("/missed")


def test_another_agent_sees_claims_and_calls_in_progress(browse, app, page, missed, problems):
    browse("/missed")
    other = page.context.browser.new_context()
    other.add_cookies([{"name": "session", "value": app.make_token(BOB), "url": app.url}])
    second = other.new_page()
    watch(second, problems)
    second.goto(app.url + "/missed")
    page.locator(CALLER).get_by_role("button", name="Claim").click()
    row = second.locator(CALLER)
    expect(row.locator("td.person-cell")).to_contain_text("Ann")
    for caller in ("#item-9", "#item-10"):
        page.locator(caller).get_by_role("checkbox").check()
    page.get_by_label("Assign selected callers to").select_option(BOB.email)
    page.get_by_role("button", name="Assign selected").click()
    expect(page.locator("#toast")).to_contain_text("2 callers assigned to Bob.")
    expect(page.locator("#item-9 td.person-cell")).to_contain_text("Bob")
    expect(second.locator("#item-10 td.person-cell")).to_contain_text("You")

    ends = {"destination": "out", "dst": "447700900208", "src_id": "12", "src_name": "Finn Gallagher"}
    app.put("users", {"id": 12, "first_name": "Finn", "last_name": "Gallagher", "ext": "1006"})
    app.event("call.ringing", 901, clock.utc_text(), state="RINGING", dst_id="0", src="1006", **ends)
    expect(row).to_contain_text(re.compile(r"Calling now\s*Finn Gallagher, 0:\d\d"))
    app.event("call.hangup", 901, clock.utc_text(), state="HANGUP", dst_id="0", src="1006", **ends)
    expect(row).to_contain_text("No answer")
    expect(row).not_to_contain_text("Calling now")
    other.close()


def test_a_second_call_to_a_busy_caller_must_be_confirmed(browse, app, page, missed):
    app.put("users", {"id": 12, "first_name": "Finn", "last_name": "Gallagher", "ext": "1006"})
    people.change(app.app_db, "ann@example.com", platform_user_id=12)
    app.call(901, clock.utc_text(), direction="out", state="talking", party="447700900208",
             party_e164="+447700900208", user_id=13, user_name="Clara Whitfield")  # fmt: skip
    browse("/missed")
    row, toast = page.locator(CALLER), page.locator("#toast")
    row.get_by_role("button", name="Clara Whitfield is talking to them").click()
    expect(toast).to_contain_text("Clara Whitfield is talking to them. Call anyway?")
    assert count_sent_calls(app) == 0
    toast.get_by_role("button", name="Call anyway").click()
    # The platform of this application is unreachable, so the call was sent and fails.
    expect(toast).to_contain_text("The phone system did not respond")
    assert count_sent_calls(app) == 1


def test_a_new_call_is_announced_only_in_a_view_to_which_it_belongs(browse, app, page, missed, problems):
    def open_page(path: str):
        other = page.context.new_page()
        watch(other, problems)
        other.goto(app.url + path)
        return other.locator("#newer")

    browse("/missed")
    matching, today = open_page("/calls?outcome=missed&q=Caller"), open_page("/calls")
    past, filtered = open_page("/calls?from=2026-01-01&to=2026-01-31"), open_page("/calls?direction=out")
    app.event("call.ringing", 902, clock.utc_text(), state="RINGING")
    app.event("call.missed", 902, clock.utc_text(), state="HANGUP", final=True)
    expect(today).to_have_text("1 new call")
    for chip in (matching, past, filtered):
        expect(chip).to_be_hidden()


def test_a_note_being_entered_stays_while_other_rows_and_labels_change(browse, page, missed):
    browse("/missed")
    page.locator(CALLER).get_by_role("link").first.press("Enter")
    note = page.get_by_label("New note")
    note.fill("Asks for the in")
    toast, done = page.locator("#toast"), page.locator("#item-13").get_by_role("button", name="Done")
    done.press("Enter")
    expect(page.locator("#item-13")).to_have_count(0)
    expect(toast).to_contain_text("marked as done.")
    expect(note).to_have_value("Asks for the in")
    assert not page.evaluate("document.getElementById('drawer').contains(document.activeElement)")
    note.fill("Asks for the invoice")
    page.get_by_label("New label").fill("Order")
    page.get_by_label("New label").press("Enter")
    expect(toast).to_contain_text("Label added")
    expect(note).to_have_value("Asks for the invoice")
    note.press("Enter")
    expect(page.locator("#drawer .notes")).to_contain_text("Asks for the invoice")
    expect(page.locator("#drawer .tag")).to_contain_text("Order")
    expect(page.locator("#drawer")).to_be_focused()


def test_a_note_being_entered_is_discarded_only_after_a_confirmation(browse, page, missed):
    browse("/missed")
    page.locator(CALLER).get_by_role("link").first.press("Enter")
    note, questions = page.get_by_label("New note"), []
    note.fill("Asks for the invoice")

    def refuse(dialog) -> None:
        questions.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    for key in ("j", "Escape"):
        with page.expect_event("dialog"):
            page.locator("#item-13").get_by_role("link").first.focus()
            page.keyboard.press(key)
        expect(note).to_have_value("Asks for the invoice")
    assert questions == ["Discard text that was not sent?"] * 2
    page.remove_listener("dialog", refuse)
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator("#item-13").get_by_role("link").first.press("Enter")
    expect(page.locator("#drawer h2")).not_to_have_text("Caller 8")
    expect(note).to_have_value("")


def test_a_note_of_a_colleague_appears_on_the_page_and_in_the_drawer(browse, app, page, missed, problems):
    browse("/missed")
    page.locator(CALLER).get_by_role("link").first.press("Enter")
    expect(page.locator("#drawer h2")).to_have_text("Caller 8")
    other = page.context.new_page()
    watch(other, problems)
    other.goto(f"{app.url}/calls/8")
    draft = other.get_by_label("New note")
    draft.fill("Half a sentence")
    client = app.log_in(BOB)
    client.post("/calls/8/notes", text="Asks for the invoice")
    expect(page.locator("#drawer .notes")).to_contain_text("Asks for the invoice")
    expect(other.locator("#notes .notes")).to_contain_text("Asks for the invoice")
    expect(draft).to_have_value("Half a sentence")
