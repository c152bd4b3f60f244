"""Opt-out list: stop words, removal, erasure, and the warning before a message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from integration.access import audit
from integration.core import clock
from integration.core.errors import StorageFull
from integration.maintenance.backup import create
from integration.mirror.derived import due
from integration.privacy import erase
from integration.workspace import opt_outs
from tests.support.application import TestApp
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import CAROL

NUMBER, LINE = "447400123101", "442079460002"
PATH = "/settings/text-back"


def receive(app: TestApp, message: str, number: str = NUMBER, **values: Any) -> None:
    """Receive an SMS by webhook."""
    now = clock.utc_text()
    body = {"id": f"t.{message}.{now}", "event_name": "sms.received", "event_time": now,
            "customer_id": 1, "user_id": None, "from_no": number, "to_no": LINE, "text": message}  # fmt: skip
    app.context.inbox.receive(json.dumps({**body, **values}).encode()).result(30)
    app.apply_webhooks()


def sync(app: TestApp, number: int, message: str, sender: str = NUMBER, **values: Any) -> None:
    """Read an SMS record from the platform."""
    sms = {"id": number, "type": "I", "from": sender, "to": LINE, "message": message, "created_at": ago(60)}
    app.put("sms", {**sms, **values}, complete=False)


def listed(app: TestApp) -> list[tuple[str, str]]:
    opt_outs.follow_messages(app.context)
    with app.app_db.read() as connection:
        return [(entry.number, entry.word) for entry in opt_outs.list_all(connection)]


@pytest.mark.parametrize(
    ("message", "is_listed"),
    [
        ("STOP", True),
        ("stop", True),
        (" Stop. ", True),
        ("S.T.O.P!", True),
        ("STOP ALL", True),
        ("Arrêt", True),
        ("ＳＴＯＰ", True),
        ("fin", True),
        ("", False),
        ("...", False),
        ("Please stop", False),
        ("Stop by at noon", False),
        ("Cancelled", False),
        ("START", False),
    ],
)
def test_a_message_that_is_only_a_stop_word_opts_its_sender_out(
    shared_app: TestApp, message: str, is_listed: bool
) -> None:
    receive(shared_app, message)
    assert listed(shared_app) == ([(f"+{NUMBER}", message.strip())] if is_listed else [])


def test_records_of_any_age_and_notation_count_and_those_of_the_account_do_not(shared_app: TestApp) -> None:
    app = shared_app
    app.put("ddis", {"id": "1", "e164": LINE, "sms_enabled": True})
    sync(app, 1, "Quit", "07400123102", created_at="2019-02-03 10:00:00")
    sync(app, 2, "End", "0044 7400 123103", type=None)
    sync(app, 3, "Stop", LINE, type=None)
    sync(app, 4, "Stop", type="O")
    sync(app, 5, "Stop", "ACME Bank")
    sync(app, 6, "Stop", "60300")
    assert listed(app) == [("+447400123103", "End"), ("+447400123102", "Quit")]


def test_other_words_come_from_the_setting(app: TestApp) -> None:
    app.restart(text_back__stop_words="Halt,Basta")
    receive(app, "STOP")
    receive(app, "basta", "447400123102")
    assert listed(app) == [("+447400123102", "basta")]


def test_a_removed_number_returns_only_with_a_later_message(app: TestApp) -> None:
    receive(app, "STOP")
    assert len(listed(app)) == 1
    browser = app.log_in()
    assert "07400 123101 STOP" in text(browser.get(PATH))
    app.clock.advance(minutes=1)
    page = text(browser.post(f"{PATH}/opt-outs/1/remove"))
    assert "No number has opted out yet" in page
    entry = audit.list_newest(app.app_db)[0]
    assert (entry.what, entry.about) == ("opt-out removed", f"+{NUMBER}")
    assert browser.post(f"{PATH}/opt-outs/1/remove").status_code == 400
    # A rebuilt mirror reads the same messages again.
    app.mirror_db.write(lambda tx: due.mark(tx, "replies", [("", "~")]))
    assert listed(app) == []
    app.clock.advance(minutes=1)
    receive(app, "Unsubscribe")
    assert listed(app) == [(f"+{NUMBER}", "Unsubscribe")]


def test_opt_outs_that_an_older_backup_lacks_are_listed_again(app: TestApp, tmp_path: Path) -> None:
    receive(app, "STOP", "447400123102")
    assert listed(app) == [("+447400123102", "STOP")]
    backup = create(tmp_path, tmp_path.with_name("backups")).path
    app.clock.advance(minutes=1)
    receive(app, "STOP")
    assert len(listed(app)) == 2
    app.product.stop()
    shutil.copy(backup / "house.db", tmp_path / "house.db")
    app.restart()
    assert sorted(listed(app)) == [(f"+{NUMBER}", "STOP"), ("+447400123102", "STOP")]


def test_a_start_on_a_full_disk_marks_nothing(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    receive(app, "STOP")
    listed(app)

    def fail(*_: object) -> None:
        raise StorageFull("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(due, "mark", fail)
        app.restart()
    assert listed(app) == [(f"+{NUMBER}", "STOP")]


def test_an_erased_number_stays_opted_out_by_its_hash(app: TestApp) -> None:
    receive(app, "STOP")
    receive(app, "Hello", "447400123102")
    listed(app)
    result = erase.erase(app.context, {"number": f"+{NUMBER}"}, lambda **_: None)
    assert result["left"] == {}
    assert result["possibly_left"] == []
    app.restart()
    assert listed(app) == [("erased", "STOP")]
    assert "Erased number STOP" in text(app.log_in().get(PATH))
    with app.app_db.read() as connection:
        gate = app.context.erasure_gate
        assert opt_outs.find(connection, gate, f"+{NUMBER}") is not None
        assert opt_outs.find(connection, gate, "+447400123102") is None


def test_messages_warns_before_a_message_to_a_number_that_opted_out(app: TestApp) -> None:
    app.platform.respond("POST /sms", {"data": {"id": 1}, "links": {}}, 201)
    receive(app, "STOP")
    receive(app, "Hello", "447400123102")
    listed(app)
    browser = app.log_in(CAROL)
    warning = "This number opted out of texts: “STOP”"
    assert warning in text(browser.get(f"/messages?with={NUMBER}"))
    assert warning not in text(browser.get("/messages?with=447400123102"))
    form = {"to": "07400 123101", "message": "Are you there?", "new": "1"}
    refused = browser.post("/messages", **form)
    assert (refused.status_code, warning in text(refused)) == (400, True)
    assert 'name="despite_opt_out"' in refused.text
    question = browser.post("/messages", headers={"Accept": "application/json"}, **form).json()
    assert question["confirm"] == {"label": "Send anyway", "fields": {"despite_opt_out": "1"}}
    assert app.platform.count("/sms") == 0
    assert "Sent to 07400 123101" in text(browser.post("/messages", despite_opt_out="1", **form))
    browser.post("/messages", **{**form, "to": "07400 123102"})
    assert app.platform.count("/sms") == 2
