"""`verify`: findings in databases, inbox and archive."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest

from integration.core import process_lock


@pytest.fixture
def archive(home):
    """Two recordings and a voicemail message, as downloaded."""
    return [
        home.record(7, b"one recording" * 1000),
        home.record(8, b"another recording" * 1000),
        home.record(9, b"one message" * 1000, "voicemail"),
    ]


def test_a_healthy_installation_has_no_findings(home, archive):
    done = home.run("verify")
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 files checked, 0 findings" in done.stderr


def test_quick_compares_only_sizes(home, archive):
    archive[0].write_bytes(archive[0].read_bytes().replace(b"one", b"two"))
    assert home.run("verify", "--quick").returncode == 0
    os.truncate(archive[2], 100)
    done = home.run("verify", "--quick")
    assert done.returncode == 1
    assert done.stdout == "voicemail/2026/03/01/9.mp3: has 100 bytes instead of 11,000\n"


def test_each_finding_is_one_line(home, archive):
    os.truncate(archive[0], 100)
    archive[1].unlink()
    archive[2].unlink()
    archive[2].symlink_to("/etc/hostname")
    assert home.run("verify").stdout.splitlines() == [
        "recordings/2026/03/01/7.mp3: has 100 bytes instead of 13,000",
        "recordings/2026/03/01/8.mp3: is missing",
        "voicemail/2026/03/01/9.mp3: leads out of the archive",
    ]


def test_an_archive_behind_a_symbolic_link_is_no_finding(home, archive, tmp_path):
    (home.data_dir / "recordings").rename(tmp_path / "big disk")
    (home.data_dir / "recordings").symlink_to(tmp_path / "big disk")
    assert home.run("verify").returncode == 0


@pytest.mark.parametrize("name", ["house.db", "mirror.db", "inbox.db"])
def test_a_damaged_database_is_found(home, archive, name):
    path = home.data_dir / name
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    done = home.run("verify")
    assert done.returncode == 1
    assert all(line.startswith(f"{name}: ") for line in done.stdout.splitlines())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--quick",)])
@pytest.mark.parametrize("name", ["house.db", "mirror.db", "inbox.db"])
def test_a_missing_or_empty_database_is_found(home, name, options):
    for size, finding in ((0, "has 0 bytes"), (1, "has 1 byte")):
        (home.data_dir / name).write_bytes(b"\n" * size)
        done = home.run("verify", *options)
        assert (done.returncode, done.stdout) == (1, f"{name}: {finding}\n")
        backup = home.run("backup", str(home.data_dir / "backups"))
        assert backup.returncode == 1
        assert f"{name} is empty. Restore an earlier backup. No backup was made." in backup.stderr
        assert not list((home.data_dir / "backups").glob("switchroom-*"))
    (home.data_dir / name).unlink()
    done = home.run("verify", *options)
    assert (done.returncode, done.stdout) == (1, f"{name}: is missing\n")


def test_unapplied_webhooks_are_a_finding_only_while_serve_runs(home):
    home.receive(3)
    with sqlite3.connect(home.data_dir / "inbox.db") as connection:
        connection.execute("UPDATE inbox SET received_at = '2026-03-01 12:00:00' WHERE seq <= 2")
    connection.close()
    with process_lock.acquire(home.data_dir, "serve"):
        done = home.run("verify")
    assert done.returncode == 1
    assert "2 webhooks are stored but not applied, the first is number 1" in done.stdout
    # Without a running serve they are applied at its next start.
    assert home.run("verify").returncode == 0


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_a_process_that_starts_during_a_check_of_the_lock_reports_its_command(home, command):
    process_lock.acquire(home.data_dir, "serve").release()
    home.run(command)
    # The content of the file outlasts the lock.
    assert json.loads((home.data_dir / "lock").read_text())["purpose"] == command


def test_an_inbox_that_is_older_than_the_mirror_is_found(home):
    home.receive(3)
    with sqlite3.connect(home.data_dir / "mirror.db") as connection:
        connection.executemany("INSERT INTO _applied VALUES (?, 'done')", [(n,) for n in range(1, 8)])
    connection.close()
    done = home.run("verify")
    assert done.returncode == 1
    assert "inbox.db: older than mirror.db, which has applied webhook number 7" in done.stdout


def test_verify_does_not_change_the_databases(home, archive):
    before = {path.name: path.read_bytes() for path in home.data_dir.glob("*.db")}
    home.run("verify")
    assert before == {path.name: path.read_bytes() for path in home.data_dir.glob("*.db")}
