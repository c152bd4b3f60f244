"""Main path of the product, with product and simulator as processes.

HTTPS webhook → inbox → mirror → browser; REST → recording on disk; the facade returns the CDR.
"""

from __future__ import annotations

import sqlite3

import pytest
from playwright.sync_api import expect

from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive


def rows(path, sql, *parameters):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, parameters)]


def test_a_call_is_shown_live_and_after_its_end(installation, logged_in):
    page = logged_in
    page.goto(installation.product.url + "/live")
    # The call talks until the page has shown it, however slow the page is.
    made = installation.script("plain_answered", talk_seconds=600, ring_seconds=1, hold=False)
    root = made["root_call_id"]
    row = page.locator(f"[data-call='{root}']")
    expect(row).to_contain_text("Talking", timeout=30_000)
    token = {"X-Auth-Token": installation.simulator.api_key}
    hung_up = installation.simulator.client.send(
        "DELETE", f"{installation.simulator.base}/calls/{root}", headers=token
    )
    assert hung_up[0] == 204
    wait_for(
        lambda: rows(
            installation.product.data_dir / "mirror.db",
            "SELECT 1 FROM _calls WHERE id = ? AND outcome = 'answered'",
            root,
        ),
        "the call to end as answered",
    )
    page.goto(f"{installation.product.url}/calls/{root}")
    expect(page.locator("main")).to_contain_text("Answered")


def test_a_message_received_by_webhook_and_rest_is_shown_once(installation, logged_in):
    text = "Is the blue one back in stock?"
    installation.simulator.control("POST", "sms", {"from": "447700900123", "message": text})
    mirror = installation.product.data_dir / "mirror.db"
    wait_for(lambda: rows(mirror, "SELECT 1 FROM sms WHERE message = ?", text), "the message's record")
    logged_in.goto(f"{installation.product.url}/messages")
    expect(logged_in.get_by_text(text)).to_have_count(1)
