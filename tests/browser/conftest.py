from __future__ import annotations

import pytest

from tests.dashboard.site import Site, running
from tests.harness import NOWHERE


@pytest.fixture
def site(tmp_path):
    # A platform that does not answer: forms that would ask it say so.
    with running(tmp_path / "data", platform__base_url=NOWHERE) as site:
        yield site
        site.parts.platform.close()


@pytest.fixture
def problems():
    """What a browser complained of: errors in scripts, loads that failed, what the CSP refused."""
    return []


@pytest.fixture
def browse(site, page, problems):
    """`browse("/calls")` goes there with `page`, logged in. Any complaint of the browser fails the test."""
    watch(page, problems)
    log_in(site, page.context)

    def go(path: str):
        page.goto(site.url + path)
        return page

    yield go
    assert problems == []


def watch(page, problems: list[str]) -> None:
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))


def log_in(site: Site, context, role: str = "admin") -> None:
    context.add_cookies([{"name": "session", "value": site.token(role), "url": site.url}])
