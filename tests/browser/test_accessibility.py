"""Accessibility of every page by axe-core, light and dark.

axe-core comes with a test dependency and is not part of this repository.
"""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from integration.access import audit, people, setup_links
from integration.alerts import rules
from integration.alerts.evaluate import RuleEvaluator
from integration.alerts.rules import Rule
from integration.core import clock
from integration.exports import jobs
from integration.exports.jobs import ExportJob
from integration.mirror.sync_state import completeness
from integration.sync.writing import write_log
from integration.workspace import notes, wallboards
from integration.workspace.callback_following import update_from_mirror
from tests.browser.conftest import log_in
from tests.support.clock import ago

pytestmark = pytest.mark.exhaustive

PAGES = (
    "/",
    "/missed",
    "/missed?state=closed",
    "/calls",
    "/export/call-history",
    "/calls?q=nobody",
    "/calls/1",
    "/messages",
    "/messages?with=447700900101",
    "/messages?new=1",
    "/messages/faxes",
    "/calls/labels",
    "/calls?direction=in&begin=00:00&end=23:59&label=Order",
    "/contacts/1",
    "/account/sms/cannedresponses?edit=1",
    "/account/ringgroups/7?edit=1",
    "/account/queues/5?edit=1",
    "/voicemail",
    "/recordings",
    "/contacts",
    "/contacts/new",
    "/contacts/of/447700900102",
    "/dial?to=447700900101",
    "/account",
    "/account/users",
    "/account/users/1",
    "/reports?range=week",
    "/reports/missed?range=week",
    "/reports/summary?range=week",
    "/exports",
    "/exports/schedules/new",
    "/exports/schedules/1",
    "/system",
    "/system/coverage/cdrs",
    "/system/doctor",
    "/system/events/1",
    "/system/journal",
    "/system/alerts",
    "/settings/people",
    "/settings/connection",
    "/settings/keys",
    "/settings/outgoing",
    "/settings/screens",
    "/settings/hours",
    "/settings/text-back",
    "/settings/people/1",
    "/privacy",
    "/privacy/holds",
    "/privacy/erasures",
    "/privacy/retention",
    "/privacy/audit",
    "/profile",
    "/notifications",
    "/login/second-factor",
    "/docs",
)
EMPTY = (
    "/",
    "/missed",
    "/calls",
    "/messages",
    "/messages/faxes",
    "/calls/labels",
    "/voicemail",
    "/recordings",
    "/contacts",
    "/reports",
    "/system/alerts",
    "/account",
)


@pytest.fixture
def full(app):
    """Records for every page."""
    outcomes = ("answered", "missed", "voicemail", "abandoned", "internal")
    for number in range(1, 21):
        outcome = outcomes[number % 5]
        app.call(
            number,
            ago(3000 * number),
            outcome=outcome,
            direction="internal" if outcome == "internal" else "in",
            party_name=f"Caller {number}",
            group_kind="queue",
            group_id=5,
            group_name="Support",
            user_id=1,
            user_name="Ann Example",
            recordings=int(number == 1),
            charge=0.1,
            change_no=number,
        )
    # The period before, whose figures Calls and Reports link.
    app.call(30, ago(8 * 86400))
    app.call(31, ago(9 * 86400), direction="out")
    app.call(32, ago(15 * 86400), outcome="missed")
    app.app_db.write(lambda tx: tx.execute("INSERT INTO callback_start VALUES (0, ?)", (ago(86400),)))
    while update_from_mirror(app.app_db, app.mirror_db):
        pass
    for number, state in enumerate(("ringing", "dialling", "talking", "on_hold"), 40):
        app.call(number, ago(300), state=state, outcome=None, user_name="Ann Example", user_id=1)
    app.call(44, ago(600), state="talking", outcome=None, unconfirmed=1)
    app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    app.put("queues", {"id": 5, "name": "Support", "number": "2001"})
    app.put("ddis", {"id": 1, "e164": "442079460002", "name": "Main"})
    app.insert(
        "voicemessages", id=3, live_id=3, caller="447700900101", origtime=1, duration=9, transcript="Hi"
    )
    app.put("contacts", {"id": 1, "first_name": "Greta", "last_name": "Lindqvist", "tel": "447700900101"})
    app.put("ringgroups", {"id": 7, "name": "Sales", "users": [1]})
    app.put(
        "faxes", {"id": 1, "created_at": ago(70), "from": "447700900101", "to": "442079460002", "pages": 2}
    )
    app.app_db.write(lambda tx: notes.add_label(tx, 1, "ann@example.com", "Order"))
    app.put(
        "sms",
        {"id": 1, "created_at": ago(50), "from": "447700900101", "to": "1", "message": "Hi", "type": "I"},
    )
    app.insert("_walks", collection="cdrs", last_success_at=ago(5), complete_at=ago(60))
    # Last: changed users would compute the calls again, and this leg has no facts.
    app.leg(1)
    app.insert("monitors", id=900, live_id=1, user_id=1, duration=60, transcript="Hello", timestamp=ago(3000))
    app.context.inbox.database.write(
        lambda tx: tx.execute(
            "INSERT INTO inbox (event_id, received_at, event_name, body, status, error, body_hash)"
            " VALUES ('1', ?, 'call.odd', x'7b7d', 'failed', 'boom', x'00')",
            (ago(60),),
        )
    )
    write_log.begin(app.app_db, who="key X", address="", method="PATCH", path="/users/1", body=b"{}")
    audit.record(app.app_db, "ann@example.com", "login", result="refused")
    jobs.save_schedule(app.app_db, ExportJob(name="Calls", export="call-history", args={}, every="day"))
    app.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", "2026-11-01", 12, 10))
    wallboards.add(app.app_db, "Front desk")
    for condition, url in (("waiting", ""), ("not_called_back", "http://127.0.0.1:9/")):
        rules.save(app.app_db, Rule(0, f"Rule {condition}", condition, 60, notice=True, url=url))
    RuleEvaluator(app.context, lambda: None).run()


