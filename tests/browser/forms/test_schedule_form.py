"""Destination field and next delivery in the form of a schedule."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.exhaustive


def test_the_destination_field_and_the_next_delivery_follow_the_choice(browse: Any) -> None:
    page = browse("/exports/schedules/new")
    target = page.get_by_label("Deliver to")
    for choice, label in (("a folder", "Folder in"), ("e-mail addresses", "E-mail addresses"),
                          ("an HTTPS URL", "URL")):  # fmt: skip
        target.select_option(choice)
        expect(page.locator("[name=place]")).to_have_accessible_name(re.compile(f"^{label}"))
    expect(page.get_by_label("Authorization header")).to_be_visible()
    target.select_option("a folder")
    expect(page.get_by_label("Authorization header")).to_be_hidden()
    page.get_by_label("Name (used in file names)").fill("Front desk")
    page.get_by_label("Frequency").select_option("week")
    page.get_by_label("Format").select_option("CSV")
    expect(page.locator("#next")).to_contain_text(re.compile(r"front-desk-\d{4}-W\d\d\.csv$"))
    page.get_by_label("Export", exact=True).select_option("Call detail records")
    expect(page).to_have_url(re.compile("export=cdr-details"))
    expect(page.get_by_label("Frequency")).to_have_value("week")
    expect(page.get_by_label("Name (used in file names)")).to_have_value("Front desk")
