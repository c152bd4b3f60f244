"""`verify` finds changed bytes in stored content.

The bytes are changed by another program beside the product, as a failing disk or memory would.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from integration.cli import verify
from integration.mirror.derived import rebuild
from integration.mirror.derived.rebuild import rebuild_due
from integration.server.control_channel import ControlChannel
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.application import DEFAULTS
from tests.support.applications.shared_app import SharedApp
from tests.support.platform_collection import PlatformCollection

LEG = 4_300_000_001
CDR = {
    "id": 77, "live_id": LEG, "calldate": "2026-03-01 12:00:00", "src": "447700900123",
    "dst": "442079460002", "duration": 70, "billsec": 60, "disposition": "CONNECTED", "type": "I",
    "destination": "in", "context": "LOCAL_USER",
}  # fmt: skip
CDR_TEXT = json.dumps(CDR, separators=(",", ":"))


@dataclass
class CheckedApp:
    """A running product, and commands beside it."""

    app: SharedApp

    def verify(self, *options: str) -> Result:
        data_dir = self.app.context.settings.storage.data_dir
        settings = {**DEFAULTS, "storage__data_dir": str(data_dir)}
        environment = {f"SWITCHROOM_{name.upper()}": value for name, value in settings.items()}
        return CliRunner().invoke(verify.command, options, env=environment, catch_exceptions=False)

    def change(self, database: str, sql: str, *values: object) -> None:
        path = self.app.context.settings.storage.data_dir / database
        with closing(sqlite3.connect(path)) as connection, connection:
            assert connection.execute(sql, values).rowcount == 1

    def read(self, database: str, sql: str) -> Any:
        path = self.app.context.settings.storage.data_dir / database
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchone()

    def list_on_platform(self, collection: str, *records: dict[str, Any]) -> None:
        PlatformCollection(self.app.platform, collection, *records)

    def ring(self) -> bytes:
        """Receive a webhook of a call, and apply it. Returns its body."""
        body = (
            b'{"id":"uk1.1","event_name":"call.hangup","event_time":"2026-03-01 12:01:10",'
            b'"call_id":4300000001,"src":"447700900123","dst":"442079460002","destination":"in","context":"LOCAL_USER"}'
        )
        self.app.context.inbox.receive(body).result(30)
        self.app.apply_webhooks()
        return body


@pytest.fixture
def checked(shared_app: SharedApp) -> Iterator[CheckedApp]:
    channel = ControlChannel(shared_app.context.settings.storage.data_dir, shared_app.context)
    yield CheckedApp(shared_app)
    channel.close(5)


def test_intact_content_has_no_findings(checked):
    checked.app.put("cdrs", CDR)
    checked.app.put("users", {"id": 10002, "first_name": "Ann", "ext": "1002"})
    checked.ring()
    result = checked.verify("--deep")
    assert (result.stdout, result.exit_code) == ("", 0)


def test_a_changed_webhook_is_found(checked):
    body = checked.ring()
    seq, received_at = checked.read("inbox.db", "SELECT seq, received_at FROM inbox")
    checked.change("inbox.db", "UPDATE inbox SET body = ?", body.replace(b"447700900123", b"447700900133"))
    found = checked.verify()
    assert (found.stdout, found.exit_code) == (
        f"inbox.db: webhook {seq} of {received_at} UTC has other content than what was received"
        " (sha256 differs)\n",
        1,
    )
    assert "Backups that were made before the change have the original." in found.stderr
    assert checked.verify("--quick").exit_code == 0
    assert checked.verify("--repair").exit_code == 1


CHANGED_COLUMNS = [
    ("UPDATE cdrs SET dst = '442079460003'", "_doc and column dst differ"),
    ("UPDATE cdrs SET billsec = 61", "_doc and column billsec differ"),
    ("UPDATE cdrs SET billsec = '60'", "_doc and column billsec differ"),
    ("UPDATE cdrs SET src = CAST(x'34ff37' AS TEXT)", "_doc and column src differ"),
    ("UPDATE cdrs SET _item = '{'", "_item is not a JSON record"),
]
CHANGED_DOCS = [
    ("UPDATE cdrs SET _doc = replace(_doc, '60', '62')", "_doc and column dst differ"),
    ("UPDATE cdrs SET _doc = replace(_doc, '\"id\"', '\"ie\"')", "_doc and column id differ"),
    ("UPDATE cdrs SET _doc = replace(_doc, '}', ']')", "_doc is not a JSON record"),
    ("UPDATE cdrs SET _doc = CAST(x'7bff7d' AS TEXT)", "_doc is not a JSON record"),
    ("UPDATE cdrs SET _doc = CAST(x'7b226964223a22ff227d' AS TEXT)", "_doc is not a JSON record"),
]


@pytest.mark.parametrize(
    ("sql", "fault", "is_marked"),
    [(*case, True) for case in CHANGED_COLUMNS + CHANGED_DOCS] + [(*case, False) for case in CHANGED_DOCS],
)
def test_a_changed_record_is_found_and_the_next_full_sync_replaces_it(checked, sql, fault, is_marked):
    checked.app.put("cdrs", CDR)
    checked.list_on_platform("cdrs", CDR)
    run_full_sync(checked.app.context, PLAN["cdrs"], restart=True)
    checked.change("mirror.db", "INSERT INTO _item_forms VALUES ('cdrs', 77, NULL, '2026-03-01', NULL)")
    checked.change("mirror.db", sql)
    finding = f"mirror.db: record 77 of cdrs: {fault}"
    found = checked.verify("--repair") if is_marked else checked.verify()
    note = "; not repaired: the next full sync reads it again (`switchroom sync cdrs --full`)" * is_marked
    assert (found.stdout.splitlines()[0], found.exit_code) == (f"{finding}{note}", 1)
    run_full_sync(checked.app.context, PLAN["cdrs"], restart=True)
    assert checked.read("mirror.db", "SELECT src, dst, billsec, _doc, _item FROM cdrs") == (
        "447700900123", "442079460002", 60, CDR_TEXT, None,
    )  # fmt: skip
    assert checked.read("mirror.db", "SELECT talk_seconds, party FROM _calls") == (60, "447700900123")
    assert checked.verify().exit_code == 0


def test_changed_records_of_other_collections_are_replaced_too(checked):
    record = {"e164": "442079460009", "name": "Spring campaign"}
    checked.app.put("calltracking/ddis", record)
    checked.app.platform.respond("/calltracking/ddis", {"data": [record], "total": 1})
    run_full_sync(checked.app.context, PLAN["me"])
    checked.change("mirror.db", "UPDATE calltracking_ddis SET _doc = CAST(x'7bff7d' AS TEXT)")
    checked.change("mirror.db", "UPDATE me SET customer_id = 1")
    found = checked.verify("--repair")
    assert found.exit_code == 1
    assert "row 1 of calltracking/ddis: _doc is not a JSON record; not repaired" in found.stdout
    assert "of me: _doc and column customer_id differ; not repaired" in found.stdout
    for collection in ("calltracking/ddis", "me"):
        run_full_sync(checked.app.context, PLAN[collection], restart=True)
    assert checked.verify().exit_code == 0


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE _leg_events SET doc = replace(doc, '900123', '900133')",
        "UPDATE _leg_events SET doc = CAST(x'7bff7d' AS TEXT)",
        "UPDATE _leg_events SET body_hash = replace(body_hash, substr(body_hash, 1, 1), 'x')",
    ],
)
def test_a_changed_event_is_found(checked, sql):
    checked.ring()
    checked.change("mirror.db", sql)
    found = checked.verify()
    assert found.exit_code == 1
    assert found.stdout.startswith(f"mirror.db: event uk1.1 of leg {LEG} differs from its webhook\n")
    assert "rename mirror.db and start Switchroom" in found.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE _calls SET talk_seconds = 61",
        "UPDATE _calls SET outcome = 'voicemail'",
        "UPDATE _calls SET party_name = CAST(x'ff' AS TEXT)",
        "UPDATE _legs SET billsec = 61",
        "DELETE FROM _calls",
        "DELETE FROM _legs",
    ],
)
def test_a_changed_call_is_found_and_recomputed(checked, sql):
    checked.app.put("cdrs", CDR)
    intact = checked.read("mirror.db", "SELECT outcome, talk_seconds, party_name, legs FROM _calls")
    checked.change("mirror.db", sql)
    found = checked.verify("--deep")
    assert found.stdout.startswith(f"mirror.db: Calls: legs {LEG} to {LEG} have other rows")
    assert checked.verify("--deep", "--repair").exit_code == 0
    assert checked.read("mirror.db", "SELECT outcome, talk_seconds, party_name, legs FROM _calls") == intact
    assert checked.read("mirror.db", "SELECT billsec FROM _legs") == (60,)


def test_a_call_of_an_earlier_value_of_short_seconds_is_no_finding(checked, monkeypatch):
    missed = {**CDR, "billsec": 0, "duration": 4, "disposition": "NO ANSWER", "type": "M"}
    checked.app.put("cdrs", missed)
    assert checked.read("mirror.db", "SELECT outcome FROM _calls") == ("abandoned",)
    monkeypatch.setenv("SWITCHROOM_CALLS__SHORT_SECONDS", "0")
    assert checked.verify().stdout == ""


def test_deep_computes_all_calls_and_without_it_a_sample(checked, monkeypatch):
    monkeypatch.setattr(rebuild, "KEYS_PER_COMPARISON", 2)
    checked.app.put(
        "cdrs",
        *(
            {**CDR, "id": number, "live_id": LEG + number, "calldate": f"2026-03-{number:02} 12:00:00"}
            for number in range(1, 13)
        ),
    )
    for number in range(1, 13):
        checked.change("mirror.db", f"UPDATE _calls SET talk_seconds = 1 WHERE id = {LEG + number}")
    assert [line.count("Calls: legs") for line in checked.verify().stdout.splitlines()] == [1]
    assert len(checked.verify("--deep").stdout.splitlines()) == 6


def test_derived_rows_are_compared_with_their_sources_and_computed_again(checked):
    checked.app.put("contacts", {"id": 5, "first_name": "Ann", "tel": "07700 900101"})
    checked.app.put("cdrs", CDR)
    rebuild_due(checked.app.mirror_db, checked.app.context.rules)
    assert checked.verify().stdout == ""
    changes = {
        "Numbers of contacts: contacts 5 to 5": "UPDATE _contact_numbers SET name = 'Bob'",
        f"Search index: calls {LEG} to {LEG}": "UPDATE _calls_search_content SET c0 = 'changed'",
        f"Report totals: calls {CDR['calldate']}": "UPDATE _report_days SET calls = 7 WHERE kind = 'day'",
    }
    for change in changes.values():
        checked.change("mirror.db", change)
    lines = checked.verify().stdout.splitlines()
    for line, name in zip(lines, changes, strict=True):
        assert line.startswith(f"mirror.db: {name}")
    assert checked.verify("--repair").exit_code == 0
    assert checked.read("mirror.db", "SELECT name FROM _contact_numbers") == ("Ann",)
    assert checked.verify("--deep").stdout == ""


def test_a_damaged_file_that_cannot_be_downloaded_is_named(checked):
    checked.app.put("monitors", {"id": 5, "live_id": LEG, "timestamp": "2026-03-01 12:00:00"})
    path = checked.app.archive("recording", 5, b"one recording" * 100)
    path.write_bytes(b"two recording" * 100)
    result = checked.verify("--repair")
    assert result.exit_code == 1
    assert "has other content than what was downloaded (sha256 differs); not repaired: " in result.stdout
    assert checked.read("mirror.db", "SELECT state FROM media") != ("have",)


def test_a_damaged_file_is_downloaded_again(checked):
    sound = b"\xff\xfb" + bytes(range(256)) * 40
    record = {"id": 5, "live_id": LEG, "timestamp": "2026-03-01 12:00:00", "size": len(sound)}
    checked.app.put("monitors", record)
    path = checked.app.archive("recording", 5, sound)
    path.write_bytes(sound[:5000] + b"\x00" + sound[5001:])
    checked.app.platform.routes["/monitors/5.mp3"] = lambda _request, reply: reply.content(
        sound, "audio/mpeg3"
    )
    result = checked.verify("--repair")
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "sha256 differs" in line]
    assert line.endswith("; repaired")
    assert path.read_bytes() == sound
    assert checked.read("mirror.db", "SELECT state FROM media") == ("have",)
    assert checked.verify("--repair").exit_code == 0


@pytest.mark.parametrize(
    "options", [("--quick", "--deep"), ("--repair", "--media"), ("--deep", "--coverage")]
)
def test_options_that_contradict_each_other_are_refused(checked, options):
    assert checked.verify(*options).exit_code == 2
