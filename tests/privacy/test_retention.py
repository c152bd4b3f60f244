"""Retention: deletion by age of records, texts and files (promise S21)."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from integration.access import audit
from integration.catalogue import get_resource
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.core.json_records import read_record
from integration.mirror.privacy import retention_rules
from integration.mirror.records import response_cache, subresources
from integration.mirror.records.upsert import upsert
from integration.mirror.sync_state import media_files
from integration.privacy.personal_data import LABELS
from integration.privacy.retention import RetentionJob
from integration.sync.files import download
from integration.sync.writing import write_log
from tests.support.application import DEFAULTS, TestApp
from tests.support.applications.data_dir import webhook
from tests.support.clock import Clock
from tests.support.fake_exchange import FakeExchange

OLD, NEW = 40, 20
LIMIT = 30
LEG = 4_300_000_001
DATES = {"cdrs": "calldate", "webcalls": "calldate", "monitors": "timestamp", "voicemessages": "origtime"}


@cache  # The same value at each call, also in a later second.
def at(days: float) -> str:
    return clock.utc_text(clock.now() - timedelta(days=days))


class RetentionApp(TestApp):
    """An application that deletes by age, and records for it to delete."""

    def __init__(self, folder: Path, retention: dict[str, int]) -> None:
        limits = {f"retention__{kind}": str(days) for kind, days in retention.items()}
        settings = {**DEFAULTS, "storage__data_dir": str(folder), **limits}
        super().__init__(settings, FakeExchange(), Clock())

    @property
    def job(self) -> RetentionJob:
        return self.product.retention_job

    def store(self, table: str, id: int, days: float, *, late: bool = False, **values: object) -> None:
        """Store a record dated `days` ago.

        As if stored then; with `late` as if a sync stored it today.
        """
        record = {"id": id, DATES.get(table, "created_at"): at(days), **values}
        document = read_record(json.dumps(record))
        gates, self.mirror_db.gates = self.mirror_db.gates, self.mirror_db.gates if late else {}
        self.mirror_db.write(
            lambda tx: (
                setattr(tx, "gates", self.mirror_db.gates),
                upsert(tx, get_resource(table), [document], source="sync", requested_at=clock.utc_text()),
            )
        )
        self.mirror_db.gates = gates

    def ids(self, table: str) -> list[int]:
        return self.query(f"SELECT id FROM {table} ORDER BY id")

    def query(self, sql: str) -> list[int]:
        with self.mirror_db.read() as connection:
            return [row[0] for row in connection.execute(sql)]


@pytest.fixture
def make_retention(tmp_path):
    apps: list[RetentionApp] = []

    def make(**retention: int) -> RetentionApp:
        apps.append(RetentionApp(tmp_path, retention))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


def test_old_records_of_kinds_with_a_limit_are_deleted_and_stay_deleted(make_retention):
    tables = [table for table, kinds in retention_rules.ROW_KINDS.items() if len(kinds) == 1]
    app = make_retention(**{f"{retention_rules.ROW_KINDS[table][0]}_days": LIMIT for table in tables})
    for table in tables:
        app.store(table, 1, OLD)
        app.store(table, 2, NEW)
        app.store(table, 3, 0, **{DATES.get(table, "created_at"): None})
    app.job.run()
    for table in tables:
        assert app.ids(table) == [2, 3], table
        app.store(table, 1, OLD, late=True)
        app.store(table, 4, NEW, late=True)
        assert app.ids(table) == [2, 3, 4], table
    entries = {entry.about.split(" before ")[0]: entry for entry in audit.list_newest(app.app_db)}
    assert {(entries[LABELS[table]].who, entries[LABELS[table]].result) for table in tables} == {
        ("retention", "1")
    }


def test_each_kind_of_file_has_a_retention_rule() -> None:
    assert set(retention_rules.FILE_KINDS) == set(get_args(media_files.MediaKind))


def test_the_limit_is_the_start_of_a_day(make_retention, monkeypatch):
    present = clock.unix()
    monkeypatch.setattr(clock, "unix", lambda: present)
    app = make_retention(sms_days=1)
    midnight = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    app.store("sms", 1, 0, created_at=clock.utc_text(midnight - timedelta(days=1)))
    app.store("sms", 2, 0, created_at=clock.utc_text(midnight - timedelta(days=1, seconds=1)))
    app.job.run()
    app.store("sms", 3, 0, late=True, created_at=clock.utc_text(midnight - timedelta(days=1)))
    assert app.ids("sms") == [1, 3]


def test_an_old_call_is_deleted_with_its_legs_events_and_ids(make_retention):
    app = make_retention(cdrs_days=LIMIT)
    applier = app.context.applier
    for number, days in ((1, OLD), (2, NEW)):
        for event in ("call.ringing", "call.hangup"):
            payload = json.loads(webhook(number)) | {"id": f"{number} {event}", "event_name": event}
            app.context.inbox.receive(json.dumps(payload | {"event_time": at(days)}).encode()).result(30)
        app.store("cdrs", number, days, live_id=4_300_000_000 + number, src="442079460001", duration=5)
    applier.run()
    # The end of a call comes from its CDR.
    assert len(app.ids("_calls")) == 2
    app.job.run()
    for table in ("_calls", "_legs", "cdrs", "_leg_events"):
        assert (
            len(app.query(f"SELECT count(*) FROM {table} GROUP BY {'leg_id' if 'leg' in table else 'id'}"))
            == 1
        ), table
    assert app.query("SELECT count(*) FROM _calls_search") == [1]


def test_the_record_of_a_recording_is_deleted_when_all_its_limits_have_passed(make_retention):
    app = make_retention(cdrs_days=LIMIT, recordings_days=LIMIT, transcripts_days=LIMIT + 15)
    app.store("monitors", 1, OLD)
    app.store("monitors", 2, OLD + 15)
    app.job.run()
    assert app.ids("monitors") == [1]


def test_transcripts_are_deleted_from_columns_and_documents_and_stay_deleted(make_retention):
    app = make_retention(transcripts_days=LIMIT)
    texts = {"transcript": "at 020 7946 0001", "summary": "a number"}
    for late in (False, True):
        app.store("monitors", 1, OLD, late=late, **texts)
        app.store("monitors", 2, NEW, late=late, **texts)
        app.store("voicemessages", 1, OLD, late=late, transcript="call back")
        if not late:
            app.job.run()
        assert app.query("SELECT transcript FROM monitors ORDER BY id") == [None, texts["transcript"]]
        assert app.query("SELECT summary FROM monitors ORDER BY id") == [None, texts["summary"]]
        assert app.query("SELECT transcript FROM voicemessages") == [None]
        document = json.loads(app.query("SELECT _doc FROM monitors ORDER BY id")[0])
        assert list(document) == ["id", "timestamp", "transcript", "summary"]
        assert document["transcript"] is None


def test_a_deleted_transcript_of_a_kept_call_is_not_found(make_retention):
    app = make_retention()
    app.store("cdrs", 1, NEW, live_id=LEG, src="442079460001", duration=5)
    app.store("voicemessages", 1, OLD, live_id=LEG, transcript="the greenhouse has no door")

    def find() -> str:
        return app.log_in().get("/palette?q=greenhouse").text

    assert "the greenhouse has no door" in find()
    app.restart(retention__voicemail_days=str(LIMIT))
    app.job.run()
    assert (app.ids("voicemessages"), app.ids("_calls")) == ([], [LEG])
    assert "the greenhouse" not in find()


def test_an_old_file_is_deleted_and_its_download_rejected(make_retention):
    app = make_retention(recordings_days=LIMIT)
    app.store("monitors", 1, OLD)
    app.store("monitors", 2, NEW)
    paths = [
        app.context.settings.storage.data_dir / path
        for path in app.query("SELECT path FROM media ORDER BY record_id")
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"audio")
    app.mirror_db.write(lambda tx: tx.execute("UPDATE media SET state = 'have', size = 5"))
    app.job.run()
    assert [path.exists() for path in paths] == [False, True]
    assert app.ids("monitors") == [1, 2]
    with app.mirror_db.read() as connection:
        assert media_files.state(connection, "recording", 1)["state"] == "gone"
        assert [file.record_id for file in media_files.list_due(connection, clock.unix())] == []
    with pytest.raises(PlatformRefused, match="older than its retention"):
        download.fetch(app.context, "recording", 1)


def test_an_old_message_of_a_webhook_is_deleted(make_retention):
    app = make_retention(sms_days=LIMIT)
    applier = app.context.applier
    for number, days in ((1, OLD), (2, NEW)):
        payload = {
            "id": str(number),
            "event_name": "sms.received",
            "event_time": at(days),
            "from_no": "447700900101",
            "to_no": "442079460002",
            "text": f"text {number}",
        }
        app.context.inbox.receive(json.dumps(payload).encode()).result(30)
    app.store(
        "sms", 7, OLD, **{"from": "447700900101", "to": "442079460002", "message": "text 1", "type": "I"}
    )
    applier.run()
    assert app.query("SELECT count(*) FROM _messages") == [2]
    app.job.run()
    assert app.query("SELECT text FROM _messages") == ["text 2"]


def test_old_webhooks_are_deleted_unless_a_new_one_is_not_applied(make_retention, monkeypatch):
    app = make_retention(inbox_days=LIMIT)
    for number in range(5):
        app.context.inbox.receive(webhook(number)).result(30)

    def put(tx):
        tx.execute("UPDATE inbox SET received_at = ?, status = 'done' WHERE seq <= 3", (at(OLD),))
        tx.execute("UPDATE inbox SET status = 'new' WHERE seq = 3")

    app.context.inbox.database.write(put)
    app.job.run()
    assert [row.seq for row in app.context.inbox.list_after(0, 10)] == [3, 4, 5]
    app.context.inbox.record_results([(3, "failed", "no")])
    app.job.run()
    assert [row.seq for row in app.context.inbox.list_after(0, 10)] == [4, 5]


def test_old_entries_of_the_audit_log_and_other_logs_are_deleted(make_retention):
    app = make_retention(audit_days=LIMIT, logs_days=LIMIT)
    audit.record(app.app_db, "ann@example.com", "login")
    for days in (OLD, NEW):
        write_log.begin(app.app_db, who="key", address="", method="POST", path="/sms", body=None)
        app.app_db.write(
            lambda tx, days=days: (
                tx.execute("UPDATE audit SET at = ?", (at(OLD),)),
                tx.execute("UPDATE journal SET at = ? WHERE id = (SELECT max(id) FROM journal)", (at(days),)),
                tx.execute(
                    "INSERT INTO export_attempts (schedule_id, name, period, at, file, state, result)"
                    " VALUES (1, 'daily', '', ?, '', 'delivered', '')",
                    (at(days),),
                ),
                tx.execute(
                    "INSERT INTO alert_log (at, rule_id, rule, kind, subject, body, channel, target, place,"
                    " state, tries) VALUES (?, 1, '', 'alert', '', '', 'notice', '', 0, 'sent', 0)",
                    (at(days),),
                ),
            )
        )
    app.job.run()
    with app.app_db.read() as connection:
        for table in ("journal", "export_attempts", "alert_log"):
            (left,) = connection.execute(f"SELECT at FROM {table}").fetchall()
            assert left[0] == at(NEW), table
    assert {entry.who for entry in audit.list_newest(app.app_db)} == {"retention"}


def test_cached_responses_that_may_contain_deleted_records_are_kept_for_one_day(make_retention):
    responses = [("/users/7/sms", 2), ("/users/8/sms", 0.5), ("/sms/dictionaries", 2)]
    for settings, left in (
        ({"audit_days": LIMIT}, ["/sms/dictionaries", "/users/7/sms", "/users/8/sms"]),
        ({"sms_days": LIMIT}, ["/sms/dictionaries", "/users/8/sms"]),
    ):
        app = make_retention(**settings)
        for target, days in responses:
            app.mirror_db.write(
                lambda tx, to=target, days=days: response_cache.store(tx, to, b"[]", "", at(days))
            )
        app.job.run()
        assert app.query("SELECT target FROM _answers ORDER BY target") == left
        app.close()


def test_old_chat_messages_of_users_are_deleted_and_stay_deleted(make_retention, monkeypatch):
    messages = [
        {"id": 1, "message": "old", "created_at": at(OLD)},
        {"id": 2, "message": "new", "created_at": at(NEW)},
        {"id": 3, "message": "without a date"},
    ]
    kept = {"data": messages[1:], "total": 2}
    app = make_retention()
    app.put("users", {"id": 7})
    app.platform.respond("/users/7/chatmsgs", {"data": messages, "total": 3})
    assert app.get("/users/7/chatmsgs").json["total"] == 3
    app.platform.fail()
    app.restart(retention__chats_days=str(LIMIT))
    assert app.get("/users/7/chatmsgs").json["total"] == 3
    app.job.run()
    assert app.get("/users/7/chatmsgs").json == kept
    threads, split_doc = set(), subresources.split_doc
    with monkeypatch.context() as patched:
        patched.setattr(
            subresources, "split_doc", lambda doc: threads.add(threading.current_thread()) or split_doc(doc)
        )
        app.job.run()
    assert threads == {threading.current_thread()}, "the writer parses no unexpired messages"
    app.platform.respond("/users/7/chatmsgs", {"data": messages, "total": 3})
    fresh = {**app.headers, "Cache-Control": "no-cache"}
    assert app.get("/users/7/chatmsgs", fresh).json["total"] == 3
    app.platform.fail()
    assert app.get("/users/7/chatmsgs").json == kept
