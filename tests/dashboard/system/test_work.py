"""System's buttons and lists: failed webhooks, backups, doctor, the write journal."""

from __future__ import annotations

import threading

import pytest

from integration.access import audit
from integration.inbox.apply import Applier
from integration.sync.writing import write_log
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import BOB, ERIN


def store(app, body: bytes, status: str = "failed", error: str = "boom") -> int:
    """A webhook in the inbox that came to this end."""
    return app.context.inbox.database.write(
        lambda tx: (
            tx.execute(
                "INSERT INTO inbox (event_id, received_at, event_name, body, status, error, body_hash)"
                " VALUES (?, '2026-11-20 09:00:00', 'call.ringing', ?, ?, ?, ?)",
                (body.decode("utf-8", "replace"), body, status, error, body),
            ).lastrowid
        )
    )


def said_by(client, *words: str) -> bool:
    page = text(client.get("/system"))
    return all(word in page for word in words)


@pytest.mark.parametrize("path", ["/system/replay", "/system/backup"])
def test_only_administrators_begin_work_and_only_by_a_form_of_ours(app, path):
    assert app.log_in(BOB).post(path).status_code == 403
    assert app.log_in().post(path, csrf=False).status_code == 403
    assert audit.list_newest(app.app_db) == []


@pytest.mark.parametrize("path", ["/system/doctor", "/system/journal"])
def test_only_administrators_see_what_tells_of_the_installation(app, path):
    assert app.log_in(BOB).get(path).status_code == 403


def test_failed_webhooks_are_applied_again_by_the_commands_handler(app, client, monkeypatch):
    failed = [store(app, b'{"a": 1}'), store(app, b'{"a": 2}'), store(app, b'{"a": 3}')]
    store(app, b'{"a": 4}', "done")
    applied, go_on = [], threading.Event()

    def reapply(_applier, seqs):
        applied.append(list(seqs))
        go_on.wait(30)
        return 2

    monkeypatch.setattr(Applier, "reapply", reapply)
    page = client.post("/system/replay")
    assert "Applying again" in text(page)
    client.post("/system/replay")  # a second press changes nothing
    go_on.set()
    wait_for(lambda: said_by(client, "2 applied, 1 failed again"), "the end of the replay")
    assert applied == [failed]

    def kept() -> list[tuple[str, str]]:
        return [(one.what, one.result) for one in audit.list_newest(app.app_db)]

    # The page may tell of the end a moment before the audit does.
    wait_for(lambda: len(kept()) == 2, "the audit of the replay's end")
    assert kept() == [("failed webhooks replayed", "done"), ("failed webhooks replayed", "begun")]


def test_a_replay_that_breaks_says_so_and_may_be_tried_again(app, client, monkeypatch):
    def reapply(_applier, _seqs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Applier, "reapply", reapply)
    store(app, b"{}")
    client.post("/system/replay")
    wait_for(lambda: said_by(client, "RuntimeError", "failed again"), "the failure and the button")
    assert not said_by(client, "secret detail")


def test_a_webhook_that_needs_a_look_is_shown_as_it_came(app, client):
    evil = b'{"event": "<script>alert(1)</script>"}' + b"\xff"
    seq = store(app, evil, "unreadable", "not JSON")
    assert f'href="/system/events/{seq}"' in client.get("/system").text
    page = client.get(f"/system/events/{seq}")
    assert "<script>alert" not in page.text
    assert '{"event": "<script>alert(1)</script>"}' in text(page).replace("&lt;", "<") or "alert(1)" in text(
        page
    )
    assert "not JSON" in text(page)
    assert client.get("/system/events/99").status_code == 404
    assert app.log_in(ERIN).get(f"/system/events/{seq}").status_code == 403


def test_a_backup_is_made_listed_and_audited(app, client):
    assert said_by(client, "None here yet")
    client.post("/system/backup")
    wait_for(lambda: said_by(client, "switchroom-", "4 files"), "the backup")
    (folder,) = (app.context.settings.storage.data_dir / "backups").iterdir()
    assert folder.name in client.get("/system").text

    def newest() -> tuple[str, str]:
        entry = audit.list_newest(app.app_db)[0]
        return entry.what, entry.result

    # The page tells of it as soon as it is there.
    wait_for(lambda: newest() != ("backup", "begun"), "the audit of the backup's end")
    assert newest() == ("backup", "done")


def test_a_backup_that_was_damaged_says_so_in_the_list(app, client):
    folder = app.context.settings.storage.data_dir / "backups" / "switchroom-20261120-090000"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    assert said_by(client, folder.name, "is damaged")


def test_doctor_says_on_a_page_what_it_says_on_the_command_line(client):
    said = text(client.get("/system/doctor"))
    assert "SQLite" in said
    assert "public address : not set" in said or "public address: not set" in said


def test_writes_stand_in_the_journal_without_their_secrets(app, client):
    entry = write_log.begin(
        app.app_db,
        who="key Reports",
        address="192.0.2.1",
        method="PATCH",
        path="/users/7",
        body=b'{"password": "hunter2", "name": "<b>Ann</b>"}',
    )
    assert "it was cut off" in text(client.get("/system/journal"))
    write_log.finish(app.app_db, entry, status=200, result="done", seconds=0.25)
    page = client.get("/system/journal")
    assert "PATCH /users/7" in text(page)
    assert "0.25 s" in text(page)
    assert "hunter2" not in page.text
    assert "<b>Ann" not in page.text
