"""Files and records that retention deleted, while the platform still has them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from integration.core import clock
from tests.support.harness import run_installation, wait_for

DAYS = 1
"""Days of history that retention keeps."""


def test_what_retention_deleted_is_not_read_or_downloaded_again(tmp_path: Path) -> None:
    cutoff = clock.utc_text(clock.unix() - (DAYS + 1) * 86_400)

    def query(sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(f"file:{tmp_path / 'mirror.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()

    def count_old() -> tuple[int, int]:
        """Return the old audio files in the archive and the old records of voicemail."""
        files = query(
            "SELECT count(*) FROM media JOIN monitors ON monitors.id = record_id AND kind = 'recording'"
            f" WHERE state = 'have' AND timestamp < '{cutoff}'"
        )
        messages = query(f"SELECT count(*) FROM voicemessages WHERE origtime < '{cutoff}'")
        return int(str(files[0][0])), int(str(messages[0][0]))

    with run_installation(tmp_path, "--cdrs", "800", "--no-traffic") as (simulator, product):
        assert product.command("sync").returncode == 0
        before = count_old()
        assert min(before) > 0, f"{before}: the history has old recordings and voicemail"
        product.stop()
        product.environment |= {
            "SWITCHROOM_RETENTION__RECORDINGS_DAYS": str(DAYS),
            "SWITCHROOM_RETENTION__VOICEMAIL_DAYS": str(DAYS),
        }
        product.start()
        wait_for(lambda: count_old() == (0, 0), "the deletion of old files and records")
        mark = simulator.control("GET", "log")["total"]
        for arguments in (("sync", "--full"), ("verify", "--media")):
            done = product.command(*arguments)
            assert done.returncode == 0, done.stderr
        product.stop()
        product.start()
        wait_for(lambda: "downloads" in product.client.json("GET", "/readyz")["checks"], "a run of downloads")
        requests = [entry["path"] for entry in simulator.control("GET", f"log?after={mark}")["data"]]
        assert any(path.endswith("/voicemessages") for path in requests)
        assert [path for path in requests if path.endswith(".mp3")] == []
        assert count_old() == (0, 0)
