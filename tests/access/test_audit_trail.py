"""The audit log shows tampering (promise S21), and has a copy in syslog."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.access import audit
from integration.app_schema import open_app_db
from integration.core import clock
from integration.core.errors import ConfigurationError
from integration.core.health import Health
from integration.maintenance import audit_check
from integration.settings.data_dir_secrets import read_audit_key
from integration.settings.model import load
from integration.sqlite.database import Database
from integration.sqlite.readers import open_readonly
from tests.support.application import running_app
from tests.support.harness import wait_for


@pytest.fixture
def app_db(tmp_path) -> Iterator[Database]:
    database = open_app_db(tmp_path / "house.db")
    for number in range(1, 7):
        audit.record(database, "sue@example.com", f"action {number}", f"call {number}")
    yield database
    database.close()


def verify(folder: Path) -> tuple[list[str], list[str]]:
    """Return findings and notes about the audit log."""
    with open_readonly(folder / "house.db") as connection:
        check = audit_check.verify(connection, read_audit_key(folder))
    return check.faults, check.notes


def tamper(folder: Path, sql: str) -> None:
    """Change house.db as another program does."""
    with closing(sqlite3.connect(folder / "house.db", isolation_level=None, timeout=10)) as connection:
        connection.execute(sql)


def test_an_unchanged_log_has_no_findings(app_db: Database, tmp_path) -> None:
    assert verify(tmp_path) == ([], [])
    assert os.stat(tmp_path / "audit-key").st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("sql", "finding"),
    [
        ("UPDATE audit SET who = 'bob@example.com' WHERE id = 3", "entry 3 was changed"),
        ("UPDATE audit SET at = '2020-01-01 00:00:00' WHERE id = 3", "entry 3 was changed"),
        ("UPDATE audit SET about = 'erased', erased_hash = hash WHERE id = 3", "entry 3 was changed"),
        ("UPDATE audit SET hash = 'x', who = 'bob' WHERE id = 6", "entry 6 does not follow entry 5"),
        ("DELETE FROM audit WHERE id = 3", "entry 4 does not follow entry 2"),
        ("DELETE FROM audit WHERE id = 1", "entry 2 does not follow entry 0"),
        ("DELETE FROM audit WHERE id = 6", "entries after 5 were deleted; the last one was 6"),
        ("DELETE FROM audit", "entries after 0 were deleted; the last one was 6"),
        ("INSERT INTO audit VALUES (7, '2026-03-01', 'bob', 'x', '', 'done', '', NULL, NULL, NULL)",
         "entry 7 does not follow entry 6"),
        ("UPDATE audit SET id = 9 WHERE id = 3", "entry 4 does not follow entry 2"),
        ("UPDATE audit_chain SET head_id = 5", "the ends of the chain were changed"),
        ("UPDATE audit_chain SET anchor_id = 2", "the ends of the chain were changed"),
        ("DELETE FROM audit_chain", "the ends of the chain were deleted"),
    ],
)  # fmt: skip
def test_tampering_is_found(app_db: Database, tmp_path, sql: str, finding: str) -> None:
    tamper(tmp_path, sql)
    faults, _ = verify(tmp_path)
    assert any(finding in fault for fault in faults), faults


def test_a_rewrite_without_an_erasure_is_tampering(app_db: Database, tmp_path) -> None:
    app_db.write(lambda tx: audit.rewrite(tx, {2: {"about": "erased"}}, "command line", "erasure 1"))
    assert verify(tmp_path) == ([], ["audit log: 1 entries were rewritten by erasures"])
    entry = audit.list_newest(app_db, 1)[0]
    assert (entry.what, entry.about) == ("audit entries rewritten", "erasure 1: 2")
    tamper(tmp_path, "UPDATE audit SET about = 'call 3' WHERE id = 2")
    assert verify(tmp_path)[0] == ["audit log: entry 2 was changed"]


def test_retention_leaves_an_anchor(app_db: Database, tmp_path, monkeypatch) -> None:
    tamper(tmp_path, "UPDATE audit SET at = at")
    assert app_db.write(lambda tx: audit.delete_before(tx, "2020-01-01 00:00:00")) == 0
    later = clock.utc_text(clock.unix() + 60)
    monkeypatch.setattr(clock, "utc_text", lambda *_: later)
    audit.record(app_db, "sue@example.com", "action 7")
    assert app_db.write(lambda tx: audit.delete_before(tx, later)) == 6
    audit.record(app_db, "retention", "removed by retention", "audit", "6")
    assert [entry.id for entry in audit.list_newest(app_db)] == [8, 7]
    assert verify(tmp_path) == ([], ["audit log: entries up to 6 were deleted by retention"])
    tamper(tmp_path, "DELETE FROM audit WHERE id = 7")
    assert "entry 8 does not follow entry 6" in verify(tmp_path)[0][0]


def test_a_log_can_be_deleted_completely_by_retention(app_db: Database, tmp_path) -> None:
    assert app_db.write(lambda tx: audit.delete_before(tx, "2999-01-01 00:00:00")) == 6
    assert verify(tmp_path) == ([], ["audit log: entries up to 6 were deleted by retention"])
    audit.record(app_db, "sue@example.com", "action 7")
    assert audit.list_newest(app_db)[0].id == 7
    assert verify(tmp_path)[0] == []


def test_entries_of_an_older_version_are_protected_from_the_first_new_entry(tmp_path) -> None:
    database = open_app_db(tmp_path / "house.db")
    database.write(
        lambda tx: tx.executemany(
            "INSERT INTO audit (at, who, what, about, result, address) VALUES (?, 'sue', ?, '', 'done', '')",
            [("2026-03-01 08:00:00", f"old {number}") for number in (1, 2)],
        )
    )
    assert verify(tmp_path) == ([], [])
    audit.record(database, "sue@example.com", "new")
    assert verify(tmp_path) == ([], [])
    tamper(tmp_path, "UPDATE audit SET what = 'older' WHERE id = 1")
    assert verify(tmp_path)[0] == ["audit log: entry 1 was changed"]
    database.close()


def test_a_missing_or_another_key_is_a_finding(app_db: Database, tmp_path) -> None:
    (tmp_path / "audit-key").write_text("00" * 32)
    assert "audit-key is not the key of this log" in verify(tmp_path)[0][0]
    (tmp_path / "audit-key").unlink()
    assert "audit-key is missing" in verify(tmp_path)[0][0]


@pytest.mark.parametrize("scheme", ["udp", "tcp", "unix"])
def test_each_entry_is_copied_to_syslog(tmp_path, scheme: str) -> None:
    family = socket.AF_UNIX if scheme == "unix" else socket.AF_INET
    kind = socket.SOCK_STREAM if scheme == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, kind) as receiver:
        receiver.settimeout(10)
        receiver.bind(str(tmp_path / "log") if scheme == "unix" else ("127.0.0.1", 0))
        if scheme == "tcp":
            receiver.listen(1)
        target = (
            str(tmp_path / "log") if scheme == "unix" else f"{scheme}://127.0.0.1:{receiver.getsockname()[1]}"
        )
        with running_app(tmp_path / "data", audit__syslog=target) as app:
            audit.record(app.app_db, "sue@example.com", "view saved", "two\nlines", address="192.0.2.1")
            if scheme == "tcp":
                stream = receiver.accept()[0].makefile("rb")
                line = stream.readline().rstrip(b"\n")
            else:
                line = receiver.recv(65536)
            stored = audit.list_newest(app.app_db, 1)[0]
    assert line.startswith(b"<14>switchroom-audit: {")
    assert b"\n" not in line
    entry = json.loads(line.partition(b": ")[2])
    assert len(entry.pop("link")) == 64
    assert entry == {
        "id": stored.id, "at": stored.at, "who": "sue@example.com", "what": "view saved",
        "about": "two\nlines", "result": "done", "address": "192.0.2.1",
    }  # fmt: skip


def test_an_unreachable_syslog_delays_nothing_and_is_reported(tmp_path) -> None:
    target = str(tmp_path / "missing")
    with running_app(tmp_path / "data", audit__syslog=target) as app:
        health: Health = app.product.health
        audit.record(app.app_db, "sue@example.com", "view saved")
        wait_for(lambda: health.report()["checks"]["copy of the audit log"]["error"], "an error")
        assert target in health.report()["checks"]["copy of the audit log"]["error"]
        assert audit.list_newest(app.app_db, 1)[0].what == "view saved"


@pytest.mark.parametrize("target", ["logs.example.com", "http://logs.example.com", "udp://", "udp://h:0/x"])
def test_an_invalid_syslog_target_is_a_mistake(target: str) -> None:
    with pytest.raises(ConfigurationError) as mistakes:
        load(None, {"SWITCHROOM_CONFIG": os.devnull, "SWITCHROOM_AUDIT__SYSLOG": target})
    assert any("audit.syslog" in line and "udp://" in line for line in mistakes.value.mistakes)
