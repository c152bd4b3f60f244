"""The audit log has a copy in syslog; logs of older versions are kept."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from integration.access import audit
from integration.app_schema import open_app_db
from integration.core import atomic_files
from integration.core.errors import ConfigurationError
from integration.core.health import Health
from integration.maintenance.manifest import DATABASES, Entry, Manifest
from integration.maintenance.restore import restore
from integration.settings.model import load
from tests.release.schemas import FOLDER
from tests.support.application import running_app
from tests.support.harness import wait_for


def make_older_backup(folder: Path) -> None:
    """Create a backup of version 0.1.0, whose audit log has hashes, and had one more entry."""
    folder.mkdir()
    for name in DATABASES:
        with closing(sqlite3.connect(folder / name)) as connection:
            connection.executescript((FOLDER / "0.1.0" / name).with_suffix(".sql").read_text("utf-8"))
            if name == "house.db":
                connection.executemany(
                    "INSERT INTO audit VALUES"
                    " (?, '2026-03-01 08:00:00', 'sue', ?, '', 'done', '', 'hash', 'link', 'erased')",
                    [(1, "login"), (2, "export"), (3, "deleted later")],
                )
                connection.execute("DELETE FROM audit WHERE id = 3")
                connection.execute("INSERT INTO audit_chain VALUES (0, 2, 'link', 0, 'start', 'seal')")
            connection.commit()
    (folder / "audit-key").write_text("00" * 32 + "\n")
    files = tuple(Entry(path.name, *atomic_files.hash_file(path)) for path in sorted(folder.iterdir()))
    Manifest("2026-03-01 09:00:00", "0.1.0", files).write(folder)


def test_a_backup_with_hashes_is_restored_without_them(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    make_older_backup(tmp_path / "backup")
    restore(tmp_path / "backup", data_dir)
    database = open_app_db(data_dir / "house.db")
    audit.record(database, "sue@example.com", "new")
    entries = [(entry.id, entry.who, entry.what) for entry in audit.list_newest(database)]
    with database.read() as connection:
        columns = [row["name"] for row in connection.execute("PRAGMA table_info(audit)")]
        chain = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'audit_chain'").fetchall()
    database.close()
    assert entries == [(4, "sue@example.com", "new"), (2, "sue", "export"), (1, "sue", "login")]
    assert columns == ["id", "at", "who", "what", "about", "result", "address"]
    assert (chain, (data_dir / "audit-key").exists()) == ([], False)


@pytest.mark.parametrize("scheme", ["udp", "tcp", "unix"])
def test_each_entry_is_copied_to_syslog(tmp_path: Path, scheme: str) -> None:
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
    assert entry == {
        "id": stored.id, "at": stored.at, "who": "sue@example.com", "what": "view saved",
        "about": "two\nlines", "result": "done", "address": "192.0.2.1",
    }  # fmt: skip


def test_an_unreachable_syslog_delays_nothing_and_is_reported(tmp_path: Path) -> None:
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
