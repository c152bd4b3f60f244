"""Files of databases that another program deletes or replaces while `serve` runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.maintenance.manifest import DATABASES
from tests.server.test_damaged_databases import query, send_legs
from tests.support.harness import Product, wait_for
from tests.trials.tools.traffic import Senders

WRITER = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
connection.execute("CREATE TABLE IF NOT EXISTS foreign_table (a)")
connection.commit()
os._exit(0)
"""
"""Commits to a database, and ends without closing it, so that its -wal remains."""

READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
print("open", flush=True)
sys.stdin.read()
"""
"""Keeps a database open until its input ends."""


def delete_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def delete_log_and_write(path: Path) -> None:
    """Replace the log by one with commits of another program.

    The program fails if the worker was writing the log into the database, which is then invalid without it.
    """
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)


def move_database(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))


def replace_files(product: Product, senders: Senders, name: str, replace: Callable[[Path], None]) -> None:
    """Replace files of a database, and wait until a new worker stores webhooks."""
    wait_for(lambda: len(senders.acknowledged) > 20, "webhooks")
    assert product.command("key", "add", f"key-{name}", "--scope", "read").returncode == 0
    worker = product.worker
    replace(product.data_dir / name)
    status, body, _ = product.client.send("GET", "/readyz")
    report = json.loads(body)
    assert (status, report["status"]) == (503, "unready")
    assert f"Another program has deleted or replaced {name}" in report["checks"][name]["error"]
    wait_for(lambda: product.worker not in (None, worker), "a new worker")
    product.ready()
    sent = len(senders.acknowledged)
    wait_for(lambda: len(senders.acknowledged) > sent + 20, "webhooks of the new worker")


@pytest.mark.parametrize(
    "replace",
    [
        delete_log,
        pytest.param(delete_log_and_write, marks=pytest.mark.exhaustive),
        pytest.param(move_database, marks=pytest.mark.exhaustive),
    ],
)
def test_a_replaced_file_costs_no_acknowledged_webhook(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    product = Product(tmp_path / "data")
    senders = Senders(product.port, product.webhook_path, count=4, rest=0.0)
    try:
        for name in DATABASES:
            replace_files(product, senders, name, replace)
    finally:
        senders.stop()
        product.kill()
    assert {200, 503} <= senders.statuses.keys() <= {0, 200, 503}
    assert all(one.has_retry_after for one in senders.responses if one.status == 503)
    product.start()
    try:
        stored = {row[0] for row in query(product.data_dir / "inbox.db", "SELECT event_id FROM inbox")}
        assert senders.acknowledged - stored == set()
        keys = {row[0] for row in query(product.data_dir / "house.db", "SELECT name FROM keys")}
        assert keys == {f"key-{name}" for name in DATABASES}
        for name in DATABASES:
            assert query(product.data_dir / name, "PRAGMA integrity_check") == [("ok",)]
    finally:
        product.stop()


def test_a_stop_saves_webhooks_of_a_deleted_log_while_another_program_has_the_database_open(
    tmp_path: Path,
) -> None:
    product = Product(tmp_path / "data")
    inbox = product.data_dir / "inbox.db"
    delete_log(inbox)
    command = [sys.executable, "-c", READER, inbox]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"open\n"
        send_legs(product, 1, 3)
        assert product.stop() == 0
    assert query(inbox, "SELECT count(*) FROM inbox") == [(6,)]
