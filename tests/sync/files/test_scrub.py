"""The archive is read again, and what is damaged is fetched again."""

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
    """Rows of `media`, each with a file."""
    run_full_sync(simulated.context, PLAN["monitors"])
    download.download_due_files(simulated.context)
    return files(simulated)


def files(simulated):
    return {
        row[0]: row[1:]
        for row in simulated.rows("SELECT record_id, path, sha256, state, last_error FROM media")
    }


def spoil(simulated, path):
    content = bytearray((simulated.data_dir / path).read_bytes())
    content[100] ^= 1
    (simulated.data_dir / path).write_bytes(content)


def sound(simulated):
    return all(
        hashlib.sha256((simulated.data_dir / path).read_bytes()).hexdigest() == sha256
        for path, sha256, *_ in files(simulated).values()
    )


def verify(simulated, wanted=lambda: True, **arguments):
    return scrub.verify_archive(simulated.context, arguments, Progress(lambda _: None, wanted))


def test_nothing_is_read_before_its_time(simulated, archive):
    spoil(simulated, next(iter(archive.values()))[0])
    assert scrub.scrub_due_files(simulated.context) == 0


def test_every_file_is_read_once_a_month_and_a_damaged_one_is_wanted_again(
    simulated, archive, movable_clock, monkeypatch
):
    flipped, cut, gone, *_ = archive
    spoil(simulated, archive[flipped][0])
    os.truncate(simulated.data_dir / archive[cut][0], 10)
    (simulated.data_dir / archive[gone][0]).unlink()
    # A day is enough here: the platform lets a key die that nobody used for a month.
    monkeypatch.setattr(scrub, "SCRUB_INTERVAL_DAYS", 1)
    movable_clock.advance(DAY)
    assert scrub.scrub_due_files(simulated.context) == 3
    wanted = {number for number, row in files(simulated).items() if row[2] == "wanted"}
    assert wanted == {flipped, cut, gone}
    assert "sha256" in files(simulated)[flipped][3]
    assert download.download_due_files(simulated.context) == 3
    assert sound(simulated)
    assert scrub.scrub_due_files(simulated.context) == 0
    with simulated.mirror_db.read() as connection:
        told = scrub_log.get_archive_state(connection)
    assert {one.record_id for one in told.damaged_files} == wanted
    assert {one.state for one in told.damaged_files} == {"have"}


def test_one_run_reads_so_much_and_the_next_goes_on(simulated, archive, movable_clock, monkeypatch):
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 1)
    movable_clock.advance(MONTH)
    read_again = (
        "SELECT count(*) FROM _checks JOIN media USING (kind, record_id) WHERE checked_at > updated_at"
    )
    for number in range(3):
        scrub.scrub_due_files(simulated.context)
        assert simulated.rows(read_again) == [(number + 1,)]
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 10**9)
    scrub.scrub_due_files(simulated.context)
    assert simulated.rows(read_again) == [(len(archive),)]
    with simulated.mirror_db.read() as connection:
        assert scrub_log.due(connection, "2000-01-01 00:00:00", 10) == []


def test_what_the_platform_has_no_longer_stays_and_is_told(simulated, archive):
    number = next(iter(archive))
    spoil(simulated, archive[number][0])
    del simulated.records("monitors")[number]
    (damaged,) = verify(simulated)["damaged"]
    assert not damaged["healed"]
    assert damaged["error"]
    assert (simulated.data_dir / archive[number][0]).is_file()
    assert files(simulated)[number][2] == "gone"


def test_on_demand_all_are_read_and_healed_at_once(simulated, archive):
    number = sorted(archive)[2]
    spoil(simulated, archive[number][0])
    result = verify(simulated)
    assert result["files"] == len(archive)
    assert result["damaged"] == [
        {
            "path": archive[number][0],
            "finding": "has other content than what was downloaded (sha256 differs)",
            "healed": True,
            "error": None,
        }
    ]
    assert sound(simulated)
    assert verify(simulated)["damaged"] == []


def test_a_file_replaced_meanwhile_is_left_alone(simulated, archive):
    number = next(iter(archive))
    with simulated.mirror_db.read() as connection:
        (file,) = [one for one in scrub_log.list_after(connection, "", 0, 100) if one.record_id == number]
    simulated.mirror_db.write(
        lambda tx: tx.execute("UPDATE media SET sha256 = 'other' WHERE record_id = ?", (number,)) and None
    )
    assert not simulated.mirror_db.write(lambda tx: scrub_log.mark_damaged(tx, file, "is missing"))
    assert files(simulated)[number][2] == "have"


def test_it_goes_on_elsewhere_where_it_was(simulated, archive):
    asked = iter([True] * 3)
    with pytest.raises(Unfinished) as early:
        verify(simulated, lambda: next(asked, False))
    left = early.value.arguments
    assert 0 < left["files"] < len(archive)
    assert verify(simulated, **left)["files"] == len(archive)


@pytest.fixture
def disk(simulated, archive):
    """`disk(False)`: the archive's disk is away; `disk(True)`: it is back."""
    there, away = simulated.data_dir / "recordings", simulated.data_dir / "elsewhere"

    def disk(present):
        (away if present else there).rename(there if present else away)

    return disk


def alarm(simulated):
    return simulated.context.health.report()["checks"].get(scrub.HEALTH_CHECK, {}).get("error")


def test_a_disk_that_is_away_is_told_and_nothing_is_fetched_in_its_place(
    simulated, archive, movable_clock, disk
):
    assert len(archive) > scrub.MAX_MISSING_IN_SAMPLE
    movable_clock.advance(DAY)
    disk(False)
    assert scrub.scrub_due_files(simulated.context) == 0
    assert "Check that the disk of the archive is mounted." in alarm(simulated)
    assert {row[2] for row in files(simulated).values()} == {"have"}
    disk(True)
    assert scrub.scrub_due_files(simulated.context) == 0
    assert alarm(simulated) is None


def test_what_is_back_is_not_fetched_again(simulated, archive, disk):
    keys = list(archive)
    gone, spoilt = keys[0], keys[1]
    del simulated.records("monitors")[gone]
    disk(False)
    simulated.faults("status=404@/monitors/*.mp3")
    assert not any(one["healed"] for one in verify(simulated)["damaged"]), "somebody asked for it too early"
    assert files(simulated)[gone][2] == "gone"
    disk(True)
    simulated.faults("")
    simulated.clear_requests()
    spoil(simulated, archive[spoilt][0])
    scrub.scrub_due_files(simulated.context)
    assert files(simulated)[gone][2] == "have"
    for number in keys[1:]:
        download.fetch(simulated.context, "recording", number)
    assert [number for number in keys if simulated.count_requests(f"/monitors/{number}.mp3")] == [spoilt]
    assert sound(simulated)
    assert {row[2] for row in files(simulated).values()} == {"have"}
