"""Scrub: read the archive and download damaged files."""

from __future__ import annotations

import hashlib
import os

import pytest

from integration.core.commands import Progress, Unfinished
from integration.mirror.sync_state import scrub_log
from integration.sync.files import download, scrub
from integration.sync.files.scrub import SCRUB_INTERVAL_DAYS
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync

MONTH = SCRUB_INTERVAL_DAYS * 86400 + 60
DAY = 86400 + 60


@pytest.fixture
def archive(simulated):
    """Rows of `media`, by record id; each has a file."""
    simulated.keep_recordings(scrub.MAX_MISSING_IN_SAMPLE + 1)
    run_full_sync(simulated.context, PLAN["monitors"])
    download.download_due_files(simulated.context)
    return files(simulated)


def files(simulated):
    return {
        row[0]: row[1:]
        for row in simulated.rows("SELECT record_id, path, sha256, state, last_error FROM media")
    }


def damage(simulated, path):
    content = bytearray((simulated.data_dir / path).read_bytes())
    content[100] ^= 1
    (simulated.data_dir / path).write_bytes(content)


def is_archive_intact(simulated):
    return all(
        hashlib.sha256((simulated.data_dir / path).read_bytes()).hexdigest() == sha256
        for path, sha256, *_ in files(simulated).values()
    )


def verify(simulated, should_continue=lambda: True, **arguments):
    return scrub.verify_archive(simulated.context, arguments, Progress(lambda _: None, should_continue))


def test_no_file_is_read_before_the_interval_has_passed(simulated, archive):
    damage(simulated, next(iter(archive.values()))[0])
    assert scrub.scrub_due_files(simulated.context) == 0


def test_every_file_is_read_once_per_interval_and_damaged_files_are_downloaded(
    simulated, archive, movable_clock, monkeypatch
):
    flipped, cut, removed, *_ = archive
    damage(simulated, archive[flipped][0])
    os.truncate(simulated.data_dir / archive[cut][0], 10)
    (simulated.data_dir / archive[removed][0]).unlink()
    # An interval of a month would exceed the lifetime of an unused key of the platform.
    monkeypatch.setattr(scrub, "SCRUB_INTERVAL_DAYS", 1)
    movable_clock.advance(DAY)
    assert scrub.scrub_due_files(simulated.context) == 3
    damaged = {number for number, row in files(simulated).items() if row[2] == "wanted"}
    assert damaged == {flipped, cut, removed}
    assert "sha256" in files(simulated)[flipped][3]
    assert download.download_due_files(simulated.context) == 3
    assert is_archive_intact(simulated)
    assert scrub.scrub_due_files(simulated.context) == 0
    with simulated.mirror_db.read() as connection:
        archive_state = scrub_log.get_archive_state(connection)
    assert {file.record_id for file in archive_state.damaged_files} == damaged
    assert {file.state for file in archive_state.damaged_files} == {"have"}


def test_a_run_reads_a_limited_amount_and_the_next_run_continues(
    simulated, archive, movable_clock, monkeypatch
):
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 1)
    movable_clock.advance(MONTH)
    read_files = "SELECT count(*) FROM media WHERE checked_at > updated_at"
    for number in range(3):
        scrub.scrub_due_files(simulated.context)
        assert simulated.rows(read_files) == [(number + 1,)]
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 10**9)
    scrub.scrub_due_files(simulated.context)
    assert simulated.rows(read_files) == [(len(archive),)]
    with simulated.mirror_db.read() as connection:
        assert scrub_log.due(connection, "2000-01-01 00:00:00", 10) == []


def test_a_damaged_file_deleted_on_the_platform_is_kept_and_reported(simulated, archive):
    number = next(iter(archive))
    damage(simulated, archive[number][0])
    del simulated.records("monitors")[number]
    (damaged,) = verify(simulated)["damaged"]
    assert not damaged["healed"]
    assert damaged["error"]
    assert (simulated.data_dir / archive[number][0]).is_file()
    assert files(simulated)[number][2] == "gone"


def test_an_interrupted_verification_resumes_with_its_arguments(simulated, archive):
    steps = iter([True] * 3)
    with pytest.raises(Unfinished) as early:
        verify(simulated, lambda: next(steps, False))
    left = early.value.arguments
    assert 0 < left["files"] < len(archive)
    assert verify(simulated, **left)["files"] == len(archive)


@pytest.fixture
def disk(simulated, archive):
    """`disk(False)` unmounts the disk of the archive, `disk(True)` mounts it."""
    mounted, unmounted = simulated.data_dir / "recordings", simulated.data_dir / "elsewhere"

    def disk(present):
        (unmounted if present else mounted).rename(mounted if present else unmounted)

    return disk


def get_health_error(simulated):
    return simulated.context.health.report()["checks"].get(scrub.HEALTH_CHECK, {}).get("error")


def test_an_unmounted_disk_is_reported_and_no_file_is_downloaded(simulated, archive, movable_clock, disk):
    assert len(archive) > scrub.MAX_MISSING_IN_SAMPLE
    movable_clock.advance(DAY)
    disk(False)
    assert scrub.scrub_due_files(simulated.context) == 0
    assert "Check that the disk of the archive is mounted." in get_health_error(simulated)
    assert {row[2] for row in files(simulated).values()} == {"have"}
    disk(True)
    assert scrub.scrub_due_files(simulated.context) == 0
    assert get_health_error(simulated) is None


def test_files_of_a_remounted_disk_are_not_downloaded(simulated, archive, disk):
    keys = list(archive)
    removed, damaged = keys[0], keys[1]
    del simulated.records("monitors")[removed]
    disk(False)
    simulated.faults("status=404@/monitors/*.mp3")
    assert not any(file["healed"] for file in verify(simulated)["damaged"]), (
        "a file is healed while its disk is unmounted"
    )
    assert files(simulated)[removed][2] == "gone"
    disk(True)
    simulated.faults("")
    simulated.clear_requests()
    damage(simulated, archive[damaged][0])
    scrub.scrub_due_files(simulated.context)
    assert files(simulated)[removed][2] == "have"
    for number in keys[1:]:
        download.fetch(simulated.context, "recording", number)
    assert [number for number in keys if simulated.count_requests(f"/monitors/{number}.mp3")] == [damaged]
    assert is_archive_intact(simulated)
    assert {row[2] for row in files(simulated).values()} == {"have"}
