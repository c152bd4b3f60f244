"""Buttons of files that are prepared: progress without a page change."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import expect

from integration.exports import routes, runner

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def large(app: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Three calls are a large export. Its preparation waits for the returned event."""
    is_open = threading.Event()

    def check_disk(_path: object) -> SimpleNamespace:
        assert is_open.wait(60)
        return SimpleNamespace(free=10**12)

    monkeypatch.setattr(routes, "BROWSER_ROWS", 2)
    monkeypatch.setattr(runner.shutil, "disk_usage", check_disk)
    for number in range(1, 4):
        app.call(number, f"2026-07-0{number} 09:15:00")
    app.context.export_runner.schedule()
    app.context.scheduler.start()
    return is_open


def test_a_large_file_shows_its_progress_on_the_button_and_is_then_downloaded(
    browse: Any, large: threading.Event
) -> None:
    page = browse("/export/call-history")
    button = page.locator("main [data-prepare]").first
    expect(button).to_have_accessible_name("Excel")
    button.click()
    expect(button).to_have_text(re.compile("Preparing 0 of 3 rows …|Queued, 3 rows …"))
    expect(page.locator("#said")).to_have_text("Excel: preparing 3 rows")
    with page.expect_download() as download:
        large.set()
    assert download.value.suggested_filename == "calls-all.xlsx"
    assert download.value.path().read_bytes().startswith(b"PK")
    expect(button).to_have_accessible_name("Excel")
    assert page.url.endswith("/export/call-history")


def test_a_small_file_is_downloaded_with_its_name_and_an_error_is_shown(
    app: Any, browse: Any, problems: list[str]
) -> None:
    app.call(1, "2026-07-01 09:15:00")
    page = browse("/calls?range=all")
    with page.expect_download() as download:
        page.get_by_role("link", name="Excel").click()
    assert download.value.suggested_filename == "calls-all.xlsx"
    app.app_db.write(lambda tx: tx.execute("UPDATE people SET rights = '{\"export\": false}'"))
    page.get_by_role("link", name="Excel").click()
    expect(page.locator("#toast")).to_contain_text("You don’t have permission for this export")
    expect(page.get_by_role("link", name="Excel")).to_be_visible()
    assert problems.pop().startswith("Failed to load resource: the server responded with a status of 403")
