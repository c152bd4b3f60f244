"""Databases that are lost between two runs of `serve`, as processes on real files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.applications.data_dir import query_database, webhook
from tests.support.harness import Product, wait_for


def send(product: Product, *numbers: int) -> None:
    for number in numbers:
        status, body, _ = product.client.send("POST", product.webhook_path, webhook(number))
        assert (status, json.loads(body)) == (200, {"status": "stored"})


def list_applied(product: Product) -> list[tuple]:
    return query_database(product.data_dir / "mirror.db", "SELECT leg_id FROM _legs ORDER BY leg_id")


@pytest.mark.parametrize("fault", ["had 0 bytes", "was missing"])
def test_serve_applies_webhooks_after_its_inbox_was_lost(tmp_path: Path, fault: str) -> None:
    product = Product(tmp_path / "data")
    try:
        send(product, 1, 2, 3)
        wait_for(lambda: len(list_applied(product)) == 3, "three applied webhooks")
        # Killed, so that the file -wal remains.
        product.kill()
        if fault == "had 0 bytes":
            os.truncate(product.data_dir / "inbox.db", 0)
        else:
            (product.data_dir / "inbox.db").unlink()
        product = Product(tmp_path / "data")
        send(product, 4)
        wait_for(lambda: len(list_applied(product)) == 4, "an applied webhook with a new inbox.db")
        assert query_database(product.data_dir / "inbox.db", "SELECT seq FROM inbox") == [(4,)]
        fact = product.client.json("GET", "/readyz")["facts"]["lost webhooks"]
        assert fact.startswith(f"inbox.db: the file {fault} at the start on ")
        assert "webhooks 1 to 3 are no longer stored" in fact
        assert fact in product.output
    finally:
        product.stop()


def test_serve_refuses_a_lost_application_database_until_it_is_copied_from_a_backup(tmp_path: Path) -> None:
    product = Product(tmp_path / "data")
    product.stop()
    shutil.copy(tmp_path / "data" / "house.db", tmp_path / "backup.db")
    os.truncate(tmp_path / "data" / "house.db", 0)
    done = product.command("serve")
    assert done.returncode == 1
    assert "house.db had 0 bytes" in done.stderr
    assert "Delete house.db-wal, and copy house.db from the newest backup into this folder." in done.stderr
    assert "Set up the first administrator" not in done.stderr
    assert product.command("user", "add", "ann@example.com", "--role", "admin").returncode == 1
    shutil.copy(tmp_path / "backup.db", tmp_path / "data" / "house.db")
    product = Product(tmp_path / "data")
    assert product.stop() == 0
