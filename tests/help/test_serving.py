"""The documentation site at `/help`, its headers, and the links to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import __version__
from integration.dashboard.site.help_links import HELP_PAGES, find_help_page
from integration.web.help_documents import render_document
from tests.support.application import TestApp, running_app
from tests.support.harness import ROOT
from tests.support.payloads.markdown import read_anchors

MD = ".md"
"""Suffix of names that are examples, not citations."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a site with two files."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "_static").mkdir()
    (folder / "index.html").write_text("<h1>Built</h1>")
    (folder / "_static" / "help.css").write_text("body{}")
    return folder


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[TestApp]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("integration.web_app.find_help_site", lambda: site)
        with running_app(tmp_path_factory.mktemp("data")) as app:
            yield app


@pytest.fixture(scope="module")
def app_without_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("integration.web_app.find_help_site", lambda: folder / "missing")
        with running_app(folder) as app:
            yield app


def test_help_needs_no_login_and_leads_to_the_first_page(app: TestApp) -> None:
    redirect = app.client.get("/help")
    assert (redirect.status_code, redirect.headers["Location"]) == (308, "/help/")
    page = app.client.get("/help/")
    assert (page.status_code, page.text) == (200, "<h1>Built</h1>")
    assert "Set-Cookie" not in page.headers
    style = app.client.get("/help/_static/help.css")
    assert (style.status_code, style.mimetype) == (200, "text/css")


@pytest.mark.parametrize(
    "name", ["missing.html", "../settings", "..%2f..%2fconfig.toml", "_static", ".", "//etc"]
)
def test_help_has_only_files_of_the_site(app: TestApp, name: str) -> None:
    assert app.client.get(f"/help/{name}", follow_redirects=False).status_code in (302, 404)


def test_help_may_be_cached_and_its_search_may_make_nodes_from_text(app: TestApp) -> None:
    headers = app.client.get("/help/").headers
    assert headers["Cache-Control"] == "no-cache"
    assert headers["ETag"]
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "trusted-types" not in policy
    assert "trusted-types switchroom" in app.client.get("/login").headers["Content-Security-Policy"]
    assert app.client.get("/help/missing.html").headers["Cache-Control"] == "no-store"


def test_without_a_built_site_the_documents_are_simple_pages(app_without_site: TestApp) -> None:
    client = app_without_site.client
    index = client.get("/help/")
    assert "<title>Switchroom help</title>" in index.text
    assert '<a href="troubleshooting.html">Troubleshooting</a>' in index.text
    assert f"Version {__version__}" in index.text
    # The changelog is outside of docs/.
    assert "<a>Changes of each version</a>" in index.text
    page = client.get("/help/troubleshooting.html").text
    assert "<title>Troubleshooting · Switchroom help</title>" in page
    assert '<h2 id="webhooks-do-not-arrive">Webhooks do not arrive</h2>' in page
    assert '<a href="install.html#register-the-webhook">Register the webhook</a>' in page
    assert "<td>Start the newer version, or" in page
    assert client.get("/help/_static/help.css").mimetype == "text/css"
    assert client.get("/help/pictures/live.png").mimetype == "image/png"
    for name in ("missing.html", "_static/theme.css", "../README.md", "pictures/../../app.py"):
        assert client.get(f"/help/{name}").status_code == 404, name


def test_documents_in_a_checkout_cannot_contain_html(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        f"# A `b` & c\n\n<script>x</script> [d](sql{MD}) [e](https://example.com/x{MD})\n"
    )
    title, html = render_document(tmp_path / "page.md")
    assert title == "A `b` & c"
    assert '<h1 id="a-b--c">A <code>b</code> &amp; c</h1>' in html
    assert "&lt;script&gt;" in html
    assert f'<a href="sql.html">d</a> <a href="https://example.com/x{MD}">e</a>' in html


def test_every_page_links_to_its_help_with_the_version(app: TestApp) -> None:
    client = app.log_in()
    for path, link in (
        ("/live", "/help/agents.html#watch-live-calls"),
        ("/missed", "/help/agents.html#call-back-missed-callers"),
        ("/calls/labels", "/help/agents.html#add-a-note-or-a-label"),
        ("/account/users", "/help/account.html"),
        ("/system/journal", "/help/troubleshooting.html"),
        ("/no-such-page", "/help/agents.html"),
    ):
        page = client.get(path).text
        assert f'href="{link}" title="Help with this page · Switchroom {__version__}"' in page, path
        assert f'<a class="link" href="/help/">Help</a> <span class="quiet">Switchroom {__version__}' in page


def test_the_login_page_links_to_help_with_the_version(app: TestApp) -> None:
    page = app.client.get("/login").text
    assert f'<a class="link" href="/help/">Help</a> <span class="quiet">Switchroom {__version__}' in page


@pytest.mark.parametrize("path", sorted(HELP_PAGES))
def test_the_help_of_every_page_exists(path: str) -> None:
    page, _, anchor = find_help_page(path).removeprefix("/help/").partition("#")
    text = (ROOT / "docs" / page).with_suffix(".md").read_text("utf-8")
    assert not anchor or anchor in read_anchors(text)


def test_a_page_below_another_has_its_help() -> None:
    assert find_help_page("/missed/several/7") == "/help/agents.html#call-back-missed-callers"
    assert find_help_page("/nothing") == "/help/agents.html"
