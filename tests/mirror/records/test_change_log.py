"""Change log: what makes open pages reload."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.mirror.records import change_log
from integration.mirror.schema import open_mirror


def test_open_pages_reload_after_a_restart_of_the_computer_or_with_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process loses no commit, and a computer none before a clean stop."""
    path, boot = tmp_path / "mirror.db", tmp_path / "boot_id"
    boot.write_text("first\n")
    monkeypatch.setattr(change_log, "BOOT_ID", boot)

    def start(*, is_clean: bool = False) -> str:
        mirror_db = open_mirror(path)
        try:
            change_log.follow_file(mirror_db)
            with mirror_db.read() as connection:
                return change_log.get_epoch(connection)
        finally:
            if is_clean:
                mirror_db.write(change_log.record_clean_stop)
            mirror_db.close()

    epoch = start()
    assert start() == epoch
    boot.write_text("second\n")
    second = start(is_clean=True)
    assert second not in (epoch, "")
    boot.write_text("third\n")
    assert start() == second
    boot.write_text("fourth\n")
    second = start()
    assert second not in (epoch, "")
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").rename(path)
    assert start() not in (epoch, second)
