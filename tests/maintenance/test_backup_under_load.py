"""Backup of a running product, and a start from it (promise P25)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.applications.data_dir import query_database, webhook
from tests.support.harness import Product, wait_for


@pytest.mark.exhaustive
def test_a_backup_beside_a_busy_serve_starts_with_all_webhooks_acknowledged_before(
    installation, tmp_path, monkeypatch
):
    product, simulator = installation.product, installation.simulator
    wait_for(lambda: list((product.data_dir / "recordings").rglob("*.mp3")), "a recording")
    acknowledged: list[str] = []
    stop = threading.Event()

    def send():
        number = 500_000
        while not stop.is_set():
            status, _, _ = product.client.send("POST", product.webhook_path, webhook(number))
            if status == 200:
                acknowledged.append(f"test.{number}")
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait_for(lambda: len(acknowledged) > 50, "acknowledgements")
        before = set(acknowledged)
        backup_folder = product.command("backup", str(tmp_path / "backups"))
        assert backup_folder.returncode == 0, backup_folder.stderr
        assert len(acknowledged) > len(before)
    finally:
        stop.set()
        sender.join()
    folder = Path(backup_folder.stdout.strip())
    refused = product.command("restore", str(folder), "--replace")
    assert refused.returncode == 1
    assert "in use by `switchroom serve`" in refused.stderr

    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(product.environment, "SWITCHROOM_STORAGE__DATA_DIR", str(tmp_path / "restored"))
        restored = product.command("restore", str(folder))
        assert restored.returncode == 0, restored.stderr
        verified = product.command("verify")
        assert verified.returncode == 0, verified.stdout
    ids = list_event_ids(tmp_path / "restored")
    assert before <= ids

    restored_product = Product(
        tmp_path / "restored",
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        recordings__download="false",
        voicemail__download="false",
    )
    try:
        # Webhooks that were stored and not applied are applied at the start.
        wait_for(lambda: count_applied(tmp_path / "restored") >= len(ids), "every webhook applied")
    finally:
        restored_product.stop()


def list_event_ids(data_dir: Path) -> set[str]:
    return {row[0] for row in query_database(data_dir / "inbox.db", "SELECT event_id FROM inbox")}


def count_applied(data_dir: Path) -> int:
    return int(query_database(data_dir / "mirror.db", "SELECT count(*) FROM _applied")[0][0])
