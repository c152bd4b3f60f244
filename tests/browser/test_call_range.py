"""Histogram above Calls: dragging over bars opens their days, a click or key one bar."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from integration.core import clock

pytestmark = pytest.mark.exhaustive

NOW = datetime(2026, 7, 15, 12, tzinfo=UTC)
"""Noon: shortly before midnight UTC it is the next day in London."""


def test_days_are_chosen_by_dragging_and_by_keys(app: Any, browse: Any) -> None:
    app.clock.set(NOW.timestamp())
    noon = NOW - timedelta(days=1)
    for number in range(6):
        app.call(number + 1, clock.utc_text(noon - timedelta(days=number)))
    page = browse("/calls?direction=in")
    expect(page.locator("#total")).to_have_text("6 calls")
    slots = page.locator(".range .slot")
    expect(slots).to_have_count(7)
    first, last = (slots.nth(place).bounding_box() for place in (1, 3))
    page.mouse.move(first["x"] + first["width"] / 2, first["y"] + 40)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + 40, steps=5)
    expect(page.locator(".range .held")).to_have_count(3)
    page.mouse.up()
    day = [(noon - timedelta(days=back)).date() for back in (4, 2)]
    expect(page).to_have_url(re.compile(f"direction=in&from={day[0]}&to={day[1]}$"))
    expect(page.locator("#total")).to_have_text("3 calls")
    page.locator(".range a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#total")).to_have_text("1 call")
