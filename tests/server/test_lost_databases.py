"""Databases that are lost between two runs of `serve`, as processes on real files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from integration.core import clock
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
    assert "house.db had 0 bytes" in product.command("serve").stderr
    os.truncate(tmp_path / "data" / "house.db", 1)
    done = product.command("serve")
    assert done.returncode == 1
    assert "house.db had 1 byte" in done.stderr
    assert "Delete house.db-wal, and copy house.db from the newest backup into this folder." in done.stderr
    assert "Set up the first administrator" not in done.stderr
    assert product.command("user", "add", "ann@example.com", "--role", "admin").returncode == 1
    shutil.copy(tmp_path / "backup.db", tmp_path / "data" / "house.db")
    product = Product(tmp_path / "data")
    assert product.stop() == 0


def count_callbacks(data_dir: Path) -> int:
    return query_database(data_dir / "house.db", "SELECT count(*) FROM callbacks WHERE state = 'open'")[0][0]


def miss_calls(product: Product, *legs: int) -> None:
    """Send the webhooks of missed calls, each of another caller, and wait until they are in mirror.db."""
    for leg in legs:
        event = {"call_id": leg, "src": f"4477009{leg:05d}", "dst": "442079460002", "destination": "in"}
        for name, state, age in (("call.ringing", "RINGING", 60), ("call.hangup", "HANGUP", 20)):
            at = clock.utc_text(clock.unix() - age)
            body = {"id": f"{leg}-{name}", "event_name": name, "event_time": at, "state": state, **event}
            assert product.client.send("POST", product.webhook_path, json.dumps(body).encode())[0] == 200
    missed = f"SELECT count(*) FROM _calls WHERE outcome = 'missed' AND id IN ({', '.join(map(str, legs))})"
    wait_for(lambda: query_database(product.data_dir / "mirror.db", missed) == [(len(legs),)], "missed calls")


@pytest.mark.parametrize("replaced", [("mirror.db", "inbox.db"), ("house.db",)])
def test_each_missed_call_is_listed_after_databases_were_replaced_by_older_copies(
    tmp_path: Path, replaced: tuple[str, ...]
) -> None:
    data_dir = tmp_path / "data"
    product = Product(data_dir)
    try:
        miss_calls(product, *range(1, 3))
        wait_for(lambda: count_callbacks(data_dir) == 2, "the first call-backs")
        product.stop()
        for name in replaced:
            shutil.copy(data_dir / name, tmp_path / name)
        product.start()
        miss_calls(product, *range(3, 23))
        wait_for(lambda: count_callbacks(data_dir) == 22, "the next call-backs")
        product.stop()
        for name in replaced:
            shutil.copy(tmp_path / name, data_dir / name)
        product.start()
        miss_calls(product, *range(23, 42) if replaced == ("house.db",) else range(3, 42))
        wait_for(lambda: count_callbacks(data_dir) == 41, "all call-backs", 20)
    finally:
        product.stop()
