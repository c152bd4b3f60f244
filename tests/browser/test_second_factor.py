"""Set-up and use of a second factor in a browser."""

from __future__ import annotations

import re

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import watch
from tests.support.application import TestApp, running_app
from tests.support.applications.app_database import quick_hashes
from tests.support.applications.login_site import PASSWORD, add_with_password
from tests.support.people import ERIN

pytestmark = pytest.mark.exhaustive

__all__ = ["quick_hashes"]


@pytest.fixture
def app(tmp_path):
    with running_app(tmp_path / "data", dashboard__second_factor="agent") as app:
        app.clock.freeze("2026-11-20 09:00:00")
        add_with_password(app, ERIN)
        yield app


def enter_password(page: Page, app: TestApp) -> None:
    page.goto(app.url + "/calls")
    page.get_by_label("E-mail").fill(ERIN.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def test_a_required_second_factor_is_set_up_and_used_without_javascript(app, browser):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page, problems = context.new_page(), []
    watch(page, problems)
    enter_password(page, app)
    expect(page.get_by_role("heading", name="Set up a second factor")).to_be_visible()
    expect(page.get_by_text("Your role requires a second factor.")).to_be_visible()
    page.get_by_role("button", name="Start").click()
    picture = page.get_by_alt_text("QR code for the authenticator app")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.complete && image.naturalWidth > 100"), "the policy blocks it"
    page.get_by_text("Can’t scan it?").click()
    secret = page.locator("p.mono").inner_text().replace(" ", "")
    authenticator = pyotp.TOTP(secret)
    page.get_by_label("Enter the code that the app shows").fill(authenticator.at(int(app.clock.unix())))
    page.get_by_role("button", name="Turn on").click()
    codes = page.locator("li").all_inner_texts()
    assert len(codes) == 10
    page.get_by_role("link", name="I saved the codes").click()
    expect(page).to_have_url(re.compile("/calls$"))
    page.goto("about:blank")  # An open page would request its stream without a session.
    context.clear_cookies()
    app.clock.advance(30)
    enter_password(page, app)
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.get_by_label("Code").fill(authenticator.at(int(app.clock.unix())))
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/calls$"))
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("link", name="You", exact=True).click()
    expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert problems == []
    context.close()
