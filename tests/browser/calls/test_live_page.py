"""Live in a browser: Answer, outcome by one click, a new contact, tiles."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from integration.core import clock
from tests.browser.test_accessibility import find_violations
from tests.support.application import running_app
from tests.support.clock import ago
from tests.support.people import CALLER

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def app(tmp_path):
    """A platform that accepts contacts and labels."""
    with running_app(tmp_path / "data") as app:
        app.put(
            "users",
            *({"id": n, "first_name": f"User {n}", "last_name": "Example", "ext": f"100{n}"} for n in (1, 2)),
        )
        app.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example", "email": "ann@example.com"})
        app.put("calllabels", {"id": 1, "name": "Order"}, {"id": 2, "name": "Complaint"})
        app.put("queues", {"id": 1, "name": "Sales"})
        app.platform.respond(
            "POST /contacts", {"data": {"id": 8, "first_name": "Greta", "mobile": CALLER}}, 201
        )
        yield app


def ring(app, leg: int, user: int, **values) -> None:
    app.event(
        "call.ringing", leg, clock.utc_text(), state="RINGING", dst_id=str(user), root_call_id=leg, **values
    )


def test_answer_appears_only_at_the_ringing_phone_and_moves_nothing(browse, app, page):
    browse("/")
    ring(app, 41, 1)
    ring(app, 51, 2, src="447700900222")
    expect(page.locator("#call-41").get_by_role("button", name="Answer")).to_be_visible()
    expect(page.locator("#call-51")).to_be_visible()
    expect(page.locator("#call-51").get_by_role("button", name="Answer")).to_be_hidden()
    page.reload()
    page.locator("#call-41").get_by_role("button", name="Answer").click()
    # The platform does not know the call; the form had a valid token.
    expect(page.locator("#toast")).to_contain_text("platform")


def test_a_desktop_notification_opens_the_call_or_the_crm(browse, app, page):
    app.restart(dashboard__crm_url="https://crm.example.com/?q={e164}", dashboard__crm_label="Customers")
    page.context.grant_permissions(["notifications"], origin=app.url)
    page.add_init_script(
        "window.shown = []; window.opened = []; window.open = url => opened.push(url); window.Notification ="
        " class { static permission = 'granted'; static requestPermission = async () => 'granted';"
        " constructor() { shown.push(this); } };"
    )
    browse("/profile")
    page.get_by_label("Show a desktop notification").first.check()
    page.get_by_label("This notification opens Customers").check()
    page.goto(app.url)
    ring(app, 41, 1)
    page.wait_for_function("() => shown.length === 1")
    page.evaluate("shown[0].onclick()")
    assert page.evaluate("opened") == ["https://crm.example.com/?q=%2B447700900101"]
    page.goto(app.url + "/profile")
    page.get_by_label("This notification opens Customers").uncheck()
    page.goto(app.url)
    ring(app, 51, 2)
    page.wait_for_function("() => shown.length === 1")
    page.evaluate("shown[0].onclick()")
    expect(page).to_have_url(app.url + "/calls/51")


def test_axe_finds_no_violations_on_live_with_everything(browse, app, page):
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    app.call(5, clock.utc_text(), user_id=1, outcome="answered")
    ring(app, 41, 1, context="QUEUE")
    browse("/")
    expect(page.locator("#live-top form")).to_be_visible()
    page.locator("#hour summary").click()
    page.locator("#call-5 a.name").click()
    page.locator("#drawer summary", has_text="New contact").click()
    expect(page.get_by_label("First name")).to_be_visible()
    assert find_violations(page) == []
    assert find_violations(browse("/reports/labels")) == []


def test_500_people_with_long_names_leave_queues_and_last_hour_in_the_window(browse, app, page):
    name = "Department-for-returns-of-the-northern-region " * 2 + "x" * 30
    users = ({"id": i, "first_name": f"{name}{i}", "last_name": "", "ext": str(i)} for i in range(1000, 1500))
    app.put("users", *users)
    app.put("queues", *({"id": i, "name": f"{name}{i}"} for i in (1, 2)))
    values = {
        "outcome": None,
        "party_name": name,
        "user_name": name,
        "group_kind": "queue",
        "group_name": name,
    }
    for number, state in enumerate(("ringing", "talking", "on_hold"), 70):
        app.call(number, ago(20), state=state, user_id=1000 + number, group_id=1, **values)
    browse("/")
    for width in (1920, 1440, 1280, 1024, 768, 390, 340):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        busy, free = page.locator(".tiles").first, page.locator("#free")
        expect(busy.locator("li")).to_have_count(3)
        expect(free.locator("li").first).to_be_hidden()
        rows = page.locator("#live tr.row").evaluate_all("all => all.map((one) => one.offsetHeight)")
        assert max(rows) < 130
        assert max(busy.locator("li").evaluate_all("all => all.map((one) => one.offsetHeight)")) < 70
    page.set_viewport_size({"width": 1440, "height": 900})
    for heading in ("#queues", "#last-hour", "#people"):
        box = page.locator(heading).bounding_box()
        assert box["y"] + box["height"] < 900, heading
    page.get_by_text("and 499 free").click()
    expect(free.locator("li")).to_have_count(499)
    expect(free.locator("li").last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 1440
    ring(app, 91, 1400)
    expect(page.get_by_text("and 498 free")).to_be_visible()
    expect(busy.locator("li")).to_have_count(4)
    expect(free.locator("li").first).to_be_visible()
