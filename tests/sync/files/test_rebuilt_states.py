"""Files of the archive after mirror.db, which has their states, was rebuilt."""

from __future__ import annotations

import pytest

from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync

MONITORS, VOICEMAIL = PLAN["monitors"], PLAN["voicemessages"]


def rows(simulated, columns="state"):
    return simulated.rows(f"SELECT {columns} FROM media ORDER BY kind, record_id")


def rebuild_rows(simulated):
    """Delete the states of all files, like a new mirror.db."""
    simulated.mirror_db.write(lambda tx: tx.execute("DELETE FROM media"))
    download.prepare_downloads(simulated.context)
    assert {state for (state,) in rows(simulated)} == {"wanted"}


def test_files_of_the_archive_are_recognized_after_mirror_db_was_rebuilt(simulated):
    for policy in (MONITORS, VOICEMAIL, PLAN["faxes"]):
        run_full_sync(simulated.context, policy)
    assert download.download_due_files(simulated.context) > 10
    columns = "kind, record_id, path, size, sha256, state"
    before = rows(simulated, columns)
    assert {row[0] for row in before} == {"recording", "voicemail", "fax"}
    files = {path: (simulated.data_dir / path).stat() for _, _, path, *_ in before}
    rebuild_rows(simulated)
    simulated.faults("status=500@/monitors/*.mp3,status=500@/voicemessages/*.mp3,status=500@/faxes/*.pdf")
    download.download_due_files(simulated.context)
    assert rows(simulated, columns) == before
    for path, status in files.items():
        now = (simulated.data_dir / path).stat()
        assert (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replace_by_page(path):
    path.write_bytes(b"<html>".ljust(path.stat().st_size))


@pytest.mark.parametrize("spoil", [truncate, link, replace_by_page])
def test_a_wrong_file_is_not_recognized_after_mirror_db_was_rebuilt(simulated, recording, spoil):
    path = download.fetch(simulated.context, "recording", recording)
    content = path.read_bytes()
    rebuild_rows(simulated)
    spoil(path)
    assert download.download_due_files(simulated.context) == 1
    assert not path.is_symlink()
    assert path.read_bytes() == content
