"""What is beside the row of a call renews its number: labels, notes, transcripts, audio; and call-backs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.mirror.privacy import retention_rules
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaFile
from integration.sqlite.database import Database
from integration.workspace import app_changes, callbacks, notes
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp
from tests.support.payloads.call_facts import ANN, CallMirror, Phone, cdr

USER = "ann@example.com"


@pytest.fixture
def mirror(app: TestApp) -> CallMirror:
    """A mirror of an hour ago with a call that is known since its end, and one of the past."""
    mirror = CallMirror(app)
    mirror.seed()
    app.mirror_db.write(
        lambda tx: tx.execute("UPDATE _meta SET value = '2026-01-01' WHERE key = 'events since'")
    )
    app.clock.freeze("2026-09-02 08:46:30")
    mirror.apply(("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN)))
    mirror.apply(("cdrs", cdr(9000, 100, -13 * 3600, 18, 11, user_id=ANN)))
    return mirror


def list_events(app: TestApp) -> list[tuple[str, str, Any]]:
    """Return the new events: topic, key and what changed. Runs the announcing consumer."""
    app_changes.announce(app.app_db, app.mirror_db)
    with app.mirror_db.read() as connection:
        rows = connection.execute(
            "SELECT topic, key, data FROM _changes WHERE data ->> '$.event' IS NOT NULL ORDER BY id"
        ).fetchall()
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _changes SET data = '{}'"))
    described = [(topic, key, json.loads(data)) for topic, key, data in rows]
    return [
        (topic, key, data["changed"] if data["event"].startswith("call.") else data["event"])
        for topic, key, data in described
    ]


def get_numbers(mirror: CallMirror) -> list[int]:
    return [number for (number,) in mirror.calls("change_no")]


def test_labels_notes_transcripts_and_audio_renew_the_number_of_their_call(
    app: TestApp, mirror: CallMirror
) -> None:
    assert list_events(app) == [("call", "101", [])]
    numbers = get_numbers(mirror)

    def list_changed(*, of: int = 101) -> list[tuple[str, str, Any]]:
        events = list_events(app)
        old, numbers[:] = list(numbers), get_numbers(mirror)
        calls = zip(mirror.calls("id"), old, numbers, strict=True)
        renewed = [id_ for (id_,), before, after in calls if after > before]
        assert renewed == [of]
        return events

    app.app_db.write(lambda tx: notes.add_label(tx, 101, USER, "Order"))
    assert list_changed() == [("call", "101", ["labels"])]
    app.app_db.write(lambda tx: notes.rename_label(tx, "Order", "Orders"))
    assert list_changed() == [("call", "101", ["labels"])]
    app.app_db.write(lambda tx: notes.add_note(tx, 100, USER, "Call again"))
    assert list_changed(of=100) == [("past_call", "100", ["notes"])], "an action of a user is always an event"
    app.mirror_db.write(lambda tx: tx.execute("UPDATE cdrs SET labels = '[\"Vip\"]' WHERE id = 9001"))
    assert list_changed() == [("call", "101", ["labels"])]
    for leg in (101, 100):
        mirror.put("monitors", {"id": 8000 + leg, "live_id": leg, "user_id": ANN})
        assert list_changed(of=leg) == ([("call", "101", ["recordings"])] if leg == 101 else [])
        sql = f"UPDATE monitors SET transcript = 'Hello' WHERE live_id = {leg}"
        app.mirror_db.write(lambda tx, sql=sql: tx.execute(sql))
        assert list_changed(of=leg) == ([("call", "101", ["transcript"])] if leg == 101 else [])
        path = f"recordings/2026/09/02/{8000 + leg}.mp3"
        file = MediaFile("recording", 8000 + leg, path, None, 0)
        app.mirror_db.write(lambda tx, file=file: media_files.mark_present(tx, file, 3, "0" * 64))
        assert list_changed(of=leg) == ([("call", "101", ["recordings"])] if leg == 101 else [])
    app.mirror_db.write(lambda tx: retention_rules.clear_texts(tx, [8101], "monitors"))
    assert list_changed() == [], "retention is no event"
    app.mirror_db.write(lambda tx: retention_rules.remove_calls(tx, [101, 100]))
    assert (mirror.calls(), list_events(app)) == ([], [])
    with app.mirror_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM _merged_calls").fetchone()[0] == 0


def test_call_backs_are_announced_by_their_numbers_once_also_after_a_crash(
    app: TestApp, mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_events(app)
    mirror.apply(Phone(201, ANN, started=5).event("missed", 20, final=True))
    update_from_mirror(app.app_db, app.mirror_db)
    [(_, key, opened)] = [event for event in list_events(app) if event[0] == "callback"]
    assert opened == "callback.opened"
    callbacks.record_action(app.app_db, int(key), USER, "close", "done")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", fail)
        with pytest.raises(OSError, match="crash"):
            app_changes.announce(app.app_db, app.mirror_db)
    assert list_events(app) == [("callback", key, "callback.closed")]
    assert list_events(app) == []
    callbacks.record_action(app.app_db, int(key), USER, "reopen")
    app.restart()
    assert list_events(app) == [("callback", key, "callback.opened")]

    for consumer in app.product.consumers:
        consumer.start()
    headers = app.add_key()
    cursor = app.client.get("/api/events", headers=headers).json["next"]
    app.app_db.write(lambda tx: notes.add_label(tx, 101, USER, "Order"))
    page = app.client.get(f"/api/events?after={cursor}&wait=30", headers=headers).json
    assert [(event["type"], event["data"]["changed"]) for event in page["data"]] == [
        ("call.updated", ["labels"])
    ]


def fail(*_: object) -> None:
    raise OSError("crash")