def find_violations(page) -> list[str]:
    options: dict[str, object] = {"resultTypes": ["violations"]}
    # Only contrast depends on the colours: two thirds of the time of all rules.
    if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"):
        options["runOnly"] = ["color-contrast"]
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{one['id']}: {node['target'][0]} {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found
        for node in one["nodes"][:4]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations(browse, full, page, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {path: find_violations(browse(path)) for path in PAGES}
    assert {path: violations for path, violations in found.items() if violations} == {}


def test_axe_finds_no_violations_on_empty_pages(browse):
    found = {path: find_violations(browse(path)) for path in EMPTY}
    assert {path: violations for path, violations in found.items() if violations} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations_in_drawer_filters_and_dialog(browse, app, full, page, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    browse("/calls")
    page.locator("#call-1 .secondary-cell").click()
    page.locator("#drawer h2").wait_for()
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_text("Filter", exact=False).first.click()
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert find_violations(page) == []
    assert find_violations(browse("/recordings?range=this-month")) == []
    app.archive("recording", 900, b"audio")
    browse("/recordings")
    page.get_by_text("Filter", exact=False).first.click()
    page.locator("[data-play]").first.dispatch_event("click")
    page.get_by_role("region", name="Player").wait_for()
    assert find_violations(page) == []
    browse("/contacts/1")
    page.get_by_text("Edit", exact=True).click()
    assert find_violations(page) == []


def test_axe_finds_no_violations_on_pages_without_login(app, full, page):
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    people.create(app.app_db, "new@example.com", "agent")
    setup_link = setup_links.create_link(app.app_db, "new@example.com", app.url)
    token = wallboards.add(app.app_db, "Hall")
    for url in (
        f"/wall/{token}",
        "/login",
        "/login/reset",
        "/login/reset?sent=1",
        "/setup/unknown",
        "/docs",
        "/help/",
    ):
        page.goto(app.url + url)
        assert find_violations(page) == [], url
    page.goto(setup_link)
    assert find_violations(page) == []


def test_axe_finds_no_violations_on_error_pages(app, full, page):
    log_in(app, page.context, role="agent")
    for path in ("/nothing-here", "/reports", "/calls/999"):
        page.goto(app.url + path)
        assert find_violations(page) == [], path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations_during_actions(browse, app, full, page, scheme):
    """Forms of the drawer, toasts, a call-back in progress and new calls."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    browse("/")
    app.event("call.ringing", 72, clock.utc_text(), state="RINGING")
    app.event("call.connected", 72, clock.utc_text(), state="CONNECTED", connected_at=clock.utc_text())
    page.locator("#group-talking #call-72 a[data-open]").click()
    for action in ("Transfer", "Hang up"):
        page.locator("#drawer summary", has_text=action).click()
        expect(page.locator("#drawer").get_by_role("button", name=action, exact=True).last).to_be_visible()
        assert find_violations(page) == [], action
    page.get_by_label("New note").fill("Asks for the invoice")
    page.get_by_role("button", name="Add note").click()
    expect(page.locator("#toast")).to_have_text("Note added.")
    assert find_violations(page) == []

    browse("/calls")
    app.event("call.hangup", 72, clock.utc_text(), state="HANGUP", final=True)
    app.event("call.ringing", 73, clock.utc_text(), state="RINGING")
    app.event("call.hangup", 73, clock.utc_text(), state="HANGUP", final=True)
    expect(page.locator("#newer")).to_be_visible()
    assert find_violations(page) == []

    browse("/missed")
    row = page.locator("tr.row").last
    party = row.get_attribute("data-party")
    ends = {"destination": "out", "dst": party, "src_id": "1", "src_name": "Ann Example", "dst_id": "0"}
    app.event("call.ringing", 74, clock.utc_text(), state="RINGING", src="1001", **ends)
    expect(row).to_contain_text("Calling now")
    row.locator("summary").click()
    assert find_violations(page) == []
    row.get_by_role("button", name="Done").click()
    expect(page.locator("#toast").get_by_role("button", name="Undo")).to_be_visible()
    assert find_violations(page) == []


def test_axe_finds_no_violations_while_server_or_platform_are_unreachable(browse, app, full, page, problems):
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    failed = "UPDATE _walks SET last_success_at = ?, failures = 1, last_error = 'no route', last_error_at = ?"
    app.mirror_db.write(lambda tx: tx.execute(failed, (ago(900), ago(1))))
    for path in ("/", "/missed?mine=1", "/reports", "/system"):
        browse(path)
        # System states the outage as its first problem, without the notice of the other pages.
        place = page.locator("main" if path == "/system" else "#notices")
        expect(place).to_contain_text("Phone system unreachable since")
        assert find_violations(page) == [], path
    browse("/")
    page.route("**/*", lambda route: route.abort())
    page.locator("tr.row a[data-open]").first.click()
    expect(page.locator("#disconnected")).to_be_visible()
    expect(page.locator("#toast")).to_contain_text("No connection.")
    assert find_violations(page) == []
    problems.clear()


def test_axe_finds_no_violations_on_a_phone(browse, full, page):
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/missed", "/calls", "/calls/1", "/messages?with=447700900101", "/reports?range=week"):
        assert find_violations(browse(path)) == [], path
    page.get_by_role("button", name="More").click()
    expect(page.locator("#more")).to_be_visible()
    assert find_violations(page) == []
    browse("/calls").locator("#call-1 .name").click()
    page.locator("#drawer h2").wait_for()
    assert find_violations(page) == []
