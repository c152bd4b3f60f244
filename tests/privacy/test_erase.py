"""`erase NUMBER`: deleted data, unchanged counts, erasure gate (promise S21)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from integration.access import audit, people
from integration.catalogue import get_resource
from integration.cli import verify
from integration.core import clock
from integration.core.commands import Progress
from integration.core.errors import PlatformRefused, StorageBroken
from integration.core.json_records import JsonRecord
from integration.factory import Product
from integration.inbox.replay import replay
from integration.maintenance import backup
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.erasure_gate import LEGS_KEY, ErasureGate
from integration.mirror.records import response_cache, subresources
from integration.mirror.records.upsert import upsert
from integration.privacy import erasures
from integration.sync.files import download
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from integration.workspace.callback_items import CallbackItem, recompute_items
from tests.support.applications.filled_data_dir import (
    DDI,
    LEG,
    OTHER,
    THEIRS,
    FilledDataDir,
    stamp,
)
from tests.support.downloads import add_download, finish_download

TRACES = (THEIRS[2:], "7700 900123", "7700 900 123", "Ann Example", "a" * 40)
OTHERS = ("Bob Other", OTHER)


def query(product: Product, sql: str) -> list[tuple]:
    with product.context.mirror_db.read() as connection:
        return [tuple(row) for row in connection.execute(sql)]


def items(product: Product) -> list[CallbackItem]:
    with product.context.app_db.read() as connection:
        return callbacks.list_items(connection)


def checkpoint(product: Product) -> None:
    """Move all committed data from the write-ahead logs into the databases."""
    for database in (product.context.app_db, product.context.mirror_db, product.context.inbox.database):
        database.run_exclusive(
            lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        )


def test_without_yes_erase_lists_the_affected_data_and_changes_nothing(place: FilledDataDir) -> None:
    before = {path: path.read_bytes() for path in place.data_dir.iterdir() if path.suffix == ".db"}
    shown = place.erase("07700 900123")
    assert shown.exit_code == 0
    counts = dict(line.rsplit(None, 1) for line in shown.stdout.splitlines()[1:-1])
    assert counts == {
        "calls": "1", "CDRs": "2", "recordings": "2", "voicemail messages": "1", "SMS": "1", "faxes": "1",
        "contacts (removed)": "1", "Call-me-back visitors": "1", "files (removed)": "4",
        "webhooks as received": "7", "call events of webhooks and polls": "4", "events of SMS": "1",
        "other rows of mirror.db": "1",
        "call-back items": "1", "calls of call-back items": "1", "actions on call-back items": "1",
        "notes": "1", "audit log": "1", "write log": "1", "entries of logs, saved views, settings": "1",
    }  # fmt: skip
    assert "Nothing was changed" in shown.stdout
    assert {path: path.read_bytes() for path in before} == before
    assert "no data of this number" in place.erase("020 7946 0999").stdout


def test_an_erasure_leaves_no_bytes_of_the_person_and_the_same_calls(place: FilledDataDir) -> None:
    calls = "SELECT id, direction, outcome, started_at, talk_seconds, charge, our_e164, user_id FROM _calls"
    with place.product() as product:
        calls_before, files = query(product, calls), place.files(product)
    done = place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, "erasure 1: done" in done.stdout) == (0, True)
    assert place.find_texts(*TRACES) == {}
    assert {"inbox.db", "mirror.db", "house.db"} <= place.find_texts(*OTHERS).keys()
    assert [key for key, path in files.items() if path.exists()] == [("recording", 13), ("voicemail", 22)]
    for name in ("house", "mirror", "inbox"):
        # Unless SQLite overwrites deleted rows (a compile option), free pages contain them.
        with closing(sqlite3.connect(place.data_dir / f"{name}.db")) as connection:
            assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    with place.product() as product:
        # Trigrams of deleted rows stay in the index until its segments are merged.
        assert query(product, "SELECT count(DISTINCT segid) FROM _calls_search_idx") == [(1,)]
        assert sorted(query(product, calls)) == sorted(calls_before)
        assert query(product, "SELECT party, party_e164, party_name FROM _calls ORDER BY id") == [
            ("erased", None, ""), (f"{OTHER}", f"+{OTHER}", "Bob Other"),
        ]  # fmt: skip
        for table, key in (("cdrs", 3), ("monitors", 13), ("voicemessages", 22), ("sms", 42)):
            unchanged = [
                json.loads(row[0]) for row in query(product, f"SELECT _doc FROM {table} WHERE id = {key}")
            ]
            assert unchanged == [record for record in place.records()[table] if record["id"] == key]
        (document,) = query(product, "SELECT _doc FROM cdrs WHERE id = 1")
        before, after = place.records()["cdrs"][0], json.loads(document[0])
        assert list(after) == list(before)
        assert {name: value for name, value in after.items() if value != before[name]} == {
            "src": "erased", "src_name": None, "clid": None, "info": None,
        }  # fmt: skip
        assert items(product) == []
        entry = audit.list_newest(product.context.app_db)[0]
        assert (entry.what, entry.about) == ("number erased", "erasure 1")
        assert product.health.report()["checks"]["erasures"]["state"] == "ok"


def test_the_number_is_erased_from_tables_without_a_declared_place(place: FilledDataDir) -> None:
    names = ("house", "mirror", "inbox")
    for name in names:
        with closing(sqlite3.connect(place.data_dir / f"{name}.db")) as connection, connection:
            connection.execute("CREATE TABLE added (id INTEGER PRIMARY KEY, text, number, body BLOB)")
            body = json.dumps({"of": f"+{THEIRS}", "id": 7}).encode()
            connection.execute(
                "INSERT INTO added VALUES (1, ?, ?, ?)", (f"of {THEIRS[2:]}, late", int(THEIRS), body)
            )
            connection.execute("CREATE TABLE added_keys (name TEXT PRIMARY KEY) WITHOUT ROWID")
            connection.execute("INSERT INTO added_keys VALUES (?)", (f"of 0{THEIRS[2:]}",))
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    for name in names:
        with closing(sqlite3.connect(place.data_dir / f"{name}.db")) as connection:
            (row,) = connection.execute("SELECT text, number, body FROM added").fetchall()
            assert row == ("of erased, late", "erased", b'{"of":"erased","id":7}'), name
            assert connection.execute("SELECT name FROM added_keys").fetchall() == [], name


def test_an_item_of_another_caller_loses_the_erased_call(place: FilledDataDir) -> None:
    with place.product() as product:
        # The platform named another caller when the call was listed.
        for call, days in ((LEG, 45), (78, 44)):
            product.context.app_db.write(
                lambda tx, call=call, days=days: tx.execute(
                    "INSERT OR REPLACE INTO callback_calls VALUES (?, ?, ?, 'missed', ?, 'Bob Other', NULL)",
                    (call, f"+{OTHER}", stamp(days), DDI),
                )
            )
        product.context.app_db.write(lambda tx: recompute_items(tx, f"+{OTHER}"))
        assert {(item.party, item.attempts) for item in items(product)} >= {(f"+{OTHER}", 2)}
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    with place.product() as product:
        assert [(item.party, item.attempts) for item in items(product)] == [(f"+{OTHER}", 1)]


def test_sync_webhooks_and_downloads_do_not_store_erased_data(erased: FilledDataDir) -> None:
    for is_rebuilt in (False, True):
        if is_rebuilt:
            for path in erased.data_dir.glob("mirror.db*"):
                path.unlink()
        with erased.product() as product:
            erased.sync(product)
            erased.receive(product)
            update_from_mirror(
                product.context.app_db,
                product.context.mirror_db,
                product.context.settings.calls.callback_seconds,
            )
            notes = f'[{{"text":"Ann Example, {THEIRS}"}}]'
            # Of a record with the number, every note is one about the person.
            for key, doc in ((1, '[{"text":"Ann Example rang"}]'), (3, notes)):
                product.context.mirror_db.write(
                    lambda tx, key=key, doc=doc: subresources.store(
                        tx, "cdrs", key, "notes", doc, clock.utc_text()
                    )
                )
            product.context.mirror_db.write(
                lambda tx, notes=notes: response_cache.store(tx, "/x", notes.encode(), "", clock.utc_text())
            )
            for kind, number in (("recording", 11), ("recording", 12), ("voicemail", 21), ("fax", 51)):
                with pytest.raises(PlatformRefused, match="was erased") as refused:
                    download.fetch(product.context, kind, number)
                assert refused.value.status == 404
            assert query(product, "SELECT count(*) FROM cdrs") == [(3,)]
            assert items(product) == []
            assert product.context.inbox.load_overview().total == 10
            checkpoint(product)
        assert erased.find_texts(*TRACES) == {}


def test_data_from_after_the_erasure_is_stored(erased: FilledDataDir) -> None:
    later = clock.utc_text(clock.now() + timedelta(hours=1))
    call = {"id": 4, "calldate": later, "live_id": 4_300_000_950, "src": THEIRS, "dst": DDI, "type": "I"}
    person = {"id": 33, "first_name": "Ann", "last_name": "Example", "mobile": f"+{THEIRS}"}
    event = {"id": "new", "event_name": "call.ringing", "event_time": later, "call_id": 4_300_000_950}
    with erased.product() as product:
        for name, record in (("contacts", person), ("cdrs", call)):
            documents = [JsonRecord(json.dumps(record), record)]
            of = {"resource": get_resource(name), "source": "sync", "requested_at": clock.utc_text()}
            product.context.mirror_db.write(partial(upsert, records=documents, **of))
        body = json.dumps({**event, "src": THEIRS}).encode()
        product.context.inbox.receive(body).result(30)
        assert bytes(product.context.inbox.list_after(0, 100)[-1].body) == body
        assert query(product, "SELECT party_e164, party_name FROM _calls WHERE id = 4300000950") == [
            (f"+{THEIRS}", "Ann Example")
        ]


def test_an_interrupted_erasure_is_reported_and_completed_by_the_next(
    place: FilledDataDir, monkeypatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageBroken("killed")

    with monkeypatch.context() as patched:
        # The records are stripped of the number; data that is found only by the number is left.
        patched.setattr(retention_rules, "remove_files", fail)
        assert place.erase(f"+{THEIRS}", "--yes").exit_code == 1
    with place.product() as product:
        assert "was interrupted" in product.health.report()["checks"]["erasures"]["error"]
        place.sync(product)
        checkpoint(product)
        assert {path.name for path in (place.data_dir / "recordings").rglob("*.mp3")} == {
            "11.mp3", "12.mp3", "13.mp3",
        }  # fmt: skip
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    assert place.find_texts(*TRACES) == {}
    assert [path.name for path in (place.data_dir / "recordings").rglob("*.mp3")] == ["13.mp3"]
    with place.product() as product, product.context.app_db.read() as connection:
        assert [(each.id, each.done_at is None) for each in erasures.list_all(connection)] == [(1, False)]


def test_an_erasure_of_a_number_in_a_call_of_the_account_or_of_none_is_rejected(place: FilledDataDir) -> None:
    with place.product() as product:
        payload = {
            "id": "now", "event_name": "call.ringing", "event_time": clock.utc_text(),
            "call_id": 4_300_000_970, "src": THEIRS, "dst": DDI, "destination": "in", "state": "RINGING",
        }  # fmt: skip
        product.context.inbox.receive(json.dumps(payload).encode()).result(30)
        replay(product.context, {}, Progress(lambda _: None, lambda: True))
    for number, reason, status in (
        (f"+{THEIRS}", "is in progress", 1),
        (f"+{DDI}", "is a number of the account, listed in ddis", 1),
        ("201", "not a telephone number", 2),
        ("unknown", "not a telephone number", 2),
    ):
        refused = place.erase(number, "--yes")
        assert (refused.exit_code, reason in refused.stderr) == (status, True), refused.stderr
    assert "mirror.db" in place.find_texts("Ann Example")


def test_an_erasure_deletes_prepared_exports_and_later_backups_contain_its_key(place: FilledDataDir) -> None:
    with place.product() as product:
        sue = people.list_all(product.context.app_db)[0]
        run = add_download(product.context.app_db, sue, 3, form="csv")
        finish_download(product.context.app_db, run, 3, 20)
    file = place.data_dir / "prepared" / f"{run.id}.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"party\n+{THEIRS}\n")
    key = place.data_dir / "erasure-key"
    assert not key.exists()
    assert "prepared exports (removed)" in place.erase(f"+{THEIRS}", "--yes").stdout
    assert not file.exists()
    assert key.stat().st_mode & 0o077 == 0
    copied = backup.create(place.data_dir, place.folder / "later").path / key.name
    assert copied.read_text() == key.read_text()


@pytest.mark.parametrize("call_id", ["7", '"7"', "7.0"])
def test_a_webhook_of_an_erased_leg_is_stripped_for_any_type_of_its_id(call_id: str) -> None:
    gate = ErasureGate(b"key")
    gate.add("2026-02-28 00:00:00", [b"digest"], [12], [(LEGS_KEY, 7)])
    body = f'{{"call_id":{call_id},"src_name":"Ann Example"}}'.encode()
    assert b"Ann" not in gate.filter_webhook(body)
    other = b'{"call_id":"%s","src_name":"Bob Other"}' % (b"8" * 5000)
    assert gate.filter_webhook(other) == other


@pytest.mark.parametrize("name", ["filled", "erased_once"])
def test_verify_has_no_findings_before_and_after_an_erasure(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(request.getfixturevalue(name), tmp_path / "data")
    done = FilledDataDir(tmp_path).run(verify.command, "--deep")
    assert (done.stdout, done.exit_code) == ("", 0)
