"""What is older than a setting allows goes, file and text, and stays away (promise S21)."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from integration.access import audit
from integration.catalogue import get_resource
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.core.json_records import JsonRecord
from integration.mirror.page_queries import search_index
from integration.mirror.privacy import retention_rules
from integration.mirror.records import response_cache
from integration.mirror.records.upsert import upsert
from integration.mirror.sync_state import media_files
from integration.privacy.retention import RetentionJob
from integration.sync.files import download
from integration.sync.writing import write_log
from tests.support.application import DEFAULTS, TestApp
from tests.support.applications.data_dir import webhook
from tests.support.clock import Clock
from tests.support.fake_exchange import FakeExchange

OLD, NEW = 40, 20
LIMIT = 30
DATES = {"cdrs": "calldate", "webcalls": "calldate", "monitors": "timestamp", "voicemessages": "origtime"}


@cache  # the same stamp for a whole test, also across a second's end
def at(days: float) -> str:
    return clock.utc_text(clock.now() - timedelta(days=days))


class RetentionApp(TestApp):
    """An application that deletes by age, and records for it to delete."""

    def __init__(self, folder: Path, retention: dict[str, int]) -> None:
        limits = {f"retention__{kind}": str(days) for kind, days in retention.items()}
        settings = {**DEFAULTS, "storage__data_dir": str(folder), **limits}
        super().__init__(settings, FakeExchange(), Clock())

    @property
    def keeper(self) -> RetentionJob:
        return self.product.retention_job

    def store(self, table: str, id: int, days: float, *, late: bool = False, **values: object) -> None:
        """A record as if stored so many days ago; `late`: as a walk brings it today."""
        record = {"id": id, DATES.get(table, "created_at"): at(days), **values}
        document = JsonRecord(json.dumps(record), record)
        gates, self.mirror_db.gates = self.mirror_db.gates, self.mirror_db.gates if late else {}
        self.mirror_db.write(
            lambda tx: (
                setattr(tx, "gates", self.mirror_db.gates),
                upsert(tx, get_resource(table), [document], source="sync", requested_at=clock.utc_text()),
            )
        )
        self.mirror_db.gates = gates

    def ids(self, table: str) -> list[int]:
        return self.ask(f"SELECT id FROM {table} ORDER BY id")

    def ask(self, sql: str) -> list[int]:
        with self.mirror_db.read() as connection:
            return [row[0] for row in connection.execute(sql)]


@pytest.fixture
def keeping(tmp_path):
    made: list[RetentionApp] = []

    def make(**retention: int) -> RetentionApp:
        made.append(RetentionApp(tmp_path, retention))
        return made[-1]

    yield make
    for kept in made:
        kept.close()


@pytest.mark.parametrize(
    ("kind", "table"),
    [(kinds[0], table) for table, kinds in retention_rules.ROW_KINDS.items() if len(kinds) == 1],
)
def test_old_records_go_and_do_not_come_back(keeping, kind, table):
    kept = keeping(**{f"{kind}_days": LIMIT})
    kept.store(table, 1, OLD)
    kept.store(table, 2, NEW)
    kept.store(table, 3, 0, **{DATES.get(table, "created_at"): None})
    kept.keeper.run()
    assert kept.ids(table) == [2, 3]
    kept.store(table, 1, OLD, late=True)
    kept.store(table, 4, NEW, late=True)
    assert kept.ids(table) == [2, 3, 4]
    entry = audit.list_newest(kept.app_db)[0]
    assert (entry.who, entry.result) == ("retention", "1")
    assert entry.about.startswith(f"{table} before ")


def test_every_kind_of_file_has_an_end() -> None:
    assert set(retention_rules.FILE_KINDS) == set(get_args(media_files.MediaKind))


def test_nothing_goes_without_a_limit(keeping):
    kept = keeping(sms_days=LIMIT)
    for table in retention_rules.ROW_KINDS:
        kept.store(table, 1, OLD)
    kept.keeper.run()
    assert [table for table in retention_rules.ROW_KINDS if not kept.ids(table)] == ["sms"]
    assert not keeping().keeper.is_needed


def test_whole_days_are_kept(keeping, monkeypatch):
    present = clock.unix()
    monkeypatch.setattr(clock, "unix", lambda: present)
    kept = keeping(sms_days=1)
    midnight = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    kept.store("sms", 1, 0, created_at=clock.utc_text(midnight - timedelta(days=1)))
    kept.store("sms", 2, 0, created_at=clock.utc_text(midnight - timedelta(days=1, seconds=1)))
    kept.keeper.run()
    assert kept.ids("sms") == [1]


def test_a_call_goes_with_all_that_was_told_of_it(keeping):
    kept = keeping(cdrs_days=LIMIT)
    applier = kept.context.applier
    for number, days in ((1, OLD), (2, NEW)):
        for event in ("call.ringing", "call.hangup"):
            told = json.loads(webhook(number)) | {"id": f"{number} {event}", "event_name": event}
            kept.context.inbox.receive(json.dumps(told | {"event_time": at(days)}).encode()).result(30)
        kept.store("cdrs", number, days, live_id=4_300_000_000 + number, src="442079460001", duration=5)
    applier.run()
    # An ended call has its end by its CDR.
    assert len(kept.ids("_calls")) == 2
    kept.keeper.run()
    search_index.index_all_due(kept.mirror_db)
    for table in ("_calls", "_legs", "cdrs", "_leg_events"):
        assert (
            len(kept.ask(f"SELECT count(*) FROM {table} GROUP BY {'leg_id' if 'leg' in table else 'id'}"))
            == 1
        ), table
    assert kept.ask("SELECT count(*) FROM _calls_search") == [1]
    assert set(kept.ask("SELECT call_id FROM _call_ids")) == set(kept.ids("_calls"))


def test_the_record_of_a_recording_goes_when_nothing_of_it_is_kept(keeping):
    kept = keeping(cdrs_days=LIMIT, recordings_days=LIMIT, transcripts_days=LIMIT + 15)
    kept.store("monitors", 1, OLD)
    kept.store("monitors", 2, OLD + 15)
    kept.keeper.run()
    assert kept.ids("monitors") == [1]


def test_texts_go_from_columns_and_documents_and_stay_away(keeping):
    kept = keeping(transcripts_days=LIMIT)
    said = {"transcript": "at 020 7946 0001", "summary": "a number"}
    for late in (False, True):
        kept.store("monitors", 1, OLD, late=late, **said)
        kept.store("monitors", 2, NEW, late=late, **said)
        kept.store("voicemessages", 1, OLD, late=late, transcript="call back")
        if not late:
            kept.keeper.run()
        assert kept.ask("SELECT transcript FROM monitors ORDER BY id") == [None, said["transcript"]]
        assert kept.ask("SELECT summary FROM monitors ORDER BY id") == [None, said["summary"]]
        assert kept.ask("SELECT transcript FROM voicemessages") == [None]
        document = json.loads(kept.ask("SELECT _doc FROM monitors ORDER BY id")[0])
        assert list(document) == ["id", "timestamp", "transcript", "summary"]
        assert document["transcript"] is None


def test_a_file_goes_and_is_never_fetched_again(keeping):
    kept = keeping(recordings_days=LIMIT)
    kept.store("monitors", 1, OLD)
    kept.store("monitors", 2, NEW)
    paths = [
        kept.context.settings.storage.data_dir / path
        for path in kept.ask("SELECT path FROM media ORDER BY record_id")
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"audio")
    kept.mirror_db.write(lambda tx: tx.execute("UPDATE media SET state = 'have', size = 5"))
    kept.keeper.run()
    assert [path.exists() for path in paths] == [False, True]
    assert kept.ids("monitors") == [1, 2]
    with kept.mirror_db.read() as connection:
        assert media_files.state(connection, "recording", 1)["state"] == "gone"
        assert [file.record_id for file in media_files.list_due(connection, clock.unix())] == []
    with pytest.raises(PlatformRefused, match="older than its retention"):
        download.fetch(kept.context, "recording", 1)


def test_an_old_file_is_not_fetched_in_the_first_place(keeping):
    kept = keeping(recordings_days=LIMIT)
    kept.store("monitors", 1, OLD, late=True)
    with pytest.raises(PlatformRefused, match="older than its retention") as refused:
        download.fetch(kept.context, "recording", 1)
    assert refused.value.status == 404
    assert kept.ask("SELECT state FROM media") == ["gone"]


def test_a_message_that_only_a_webhook_told_goes_too(keeping):
    kept = keeping(sms_days=LIMIT)
    applier = kept.context.applier
    for number, days in ((1, OLD), (2, NEW)):
        told = {
            "id": str(number),
            "event_name": "sms.received",
            "event_time": at(days),
            "from_no": "447700900101",
            "to_no": "442079460002",
            "text": f"text {number}",
        }
        kept.context.inbox.receive(json.dumps(told).encode()).result(30)
    kept.store(
        "sms", 7, OLD, **{"from": "447700900101", "to": "442079460002", "message": "text 1", "type": "I"}
    )
    applier.run()
    assert kept.ask("SELECT count(*) FROM _messages") == [2]
    kept.keeper.run()
    assert kept.ask("SELECT text FROM _messages") == ["text 2"]


def test_webhooks_go_from_the_old_end_and_never_unapplied(keeping, monkeypatch):
    kept = keeping(inbox_days=LIMIT)
    for number in range(5):
        kept.context.inbox.receive(webhook(number)).result(30)

    def put(tx):
        tx.execute("UPDATE inbox SET received_at = ?, status = 'done' WHERE seq <= 3", (at(OLD),))
        tx.execute("UPDATE inbox SET status = 'new' WHERE seq = 3")

    kept.context.inbox.database.write(put)
    kept.keeper.run()
    assert [row.seq for row in kept.context.inbox.list_after(0, 10)] == [3, 4, 5]
    kept.context.inbox.record_results([(3, "failed", "no")])
    kept.keeper.run()
    assert [row.seq for row in kept.context.inbox.list_after(0, 10)] == [4, 5]


def test_the_audit_and_every_log_end_too(keeping):
    kept = keeping(audit_days=LIMIT, logs_days=LIMIT)
    audit.record(kept.app_db, "ann@example.com", "login")
    for days in (OLD, NEW):
        write_log.begin(kept.app_db, who="key", address="", method="POST", path="/sms", body=None)
        kept.app_db.write(
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
    kept.keeper.run()
    with kept.app_db.read() as connection:
        for table in ("journal", "export_attempts", "alert_log"):
            (left,) = connection.execute(f"SELECT at FROM {table}").fetchall()
            assert left[0] == at(NEW), table
    assert {entry.who for entry in audit.list_newest(kept.app_db)} == {"retention"}


def test_answers_that_may_list_what_is_gone_stand_in_for_a_day_only(keeping):
    asked = [("/users/7/sms", 2), ("/users/8/sms", 0.5), ("/sms/dictionaries", 2)]
    for settings, left in (
        ({"audit_days": LIMIT}, ["/sms/dictionaries", "/users/7/sms", "/users/8/sms"]),
        ({"sms_days": LIMIT}, ["/sms/dictionaries", "/users/8/sms"]),
    ):
        kept = keeping(**settings)
        for target, days in asked:
            kept.mirror_db.write(
                lambda tx, to=target, days=days: response_cache.store(tx, to, b"[]", "", at(days))
            )
        kept.keeper.run()
        assert kept.ask("SELECT target FROM _answers ORDER BY target") == left
        kept.close()
