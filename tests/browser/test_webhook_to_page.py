"""Main path of the product, with product and simulator as processes.

HTTPS webhook → inbox → mirror → browser; REST → recording on disk; the facade returns the CDR.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive


def rows(path, sql, *parameters):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, parameters)]


def where(live_id):
    return quote(json.dumps([{"property": "live_id", "operator": "eq", "value": live_id}]))


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


def test_every_webhook_sent_is_in_the_inbox_and_applied(installation):
    made = installation.script("ring_group_missed", instant=True)
    sent = {event["id"] for event in made["events"]}

    def applied():
        found = rows(installation.product.data_dir / "inbox.db", "SELECT event_id, status FROM inbox")
        return {row["event_id"] for row in found if row["status"] == "done"} >= sent

    wait_for(applied, "every event to be applied")
    calls = rows(
        installation.product.data_dir / "mirror.db",
        "SELECT outcome, legs FROM _calls WHERE id = ?",
        made["root_call_id"],
    )
    assert [(call["outcome"], call["legs"] >= 3) for call in calls] == [("missed", True)]


def test_a_recording_is_archived_with_the_bytes_of_the_platform(installation):
    made = installation.script("plain_answered", instant=True, recorded=True)
    (monitor_id,) = made["monitor_ids"]

    def archived():
        return rows(
            installation.product.data_dir / "mirror.db",
            "SELECT path, size, sha256 FROM media "
            "WHERE kind = 'recording' AND record_id = ? AND state = 'have'",
            monitor_id,
        )

    (media,) = wait_for(archived, "the recording to be archived")
    archived_bytes = (installation.product.data_dir / media["path"]).read_bytes()
    status, original, _ = installation.simulator.client.send(
        "GET",
        f"{installation.simulator.base}/monitors/{monitor_id}.mp3",
        headers={"X-Auth-Token": installation.simulator.api_key},
    )
    assert status == 200
    assert archived_bytes == original
    assert hashlib.sha256(archived_bytes).hexdigest() == media["sha256"]
    assert len(archived_bytes) == media["size"]


def test_the_facade_returns_the_cdr_as_the_platform_does(installation, facade):
    made = installation.script("plain_answered", instant=True)
    leg = made["root_call_id"]
    answer = wait_for(
        lambda: (found := facade(f"/cdrs?filter={where(leg)}"))["data"] and found,
        "the CDR to be mirrored",
        30,
    )
    original = installation.simulator.client.json(
        "GET",
        f"{installation.simulator.base}/cdrs?filter={where(leg)}",
        headers={"X-Auth-Token": installation.simulator.api_key},
    )
    assert answer == original


def test_a_message_received_by_webhook_and_rest_is_shown_once(installation, logged_in):
    text = "Is the blue one back in stock?"
    installation.simulator.control("POST", "sms", {"from": "447700900123", "message": text})
    mirror = installation.product.data_dir / "mirror.db"
    wait_for(lambda: rows(mirror, "SELECT 1 FROM sms WHERE message = ?", text), "the message's record")
    logged_in.goto(f"{installation.product.url}/messages")
    expect(logged_in.get_by_text(text)).to_have_count(1)
