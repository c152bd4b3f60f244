"""System page: failed webhooks, backups, doctor and write log."""

from __future__ import annotations

import threading

from integration.access import audit
from integration.inbox.apply import Applier
from integration.sync.writing import write_log
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import ERIN


def store(app, body: bytes, status: str = "failed", error: str = "boom", name: str = "call.ringing") -> int:
    """Store a webhook with this status in the inbox. Returns its `seq`."""
    return app.context.inbox.database.write(
        lambda tx: (
            tx.execute(
                "INSERT INTO inbox (event_id, received_at, event_name, body, status, error, body_hash)"
                " VALUES (?, '2026-11-20 09:00:00', ?, ?, ?, ?, ?)",
                (body.decode("utf-8", "replace"), name, body, status, error, body),
            ).lastrowid
        )
    )


def shows(client, *words: str) -> bool:
    page = text(client.get("/system"))
    return all(word in page for word in words)


def test_a_long_event_name_is_shown_in_part(shared_app):
    seq = store(shared_app, b"{}", "unknown", name="call." + "a" * 200_000)
    for path in ("/system", f"/system/events/{seq}"):
        page = shared_app.log_in().get(path).text
        assert "call." + "a" * 92 + "..." in page, path
        assert "a" * 101 not in page, path


def test_failed_webhooks_are_reapplied_by_one_job_and_audited(app, client, monkeypatch):
    failed = [store(app, b'{"a": 1}'), store(app, b'{"a": 2}'), store(app, b'{"a": 3}')]
    store(app, b'{"a": 4}', "done")
    applied, proceed = [], threading.Event()

    def reapply(_applier, seqs):
        applied.append(list(seqs))
        proceed.wait(30)
        return 2

    monkeypatch.setattr(Applier, "reapply", reapply)
    page = client.post("/system/replay")
    assert "Replaying" in text(page)
    client.post("/system/replay")  # a second press changes nothing
    proceed.set()
    wait_for(lambda: shows(client, "2 applied, 1 failed again"), "the end of the replay")
    assert applied == [failed]

    def audited() -> list[tuple[str, str]]:
        return [(one.what, one.result) for one in audit.list_newest(app.app_db)]

    # The page may show the end shortly before the audit log.
    wait_for(lambda: len(audited()) == 2, "the audit of the replay's end")
    assert audited() == [("failed webhooks replayed", "done"), ("failed webhooks replayed", "begun")]


def test_a_failed_replay_shows_the_error_type_and_can_be_repeated(app, client, monkeypatch):
    def reapply(_applier, _seqs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Applier, "reapply", reapply)
    store(app, b"{}")
    client.post("/system/replay")
    wait_for(lambda: shows(client, "RuntimeError", "Replay 1 failed"), "the failure and the button")
    assert not shows(client, "secret detail")


def test_an_unreadable_webhook_is_shown_escaped(app, client):
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


def test_a_backup_is_created_listed_and_audited(app, client):
    assert shows(client, "No backups yet")
    client.post("/system/backup")
    wait_for(lambda: shows(client, "switchroom-", "5 files"), "the backup")
    (folder,) = (app.context.settings.storage.data_dir / "backups").iterdir()
    assert folder.name in client.get("/system").text

    def newest() -> tuple[str, str]:
        entry = audit.list_newest(app.app_db)[0]
        return entry.what, entry.result

    # The page lists the backup shortly before the audit log has its end.
    wait_for(lambda: newest() != ("backup", "begun"), "the audit of the backup's end")
    assert newest() == ("backup", "done")


def test_a_damaged_backup_is_marked_in_the_list(app, client):
    folder = app.context.settings.storage.data_dir / "backups" / "switchroom-20261120-090000"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    assert shows(client, folder.name, "is damaged")


def test_the_doctor_page_shows_the_checks_of_the_command(client):
    shown = text(client.get("/system/doctor"))
    assert "SQLite" in shown
    assert "public address : not set" in shown or "public address: not set" in shown


def test_the_write_log_shows_writes_without_secrets(app, client):
    entry = write_log.begin(
        app.app_db,
        who="key Reports",
        address="192.0.2.1",
        method="PATCH",
        path="/users/7",
        body=b'{"password": "hunter2", "name": "<b>Ann</b>"}',
    )
    assert "unknown: the connection was lost" in text(client.get("/system/journal"))
    write_log.finish(app.app_db, entry, status=200, result="done", seconds=0.25)
    page = client.get("/system/journal")
    assert "PATCH /users/7" in text(page)
    assert "0.25 s" in text(page)
    assert "hunter2" not in page.text
    assert "<b>Ann" not in page.text


def test_a_damaged_database_that_was_replaced_is_named(app):
    assert not shows(app.log_in(ERIN), "was damaged")
    (app.context.settings.storage.data_dir / "mirror.db.damaged-20261120-090000").write_bytes(b"")
    (app.context.settings.storage.data_dir / "mirror.db.damaged-20261120-090000-wal").write_bytes(b"")
    page = text(app.log_in(ERIN).get("/system"))
    assert "mirror.db was damaged, or another program replaced it" in page
    assert page.count("mirror.db.damaged-20261120-090000") == 1
