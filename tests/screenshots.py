"""Screenshots of every page, for review and README: `python -m tests.screenshots`.

--readme   only the pictures of README and docs/getting-started.md, in docs/pictures
--to DIR   every page of the demo, light and dark, wide and narrow; in the folder "empty" those of an empty
           installation, in "offline" those of the demo while its phone system hangs (default:
           build/screenshots)
--only A,B pages whose name contains one of these

Prints pages that are wider than their window and console errors; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from integration.workspace import wallboards
from tests.conftest import CHROMIUM, CHROMIUM_ARGUMENTS
from tests.support.application import running_app
from tests.support.harness import ROOT, Process, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = {
    "live": "/live",
    "missed": "/missed",
    "missed-done": "/missed?state=closed",
    "calls": "/calls",
    "calls-nothing-found": "/calls?q=nobody-has-this",
    "labels": "/calls/labels",
    "messages": "/messages",
    "message-new": "/messages?new=1",
    "faxes": "/messages/faxes",
    "voicemail": "/voicemail",
    "recordings": "/recordings",
    "contacts": "/contacts",
    "contact-new": "/contacts/new",
    "dial": "/dial",
    "reports": "/reports",
    "reports-missed": "/reports/missed?range=month",
    "reports-summary": "/reports/summary",
    "reports-labels": "/reports/labels",
    "account": "/account",
    "account-users": "/account/users",
    "account-faxes": "/account/faxes",
    "canned": "/account/sms/cannedresponses",
    "canned-new": "/account/sms/cannedresponses?edit=1",
    "account-queue-new": "/account/queues?edit=1",
    "account-ivr-new": "/account/ivrs?edit=1",
    "account-announcement-new": "/account/vmannouncements?edit=1",
    "system": "/system",
    "journal": "/system/journal",
    "exports": "/exports",
    "schedule-new": "/exports/schedules/new",
    "settings": "/settings/people",
    "settings-connection": "/settings/connection",
    "settings-keys": "/settings/keys",
    "settings-outgoing": "/settings/outgoing",
    "settings-screens": "/settings/screens",
    "settings-hours": "/settings/hours",
    "settings-text-back": "/settings/text-back",
    "alerts": "/system/alerts",
    "privacy": "/privacy",
    "privacy-holds": "/privacy/holds",
    "privacy-erasures": "/privacy/erasures",
    "privacy-retention": "/privacy/retention?kind=cdrs&days=1",
    "audit": "/privacy/audit",
    "own-login": "/profile",
    "settings-person": "/settings/people/1",
    "api": "/docs",
    "notifications": "/notifications",
    "second-factor": "/login/second-factor",
}
FOUND = {
    "call": ("/calls?range=all&recorded=1", "a.name", ""),
    "thread": ("/messages", "#threads a", ""),
    "contact": ("/contacts", "tbody a.name", ""),
    "user": ("/account/users", "tbody a.name", ""),
    "ring-group": ("/account/ringgroups", "tbody a.name", ""),
    "ring-group-edit": ("/account/ringgroups", "tbody a.name", "?edit=1"),
    "account-schedule-edit": ("/account/reportschedules", "tbody a.name", "?edit=1"),
    "account-rule-edit": ("/account/routingrules", "tbody a", "?edit=1"),
    "queue-edit": ("/account/queues", "tbody a.name", "?edit=1"),
}
"""Pages of one record: listing, selector of its link, and text to append to the URL."""
PICTURES = {"live": "/live", "missed": "/missed", "calls": "/calls", "reports": "/reports?range=7"}
"""Pages of README and docs/getting-started.md."""
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
WIDE, NARROW, DARK = ("light", "wide"), ("light", "narrow"), ("dark", "wide")
"""Scheme of colours and size of a picture. Dark colours have the same layout, so they are taken once."""
BETWEEN = (1920, 1200, 960, 820, 768, 340)
"""Widths that are checked without a screenshot, in pixels."""
BROWSERS = 2
"""Browsers that take pictures at the same time."""
BUSY = 5
"""Live calls required before a screenshot of the live page."""
READY = "tbody a.name"
"""Selector of a row in the lists that the initial sync fills last."""


Address = tuple[str, str, str]
"""URL, login and password."""


@contextmanager
def demo(folder: Path) -> Iterator[tuple[Address, Process]]:
    """Run the demo. Yields its address and its process."""
    process = Process([sys.executable, "app.py", "demo", "--port", "0", "--data", str(folder / "demo")])
    try:
        url = process.line("Dashboard: ").rstrip("/")
        yield (url, process.line("Login: "), process.line("Password: ")), process
    finally:
        process.stop()


@contextmanager
def suspended_platform(process: Process) -> Iterator[None]:
    """Suspend the process of the demo, which is also its phone system. `serve` is another process."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def log_in(page: Page, url: str, email: str, password: str) -> None:
    page.goto(f"{url}/login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda address: "/login" not in address)


def wait_until_busy(page: Page, url: str) -> None:
    """Wait for a complete initial sync and for BUSY live calls."""

    def busy() -> bool:
        page.goto(f"{url}/live")
        talking = page.locator("[data-call]").filter(has_text=re.compile("Talking|On hold"))
        return page.locator("[data-call]").count() >= BUSY and talking.count() >= 2

    def listed(path: str) -> bool:
        page.goto(url + path)
        return page.locator(READY).count() > 0

    for path in ("/contacts", "/account/ringgroups", "/account/sms/cannedresponses"):
        wait_for(lambda path=path: listed(path), path, 120)
    wait_for(busy, "a busy live page", 120)
    page.wait_for_timeout(2500)


def find_pages(page: Page, url: str) -> dict[str, str]:
    """Paths of the pages in FOUND and of a new wallboard."""
    paths = {}
    for name, (listing, link, more) in FOUND.items():

        def first(listing: str = listing, link: str = link) -> str | None:
            page.goto(url + listing)
            return page.locator(link).first.get_attribute("href") if page.locator(link).count() else None

        paths[name] = f"{wait_for(first, listing, 120)}{more}"
    page.goto(f"{url}/settings/screens")
    form = page.locator("form[action='/settings/screens']")
    form.get_by_label("Name").fill("Front desk")
    form.get_by_role("button").click()
    wallboard = re.search(r"/wall/[\w-]+", page.inner_text("main"))
    return {**paths, "wall": wallboard[0]} if wallboard else paths


def watch(page: Page, problems: list[str]) -> None:
    """Append console errors of the page to `problems`."""
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser, which only this thread uses."""
    # A test of the documents reads PICTURES without a browser.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


def take(
    url: str,
    paths: dict[str, str],
    state: object,
    to: Path,
    only: list[str],
    *forms: tuple[str, str],
) -> list[str]:
    """Take screenshots of the pages, each of `forms` in a browser of its own. Returns their problems."""
    to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(BROWSERS) as pool:
        problems = pool.map(lambda form: _take_form(url, paths, state, to, only, form), forms)
        return [problem for of_form in problems for problem in of_form]


def _take_form(
    url: str, paths: dict[str, str], state: object, to: Path, only: list[str], form: tuple[str, str]
) -> list[str]:
    scheme, size = form
    all_problems: list[str] = []
    with open_browser() as browser:
        width, height = SIZES[size]
        context = browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": height},
            storage_state=state,  # type: ignore[arg-type]
        )
        page = context.new_page()
        problems: list[str] = []
        watch(page, problems)
        for name, path in paths.items():
            if only and not any(part in name for part in only):
                continue
            page.goto(url + path)
            page.wait_for_load_state("load")
            page.screenshot(path=to / f"{name}-{scheme}-{size}.png", animations="disabled")
            for window in (width, *(BETWEEN if (scheme, size) == WIDE else ())):
                page.set_viewport_size({"width": window, "height": height})
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > window:
                    problems.append(f"is {wide} wide at {window}")
            page.set_viewport_size({"width": width, "height": height})
            all_problems += [f"{name} {scheme} {size}: {what}" for what in problems]
            problems.clear()
        context.close()
    return all_problems


def take_all(folder: Path, to: Path, only: list[str]) -> list[str]:
    """Take screenshots of the demo, without its phone system in `offline`, and of an empty installation."""
    with demo(folder) as (address, process), open_browser() as browser:
        page = browser.new_page()
        log_in(page, *address)
        wait_until_busy(page, address[0])
        paths = {**PAGES, **find_pages(page, address[0])}
        state = page.context.storage_state()
        all_problems = take(address[0], paths, state, to, only, WIDE, NARROW, DARK)

        def is_offline() -> bool:
            page.goto(f"{address[0]}/contacts")
            return page.get_by_text("Phone system unreachable").count() > 0

        with suspended_platform(process):
            # First, because the demo detects the outage only after a minute.
            all_problems += take_empty(folder, to, only)
            wait_for(is_offline, "the notice that the phone system is unreachable", 240)
            all_problems += take(address[0], paths, state, to / "offline", only, WIDE)
        page.context.close()
    return all_problems


def take_empty(folder: Path, to: Path, only: list[str]) -> list[str]:
    """Take screenshots of an empty installation, whose platform does not respond."""
    with running_app(folder / "empty") as app:
        cookie = {
            "name": "session", "value": app.make_token(), "domain": "127.0.0.1", "path": "/", "expires": -1,
            "httpOnly": True, "secure": False, "sameSite": "Lax",
        }  # fmt: skip
        state = {"cookies": [cookie], "origins": []}
        paths = {**PAGES, "wall": f"/wall/{wallboards.add(app.app_db, 'Front desk')}"}
        problems = take(app.url, paths, state, to / "empty", only, NARROW)
        paths = {"login": "/login", "reset": "/login/reset"}
        return problems + take(app.url, paths, None, to / "empty", only, WIDE, NARROW)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.screenshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    all_problems = []
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="switchroom-shots-") as folder:
        if options.readme:
            with demo(Path(folder)) as (address, _), open_browser() as browser:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                log_in(page, *address)
                wait_until_busy(page, address[0])
                for name, path in PICTURES.items():
                    # The live page is open already, and may not be busy after a reload.
                    if name != "live":
                        page.goto(address[0] + path)
                    page.screenshot(path=ROOT / "docs" / "pictures" / f"{name}.png", animations="disabled")
        else:
            only = [part for part in options.only.split(",") if part]
            all_problems = take_all(Path(folder), options.to, only)
            print(options.to)
    for problem in all_problems:
        print(problem, file=sys.stderr)
    return 1 if all_problems else 0


if __name__ == "__main__":
    sys.exit(main())
