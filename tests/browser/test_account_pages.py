"""Account pages in a browser: without JavaScript, and with long texts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import log_in, watch
from tests.dashboard.account.test_every_collection import XSS
from tests.support.application import running_app
from tests.support.payloads.account_records import AT

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def app(tmp_path):
    with running_app(tmp_path / "data") as app:
        yield app


@pytest.fixture
def office(fill):
    people = [
        {
            "id": n,
            "first_name": f"Person {n}",
            "last_name": "Example",
            "ext": f"{1000 + n}",
            "active": n % 2 == 0,
        }
        for n in range(1, 71)
    ]
    fill("users", *people)
    fill("ringgroups", {"id": 80001, "name": XSS, "users": [1, 2], "ring_time": 20, "strategy": XSS})
    fill("usergroups", {"id": 1, "name": "Front desk", "color": "#ff8800"})
    fill(
        "cdrs",
        {"id": 7, "live_id": 4278000001, "user_id": 2, "type": "I", "calldate": AT, "src": XSS, "dst": "1002",
         "t_cause": XSS, "clid": XSS, "labels": [XSS], "metadata": XSS},
    )  # fmt: skip


def test_a_record_is_found_by_paging_filters_search_and_links_without_javascript(app, office, browser):
    context = browser.new_context(java_script_enabled=False)
    log_in(app, context)
    page, problems = context.new_page(), []
    watch(page, problems)
    page.goto(app.url)
    page.get_by_role("link", name="Account").click()
    page.get_by_role("link", name="Users").click()
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next").click()
    expect(page.locator("tbody tr")).to_have_count(20)
    page.locator("thead").get_by_role("link", name="Extension").click()
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Field").select_option("active")
    page.get_by_label("Value").fill("yes")
    page.get_by_role("button", name="Add filter").click()
    expect(page.locator("#total")).to_have_text("35 records")
    page.get_by_label("Search Users").fill("Person 2")
    page.get_by_label("Search Users").press("Enter")
    expect(page.locator("#total")).to_have_text("11 records")
    page.get_by_role("link", name="Active is yes Remove").click()
    expect(page.locator("#total")).to_have_text("16 records")
    page.get_by_role("link", name="Person 2 Example", exact=True).click()
    expect(page.get_by_role("heading", name="Person 2 Example")).to_be_visible()
    page.locator("dd", has_text="alert(1)").get_by_role("link").first.click()
    page.get_by_role("link", name="Person 1 Example").click()
    page.get_by_text("List response").click()
    expect(page.locator("pre").first).to_contain_text('"ext": "1001"')
    assert problems == []
    context.close()
