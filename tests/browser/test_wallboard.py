"""Wallboard, administration pages, notices and reports in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from integration.alerts import rules as alert_rules
from integration.alerts.evaluate import RuleEvaluator
from integration.alerts.rules import Rule
from integration.core import clock
from integration.workspace import wallboards
from tests.browser.conftest import watch

pytestmark = pytest.mark.exhaustive

OWN_PAGES = (
    "/reports?range=week",
    "/settings",
    "/settings/people/1",
    "/settings/audit",
    "/system/journal",
    "/system/alerts",
)


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


def test_reports_settings_and_system_pages_fit_a_phone(browse, app, page):
    for number in range(1, 40):
        app.call(
            number, clock.utc_text(clock.unix() - 5000 * number), group_kind="queue", group_id=1, user_id=1
        )
    page.set_viewport_size({"width": 390, "height": 844})
    for path in OWN_PAGES:
        browse(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


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


def test_a_figure_of_a_report_opens_its_rows(browse, app, page):
    app.call(1, clock.utc_text(clock.unix() - 60), outcome="missed", party_name="Greta Lindqvist")
    browse("/reports?range=week")
    page.locator("section[aria-labelledby='totals'] dt:text-is('Missed') + dd a").click()
    expect(page.locator("#call-1")).to_contain_text("Greta Lindqvist")
    expect(page.locator("#total")).to_have_text("1 call")
