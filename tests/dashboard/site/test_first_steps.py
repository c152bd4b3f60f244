"""Checklist of a new installation on Live."""

from __future__ import annotations

import re

import requests

from integration.core import clock
from integration.mirror.sync_state import collection_state
from tests.support.page_text import text
from tests.support.people import BOB, Member

COLLEAGUE = Member("carla@example.com", "admin")


def read_steps(client) -> list[tuple[bool, str]]:
    """Steps of the checklist on Live, as (done, label)."""
    page = client.get("/").text
    found = re.search(r'<ol id="first-steps" data-region>(.*?)</ol>', page, re.DOTALL)
    if found is None:
        return []
    items = re.findall(r"<li>(.*?)</li>", found[1], re.DOTALL)
    labels = [re.sub(r"<span class=.warning.*|<[^>]*>", "", item).strip() for item in items]
    return [("<a " not in item, label) for item, label in zip(items, labels, strict=True)]


def test_the_checklist_shows_each_step_until_all_are_done(app):
    client = app.log_in()
    assert read_steps(client) == [
        (False, "Connect the phone system"),
        (False, "Set up webhooks"),
        (False, "Make a first backup"),
        (False, "Invite a colleague"),
    ]
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 0, 0, clock.utc_text()))
    webhook_path = re.search(r"/webhooks/[\w-]+", client.get("/system").text)[0]
    requests.post(app.url + webhook_path, json={"event": "call.ringing", "call_id": 7}, timeout=20)
    (app.context.settings.storage.data_dir / "backups" / "switchroom-20261120-090000").mkdir(parents=True)
    assert read_steps(client) == [
        (True, "Connect the phone system"),
        (True, "Set up webhooks"),
        (True, "Make a first backup"),
        (False, "Invite a colleague"),
    ]
    app.add(BOB)
    assert read_steps(client) == []


def test_a_step_states_what_it_needs_and_the_checklist_folds(app):
    client = app.log_in()
    assert "Set up webhooks Needs HTTPS: set server.public_url" in text(client.get("/"))
    app.insert(
        "_walks",
        collection="cdrs",
        last_error="the platform refuses connections; check the address",
        failures=1,
    )
    shown = client.get("/")
    assert "First steps 4 left Connect the phone system It refuses connections" in text(shown)
    assert re.search(r'<details data-fold="first-steps" open>', shown.text)
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 0, 0, clock.utc_text()))
    app.add(BOB)
    shown = client.get("/")
    assert "First steps 2 left" in text(shown)
    assert re.search(r'<details data-fold="first-steps">', shown.text)


def test_the_checklist_is_dismissed_for_one_administrator(app):
    client, colleague = app.log_in(), app.log_in(COLLEAGUE)
    assert len(read_steps(client)) == 4
    assert client.post("/live/first-steps/dismiss", follow=False).headers["Location"] == "/live"
    assert read_steps(client) == []
    assert len(read_steps(colleague)) == 4
    app.restart()
    assert read_steps(app.log_in()) == []
