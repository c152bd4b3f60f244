"""Page /docs sends requests with the key that a user enters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import FakeExchange, read_fixture

pytestmark = pytest.mark.exhaustive

CDR = read_fixture("response-cdrs-list-200")["data"][0]


@pytest.fixture
def app(tmp_path: Path, platform: FakeExchange) -> Iterator[TestApp]:
    with running_app(tmp_path, platform=platform, facade__public_docs="true") as app:
        app.put("cdrs", CDR)
        yield app


def send(page: Any, operation_id: str) -> str:
    """Press “Send request” of an operation. Returns its result."""
    details = page.locator(f"#{operation_id}")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    details.get_by_role("button", name="Send request").click()
    result = details.locator("output")
    page.wait_for_function("output => !output.textContent.endsWith('…')", arg=result.element_handle())
    return str(result.text_content())


def test_requests_are_sent_with_the_key_of_the_user(app: TestApp, page: Any) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if "Content Security" in line.text else None)
    page.goto(app.url + "/docs")
    assert send(page, "list_cdrs") == "Enter a key at the top of this page first."
    page.get_by_label("Key for requests").fill(f"100001:{app.add_key('page', 'write')['X-Auth-Token']}")
    page.get_by_label("Base path").select_option(app.base)

    result = send(page, "list_cdrs")
    head, _, body = result.partition("\n\n")[2].partition("\n\n")
    assert result.startswith(f"GET {app.base}/cdrs?page=1&limit=5&filter=")
    assert head.startswith("200 OK\nContent-Type: application/json\nX-Mirror-Age: ")
    assert json.loads(body) == {"data": [CDR], "total": 1}

    page.locator("#get_cdr summary").click()
    page.locator("#get_cdr").get_by_label("id").fill(str(CDR["id"]))
    result = send(page, "get_cdr")
    assert result.startswith(f"GET {app.base}/cdrs/{CDR['id']}\n\n200 OK\n")

    app.platform.respond("/sms", {"data": {"id": 7}, "links": {}}, 201)
    page.locator("#create_sms summary").click()
    page.locator("#create_sms").get_by_label("Body").fill('{"to": "447700900123", "message": "Noon?"}')
    assert "201 CREATED" in send(page, "create_sms")
    sent = app.platform.requests[-1]
    assert (sent.method, sent.path) == ("POST", "/sms")
    assert json.loads(sent.body) == {"to": "447700900123", "message": "Noon?"}

    page.get_by_label("Key for requests").fill("0" * 40)
    assert "401 UNAUTHORIZED" in send(page, "list_users")
    # The key is in the page only.
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == (
        '[{},{},""]'
    )
    assert problems == []
