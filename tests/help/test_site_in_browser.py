"""The built documentation site in a browser: twenty questions of support, accessibility, both widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from docs_site.build import build_site
from integration import __version__
from tests.support.application import TestApp, running_app
from tests.support.harness import ROOT

pytestmark = pytest.mark.exhaustive

MAX_RESULTS = 5
"""Results among which the page of an answer is."""

# Question of a user, words that the user enters, page with the answer.
QUESTIONS = (
    ("Phone numbers show as text in Excel.", "excel phone numbers text", "questions"),
    ("Telephone numbers lose their zero in a CSV file.", "csv zeros", "back-office"),
    ("Webhooks are not arriving.", "webhooks not arriving", "troubleshooting"),
    ("The platform refuses my API key.", "refuses API key", "troubleshooting"),
    ("How do I erase a person?", "How do I erase a person", "privacy"),
    ("How do I move to another machine?", "move another computer", "upkeep"),
    ("I forgot my password.", "lost password", "access"),
    ("My phone with the authenticator app is lost.", "lost authenticator app", "access"),
    ("Port 8000 is in use by another program.", "port is in use", "troubleshooting"),
    ("Everyone is locked out after wrong passwords.", "too many attempts", "access"),
    ("A missed call is not in the list.", "missed call not in list", "questions"),
    ("How much disk space do recordings need?", "disk space recordings", "requirements"),
    ("How do I restore a backup?", "restore backup", "upkeep"),
    ("How do I upgrade, and how do I go back?", "upgrade go back", "upkeep"),
    ("What does nginx need?", "nginx proxy", "upkeep"),
    ("How do I get a report by e-mail every month?", "e-mail every month", "back-office"),
    ("How do I query missed calls with SQL?", "sql missed calls", "sql"),
    ("How do I read the data in Excel with a refresh?", "power query", "facade"),
    ("How is the service level computed?", "service level", "reports"),
    ("How long are recordings kept, and can old ones be deleted?", "delete old recordings", "privacy"),
    ("Who played a recording?", "who played recording", "owners"),
    ("The times are wrong by an hour.", "times wrong hour", "questions"),
    ("How do I give a program access?", "key program access", "getting-started"),
    ("Which setting limits requests to the platform?", "max_requests_per_minute", "requirements"),
)
PAGES = ("", "getting-started.html", "troubleshooting.html", "search.html?q=erase+person")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the site of the present sources. Sphinx has no warning about them."""
    folder = tmp_path_factory.mktemp("site") / "help"
    assert build_site(ROOT, folder) == ""
    return folder


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[TestApp]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("integration.web_app.find_help_site", lambda: site)
        with running_app(tmp_path_factory.mktemp("data")) as app:
            yield app


@pytest.fixture
def problems(page: Page) -> Iterator[None]:
    """A console error, such as a violation of the security policy, fails the test."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    yield
    assert found == []


def search(page: Page, words: str) -> list[str]:
    """Search from the field of the open page. Returns the names of the pages found, best first."""
    page.get_by_role("searchbox").fill(words)
    with page.expect_navigation():
        page.get_by_role("searchbox").press("Enter")
    expect(page.locator(".search-summary")).to_contain_text(re.compile("matching|did not match"))
    links = page.locator("#search-results li > a")
    return [str(link.get_attribute("href")).partition(".html")[0] for link in links.all()]


@pytest.mark.usefixtures("problems")
def test_every_question_is_answered_by_one_of_the_first_results(app: TestApp, page: Page) -> None:
    page.goto(f"{app.url}/help/")
    found = {question: search(page, words)[:MAX_RESULTS] for question, words, _ in QUESTIONS}
    missing = [
        f"{question} {found[question]}" for question, _, name in QUESTIONS if name not in found[question]
    ]
    assert not missing, "\n".join(missing)
    assert len(QUESTIONS) >= 20


def test_the_search_works_without_a_server(site: Path, page: Page) -> None:
    page.goto((site / "getting-started.html").as_uri())
    assert "privacy" in search(page, "erase person")[:MAX_RESULTS]


@pytest.mark.usefixtures("problems")
def test_a_search_term_is_text(app: TestApp, page: Page) -> None:
    page.goto(f"{app.url}/help/")
    assert search(page, "<img src=x onerror=alert(1)>") == []
    expect(page.locator("main img")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_the_site_is_accessible_and_fits_its_window(
    app: TestApp, browser: Browser, scheme: str, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    page = context.new_page()
    problems = []
    for name in PAGES:
        page.goto(f"{app.url}/help/{name}")
        if name.startswith("search"):
            expect(page.locator(".search-summary")).not_to_be_empty()
            page.wait_for_load_state("networkidle")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            problems.append(f"{name} is wider than its window")
        found = Axe().run(page).response["violations"]
        problems += [f"{name} {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
    context.close()
    assert not problems, "\n".join(problems)


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    texts = {path.name: path.read_text("utf-8") for path in site.glob("*.html")}
    checked = 0
    for page, text in texts.items():
        assert f'<span class="version">Version {__version__}</span>' in text
        assert not re.search(r"<script>|<style>| style=| on\w+=", text), page
        for name, anchor in re.findall(r'href="([^":#]*)(?:#([^"]*))?"', text):
            assert not name or (site / name).is_file(), f"{page}: {name}"
            target = texts.get(name or page)
            if anchor and target is not None:
                assert f'id="{anchor}"' in target, f"{page}: {name}#{anchor}"
                checked += 1
    assert checked > 300
