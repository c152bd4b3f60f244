"""Pictures of the demo's pages, for the README and for a look at every page: `python -m tests.screenshots`.

--readme   only docs/live.png, as the README shows it
--to DIR   every page, light and dark, wide and narrow (default: build/screenshots)
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import CHROMIUM_ARGUMENTS
from tests.harness import ROOT, Process, free_port, wait_for

PAGES = ("/live", "/missed", "/calls", "/messages", "/system")
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
BUSY = 5
"""Calls going on before a picture of the live page is worth taking."""


@contextmanager
def demo(folder: Path) -> Iterator[tuple[str, str, str]]:
    """A running demo: its URL, login and password."""
    process = Process(
        [sys.executable, "app.py", "demo", "--port", str(free_port()), "--data", str(folder / "demo")]
    )
    try:
        yield process.line("Dashboard: ").rstrip("/"), process.line("Login: "), process.line("Password: ")
    finally:
        process.stop()


def log_in(page: Page, url: str, email: str, password: str) -> None:
    page.goto(f"{url}/login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda address: "/login" not in address)


def wait_until_busy(page: Page, url: str) -> None:
    """Reload the live page until enough goes on and the account's history is here."""

    def busy() -> bool:
        page.goto(f"{url}/live")
        talking = page.locator("[data-call]").filter(has_text=re.compile("Talking|On hold"))
        return page.locator("[data-call]").count() >= BUSY and talking.count() >= 2

    wait_for(busy, "a busy live page", 120)
    page.wait_for_timeout(2500)


def take(browser: Browser, address: tuple[str, str, str], to: Path) -> None:
    for scheme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                color_scheme=scheme,
                viewport={"width": width, "height": height},  # type: ignore[arg-type]
            )
            page = context.new_page()
            log_in(page, *address)
            wait_until_busy(page, address[0])
            call = page.locator("[data-call]").first.get_attribute("data-call")
            for path in (*PAGES, f"/calls/{call}"):
                page.goto(address[0] + path)
                page.wait_for_load_state("load")
                name = "call" if path.startswith("/calls/") else path.strip("/")
                page.screenshot(path=to / f"{name}-{scheme}-{size}.png")
            context.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "screenshots")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="switchroom-shots-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS
        )
        with demo(Path(folder)) as address:
            if options.readme:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                log_in(page, *address)
                wait_until_busy(page, address[0])
                page.screenshot(path=ROOT / "docs" / "live.png")
            else:
                options.to.mkdir(parents=True, exist_ok=True)
                take(browser, address, options.to)
                print(options.to)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
