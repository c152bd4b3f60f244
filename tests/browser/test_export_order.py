"""Order of columns on the export page, by dragging and keys."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.exhaustive

PATH = "/export/call-history?columns=id&columns=party_name&columns=talk"


def show_headings(page: Any, *headings: str) -> None:
    expect(page.locator("#preview th")).to_have_text(list(headings))


def test_columns_are_ordered_by_keys_and_by_dragging_and_the_file_follows(app: Any, browse: Any) -> None:
    app.call(1, "2026-07-01 09:15:00", party_name="Ann")
    page = browse(PATH)
    show_headings(page, "ID", "Name", "Talked")
    grip = page.get_by_role("button", name="Move Talked", exact=True)
    grip.press("ArrowLeft")
    show_headings(page, "ID", "Talked", "Name")
    expect(grip).to_be_focused()
    expect(page.locator("#said")).to_have_text(re.compile(r"^Talked: 2 of \d+$"))
    grip.press("Home")
    show_headings(page, "Talked", "ID", "Name")
    page.get_by_role("button", name="Move Name", exact=True).drag_to(page.locator("#order li").first)
    show_headings(page, "Name", "Talked", "ID")
    page.get_by_label("ID", exact=True).uncheck()
    show_headings(page, "Name", "Talked")
    page.get_by_label("ID", exact=True).check()
    show_headings(page, "Name", "Talked", "ID")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert download.value.path().read_text().splitlines()[0] == '"Name","Talked","ID"'
    assert download.value.suggested_filename == "calls-all.csv"
    page.get_by_text("More columns").click()
    page.get_by_label("Ended by", exact=True).check()
    show_headings(page, "Name", "Talked", "ID", "Ended by")
    page.get_by_role("button", name="Move Ended by", exact=True).press("Home")
    show_headings(page, "Ended by", "Name", "Talked", "ID")
    page.get_by_label("Ended by", exact=True).uncheck()
    show_headings(page, "Name", "Talked", "ID")
    page.get_by_label("CSV for Excel in").select_option(";")
    expect(page).to_have_url(re.compile("separator=%3B"))
    for button, header in (("CSV for Excel", '\ufeff"Name";"Talked";"ID"'), ("CSV", '"Name","Talked","ID"')):
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        assert download.value.path().read_text("utf-8").splitlines()[0] == header
    page.reload()
    show_headings(page, "Name", "Talked", "ID")
    page.get_by_label("Headings").select_option("API names")
    show_headings(page, "party_name", "talk", "id")
