"""Consistent and complete backups, and restores (promise P25)."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import stat
import threading
from pathlib import Path

import pytest

from integration.app_schema import open_app_db
from integration.core import process_lock
from integration.core.errors import StorageError, SwitchroomError
from integration.inbox.store import Inbox
from integration.maintenance import backup, manifest
from integration.maintenance.restore import restore
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database
from tests.support.applications.data_dir import DataDir, query_database, webhook
from tests.support.harness import wait_for


def test_a_backup_under_load_contains_all_webhooks_acknowledged_before_its_start(home, tmp_path):
    home.receive(2_000)
    inbox = Inbox(home.data_dir / "inbox.db")
    acknowledged, stored_during_backup, stop = [], [], threading.Event()

    def send_webhooks():
        number = 10_000
        while not stop.is_set():
            receipts = [inbox.receive(webhook(number + n)) for n in range(20)]
            for n, receipt in enumerate(receipts):
                assert receipt.result(30) == "stored"
                acknowledged.append(f"test.{number + n}")
            number += 20

    thread = threading.Thread(target=send_webhooks)
    thread.start()
    try:
        for _ in range(3):
            begun = len(acknowledged)
            wait_for(lambda begun=begun: len(acknowledged) > begun + 100, "load")
            before = set(acknowledged)
            created = backup.create(home.data_dir, tmp_path / f"backup{begun}")
            copied = dict(query_database(created.path / "inbox.db", "SELECT seq, event_id FROM inbox"))
            assert before <= set(copied.values())
            assert query_database(created.path / "inbox.db", "PRAGMA integrity_check") == [("ok",)]
            # The copy is one snapshot: seqs have no gaps.
            assert set(copied) == set(range(1, max(copied) + 1))
            stored_during_backup.append(len(acknowledged) - len(before))
        assert any(stored_during_backup), "no webhook was stored during a backup"
    finally:
        stop.set()
        thread.join()
        inbox.close()


def test_a_backup_contains_all_webhooks_that_its_mirror_has_applied(home, tmp_path, monkeypatch):
    """Otherwise a later webhook would get an applied seq and be ignored."""
    inbox = Inbox(home.data_dir / "inbox.db")
    mirror = open_mirror(home.data_dir / "mirror.db")
    numbers = iter(range(1_000_000))

    def receive_and_apply(*_):
        inbox.receive(webhook(next(numbers))).result(30)
        ((seq,),) = query_database(home.data_dir / "inbox.db", "SELECT max(seq) FROM inbox")
        mirror.write(lambda tx: tx.execute("INSERT INTO _applied VALUES (?, 'done')", (seq,)))

    # A webhook is received and applied after the copy of each database.
    created = backup.create(home.data_dir, tmp_path / "backups", receive_and_apply)
    inbox.close()
    mirror.close()
    applied = {row[0] for row in query_database(created.path / "mirror.db", "SELECT seq FROM _applied")}
    stored = {row[0] for row in query_database(created.path / "inbox.db", "SELECT seq FROM inbox")}
    assert applied
    assert applied < stored


def test_the_manifest_lists_all_files_with_sha256_and_only_the_owner_can_read_a_backup(home, tmp_path):
    recording = home.record(7, b"one recording")
    home.record(8, b"one message", "voicemail")
    (home.data_dir / "recordings/2026/03/01/9.mp3.part").write_bytes(b"half a rec")
    done = home.run("backup", str(tmp_path / "backups"))
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path / "backups"
    entries = {entry["path"]: entry for entry in json.loads((folder / "manifest.json").read_text())["files"]}
    assert set(entries) == {
        "house.db",
        "mirror.db",
        "inbox.db",
        "webhook-secret",
        "account.json",
        "recordings/2026/03/01/7.mp3",
        "voicemail/2026/03/01/8.mp3",
    }
    for path, entry in entries.items():
        content = (folder / path).read_bytes()
        assert (entry["size"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    for where, _, files in os.walk(folder):
        assert stat.S_IMODE(os.stat(where).st_mode) == 0o700
        for name in files:
            if "recordings" not in where and "voicemail" not in where:
                assert stat.S_IMODE((Path(where) / name).stat().st_mode) == 0o600
    assert not list(folder.parent.glob("*.part"))
    assert (folder / "recordings/2026/03/01/7.mp3").samefile(recording)
    assert not any((folder / name).samefile(home.data_dir / name) for name in manifest.DATABASES)


def test_a_backup_reports_changed_and_missing_files_of_the_archive(home, tmp_path):
    home.record(7, b"one recording").write_bytes(b"cut short")
    home.record(8, b"another").unlink()
    done = home.run("backup", str(tmp_path / "backups"))
    assert done.returncode == 0
    assert "recordings/2026/03/01/7.mp3: differs from the download" in done.stderr
    assert "recordings/2026/03/01/8.mp3: missing" in done.stderr


def test_a_failed_backup_leaves_no_files_and_removes_those_of_a_killed_backup(home, tmp_path):
    dest = tmp_path / "backups"
    others = dest / "switchroom-20260101-000000.part"
    others.mkdir(parents=True)
    (others / "owner").write_text("another machine:/var/lib/switchroom")

    def kill(what, *_):
        if what == "inbox.db":
            os._exit(9)

    def fail(what, *_):
        if what == "inbox.db":
            raise SwitchroomError("the disk failed")

    killed = multiprocessing.get_context("fork").Process(
        target=backup.create, args=(home.data_dir, dest, kill)
    )
    killed.start()
    killed.join(30)
    assert killed.exitcode == 9
    assert len(list(dest.iterdir())) == 2
    with pytest.raises(SwitchroomError, match="the disk failed"):
        backup.create(home.data_dir, dest, fail)
    assert list(dest.iterdir()) == [others]


def test_a_backup_without_mirror_is_an_error(home, tmp_path):
    (home.data_dir / "mirror.db").unlink()
    done = home.run("backup", str(tmp_path / "backups"))
    assert done.returncode == 1
    assert "has no mirror.db" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_destination_that_cannot_be_written_is_one_error_line(home):
    done = home.run("backup", "/proc/backups")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


class TestRestore:
    @pytest.fixture
    def backup_folder(self, home, tmp_path):
        home.receive(50)
        home.record(7, b"one recording")
        home.record(8, b"one message", "voicemail")
        return backup.create(home.data_dir, tmp_path / "backups").path

    def test_a_restore_into_another_folder_has_all_data_and_passes_verify(
        self, home, backup_folder, tmp_path
    ):
        (tmp_path / "elsewhere").mkdir()
        other = DataDir(tmp_path / "elsewhere")
        for path in other.data_dir.iterdir():
            path.unlink()
        done = other.run("restore", str(backup_folder), "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert list(result) == ["data_dir", "files", "backup_created_at", "omitted", "previous_data_dir"]
        assert (result["data_dir"], result["previous_data_dir"]) == (str(other.data_dir), None)
        for name in ("webhook-secret", "account.json", "recordings/2026/03/01/7.mp3"):
            assert (other.data_dir / name).read_bytes() == (home.data_dir / name).read_bytes()
        assert query_database(other.data_dir / "inbox.db", "SELECT count(*) FROM inbox") == [(50,)]
        assert not (other.data_dir / "restore.part").exists()
        verified = other.run("verify")
        assert verified.returncode == 0, verified.stdout
        assert "50 webhooks are stored but not applied" in verified.stderr

    def test_existing_data_stays_without_replace_and_is_moved_with_replace(self, home, backup_folder):
        home.receive(60)
        refused = home.run("restore", str(backup_folder))
        assert refused.returncode == 1
        assert "not empty" in refused.stderr
        assert query_database(home.data_dir / "inbox.db", "SELECT count(*) FROM inbox") == [(60,)]
        done = home.run("restore", str(backup_folder), "--replace")
        assert done.returncode == 0, done.stderr
        assert query_database(home.data_dir / "inbox.db", "SELECT count(*) FROM inbox") == [(50,)]
        (previous,) = home.data_dir.glob("before-restore-*")
        assert str(previous) in done.stderr
        assert query_database(previous / "inbox.db", "SELECT count(*) FROM inbox") == [(60,)]
        assert (previous / "recordings/2026/03/01/7.mp3").read_bytes() == b"one recording"

    def test_the_data_dir_of_an_interrupted_restore_is_no_fresh_installation(
        self, home, backup_folder, monkeypatch
    ):
        rename = Path.rename

        def fail_for_databases(path, target):
            if path.parent.name == "restore.part" and path.suffix == ".db":
                raise OSError(5, "Input/output error")
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", fail_for_databases)
        with pytest.raises(SwitchroomError, match="Input/output error"):
            restore(backup_folder, home.data_dir, replace=True)
        with pytest.raises(StorageError, match=r"house\.db was missing"):
            open_app_db(home.data_dir / "house.db")

    def test_a_restore_is_rejected_while_a_process_uses_data_dir(self, home, backup_folder):
        with process_lock.acquire(home.data_dir, "serve"):
            done = home.run("restore", str(backup_folder), "--replace")
        assert done.returncode == 1
        assert "in use by `switchroom serve`" in done.stderr
        assert not list(home.data_dir.glob("before-restore-*"))

    @pytest.mark.parametrize("name", ["inbox.db", "recordings/2026/03/01/7.mp3", "webhook-secret"])
    def test_a_damaged_backup_is_rejected_without_changes(self, home, backup_folder, name):
        flip(backup_folder / name)
        before = sorted(path.name for path in home.data_dir.iterdir())
        done = home.run("restore", str(backup_folder), "--replace")
        assert done.returncode == 1
        assert f"{name}: content changed" in done.stderr
        assert {*before, "lock"} == {path.name for path in home.data_dir.iterdir()}

    def test_damaged_recordings_can_be_skipped(self, home, backup_folder):
        flip(backup_folder / "recordings/2026/03/01/7.mp3")
        restored = restore(backup_folder, home.data_dir, replace=True, skip_damaged=True)
        assert len(restored.skipped_files) == 1
        assert not (home.data_dir / "recordings/2026/03/01/7.mp3").exists()
        assert (home.data_dir / "voicemail/2026/03/01/8.mp3").exists()
        assert home.run("verify").stdout == "recordings/2026/03/01/7.mp3: is missing\n"

    def test_a_backup_of_a_corrupt_database_is_rejected(self, home, backup_folder):
        """The digest is correct, the content is not."""
        path = backup_folder / "mirror.db"
        content = bytearray(path.read_bytes())
        content[4096:8192] = os.urandom(4096)
        path.write_bytes(content)
        body = json.loads((backup_folder / "manifest.json").read_text())
        for entry in body["files"]:
            if entry["path"] == "mirror.db":
                entry["sha256"] = hashlib.sha256(content).hexdigest()
        (backup_folder / "manifest.json").write_text(json.dumps(body))
        with pytest.raises(SwitchroomError):
            restore(backup_folder, home.data_dir, replace=True)
        assert not list(home.data_dir.glob("before-restore-*"))

    @pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside", ""])
    def test_a_manifest_with_a_path_outside_of_data_dir_is_rejected(self, home, backup_folder, path):
        body = json.loads((backup_folder / "manifest.json").read_text())
        body["files"].append({"path": path, "size": 0, "sha256": ""})
        (backup_folder / "manifest.json").write_text(json.dumps(body))
        with pytest.raises(SwitchroomError, match="damaged"):
            restore(backup_folder, home.data_dir, replace=True)

    def test_a_restore_changes_the_epoch_of_the_change_log(self, home, backup_folder):
        epoch = "SELECT value FROM _meta WHERE key = 'epoch'"
        before = query_database(home.data_dir / "mirror.db", epoch)
        restore(backup_folder, home.data_dir, replace=True)
        assert query_database(home.data_dir / "mirror.db", epoch) != before


def flip(path: Path) -> None:
    """Change one byte of the file, without changing a linked file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def test_the_copy_of_a_database_ends_although_commits_continue(tmp_path, monkeypatch):
    from integration.sqlite import database_files

    database = Database(
        tmp_path / "busy.db", prepare=lambda connection: connection.execute("CREATE TABLE t (x)")
    )
    database.write(lambda tx: tx.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 5_000))
    monkeypatch.setattr(database_files, "COPY_PAGES", 512)
    totals = []

    def commit(done, total):
        totals.append(total)
        assert len(totals) < 1_000, "the copy restarts at each commit"
        database.write(lambda tx: tx.execute("INSERT INTO t VALUES ('later')"))

    database_files.copy_database(tmp_path / "busy.db", tmp_path / "copy.db", commit)
    database.close()
    assert len(totals) > 2
    assert len(set(totals)) == 1
    assert query_database(tmp_path / "copy.db", "SELECT count(*) FROM t WHERE x = 'later'") == [(0,)]
