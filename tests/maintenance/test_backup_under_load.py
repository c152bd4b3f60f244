"""The whole product backed up while webhooks arrive, and started again from the copy (promise P25)."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.applications.data_dir import ask, webhook
from tests.support.harness import Product, wait_for


def test_a_backup_beside_a_busy_serve_starts_elsewhere_with_every_earlier_acknowledgement(
    whole, tmp_path, monkeypatch
):
    product, simulator = whole.product, whole.simulator
    wait_for(lambda: list((product.data_dir / "recordings").rglob("*.mp3")), "a recording")
    acknowledged: list[str] = []
    stop = threading.Event()

    def send():
        number = 500_000
        while not stop.is_set():
            status, _, _ = product.client.ask("POST", product.webhook_path, webhook(number))
            if status == 200:
                acknowledged.append(f"test.{number}")
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait_for(lambda: len(acknowledged) > 50, "acknowledgements")
        before = set(acknowledged)
        taken = product.command("backup", str(tmp_path / "backups"))
        assert taken.returncode == 0, taken.stderr
        assert len(acknowledged) > len(before)
    finally:
        stop.set()
        sender.join()
    folder = Path(taken.stdout.strip())
    refused = product.command("restore", str(folder), "--replace")
    assert refused.returncode == 1
    assert "in use by `switchroom serve`" in refused.stderr

    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(product.environment, "SWITCHROOM_STORAGE__DATA_DIR", str(tmp_path / "restored"))
        restored = product.command("restore", str(folder))
        assert restored.returncode == 0, restored.stderr
        verified = product.command("verify")
        assert verified.returncode == 0, verified.stdout
    ids = stored(tmp_path / "restored")
    assert before <= ids

    again = Product(
        tmp_path / "restored",
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        recordings__download="false",
        voicemail__download="false",
    )
    try:
        # What the inbox held and the mirror had not applied yet is applied at the start.
        wait_for(lambda: applied(tmp_path / "restored") >= len(ids), "every webhook applied")
    finally:
        again.stop()


def stored(data_dir: Path) -> set[str]:
    return {row[0] for row in ask(data_dir / "inbox.db", "SELECT event_id FROM inbox")}


def applied(data_dir: Path) -> int:
    return int(ask(data_dir / "mirror.db", "SELECT count(*) FROM _applied")[0][0])
