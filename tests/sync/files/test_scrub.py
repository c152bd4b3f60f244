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
def archive(rig):
    """Rows of `media`, each with a file."""
    run_full_sync(rig.parts, PLAN["monitors"])
    download.download_due_files(rig.parts)
    return files(rig)


def files(rig):
    return {
        row[0]: row[1:] for row in rig.rows("SELECT record_id, path, sha256, state, last_error FROM media")
    }


def spoil(rig, path):
    content = bytearray((rig.folder / path).read_bytes())
    content[100] ^= 1
    (rig.folder / path).write_bytes(content)


def sound(rig):
    return all(
        hashlib.sha256((rig.folder / path).read_bytes()).hexdigest() == sha256
        for path, sha256, *_ in files(rig).values()
    )


def verify(rig, wanted=lambda: True, **arguments):
    return scrub.verify_archive(rig.parts, arguments, Progress(lambda _: None, wanted))


def test_nothing_is_read_before_its_time(rig, archive):
    spoil(rig, next(iter(archive.values()))[0])
    assert scrub.scrub_due_files(rig.parts) == 0


def test_every_file_is_read_once_a_month_and_a_damaged_one_is_wanted_again(rig, archive, later, monkeypatch):
    flipped, cut, gone, *_ = archive
    spoil(rig, archive[flipped][0])
    os.truncate(rig.folder / archive[cut][0], 10)
    (rig.folder / archive[gone][0]).unlink()
    # A day is enough here: the platform lets a key die that nobody used for a month.
    monkeypatch.setattr(scrub, "SCRUB_INTERVAL_DAYS", 1)
    later(DAY)
    assert scrub.scrub_due_files(rig.parts) == 3
    wanted = {number for number, row in files(rig).items() if row[2] == "wanted"}
    assert wanted == {flipped, cut, gone}
    assert "sha256" in files(rig)[flipped][3]
    assert download.download_due_files(rig.parts) == 3
    assert sound(rig)
    assert scrub.scrub_due_files(rig.parts) == 0
    with rig.mirror_db.read() as connection:
        told = scrub_log.get_archive_state(connection)
    assert {one.record_id for one in told.damaged_files} == wanted
    assert {one.state for one in told.damaged_files} == {"have"}


def test_one_run_reads_so_much_and_the_next_goes_on(rig, archive, later, monkeypatch):
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 1)
    later(MONTH)
    read_again = (
        "SELECT count(*) FROM _checks JOIN media USING (kind, record_id) WHERE checked_at > updated_at"
    )
    for number in range(3):
        scrub.scrub_due_files(rig.parts)
        assert rig.rows(read_again) == [(number + 1,)]
    monkeypatch.setattr(scrub, "MAX_BYTES_PER_RUN", 10**9)
    scrub.scrub_due_files(rig.parts)
    assert rig.rows(read_again) == [(len(archive),)]
    with rig.mirror_db.read() as connection:
        assert scrub_log.due(connection, "2000-01-01 00:00:00", 10) == []


def test_what_the_platform_has_no_longer_stays_and_is_told(rig, archive):
    number = next(iter(archive))
    spoil(rig, archive[number][0])
    del rig.records("monitors")[number]
    (damaged,) = verify(rig)["damaged"]
    assert not damaged["healed"]
    assert damaged["error"]
    assert (rig.folder / archive[number][0]).is_file()
    assert files(rig)[number][2] == "gone"


def test_on_demand_all_are_read_and_healed_at_once(rig, archive):
    number = sorted(archive)[2]
    spoil(rig, archive[number][0])
    result = verify(rig)
    assert result["files"] == len(archive)
    assert result["damaged"] == [
        {
            "path": archive[number][0],
            "finding": "has other content than what was downloaded (sha256 differs)",
            "healed": True,
            "error": None,
        }
    ]
    assert sound(rig)
    assert verify(rig)["damaged"] == []


def test_a_file_replaced_meanwhile_is_left_alone(rig, archive):
    number = next(iter(archive))
    with rig.mirror_db.read() as connection:
        (file,) = [one for one in scrub_log.list_after(connection, "", 0, 100) if one.record_id == number]
    rig.mirror_db.write(
        lambda tx: tx.execute("UPDATE media SET sha256 = 'other' WHERE record_id = ?", (number,)) and None
    )
    assert not rig.mirror_db.write(lambda tx: scrub_log.mark_damaged(tx, file, "is missing"))
    assert files(rig)[number][2] == "have"


def test_it_goes_on_elsewhere_where_it_was(rig, archive):
    asked = iter([True] * 3)
    with pytest.raises(Unfinished) as early:
        verify(rig, lambda: next(asked, False))
    left = early.value.arguments
    assert 0 < left["files"] < len(archive)
    assert verify(rig, **left)["files"] == len(archive)


@pytest.fixture
def disk(rig, archive):
    """`disk(False)`: the archive's disk is away; `disk(True)`: it is back."""
    there, away = rig.folder / "recordings", rig.folder / "elsewhere"

    def disk(present):
        (away if present else there).rename(there if present else away)

    return disk


def alarm(rig):
    return rig.health.report()["checks"].get(scrub.HEALTH_CHECK, {}).get("error")


def test_a_disk_that_is_away_is_told_and_nothing_is_fetched_in_its_place(rig, archive, later, disk):
    assert len(archive) > scrub.MAX_MISSING_IN_SAMPLE
    later(DAY)
    disk(False)
    assert scrub.scrub_due_files(rig.parts) == 0
    assert "is the archive's disk there?" in alarm(rig)
    assert {row[2] for row in files(rig).values()} == {"have"}
    disk(True)
    assert scrub.scrub_due_files(rig.parts) == 0
    assert alarm(rig) is None


def test_what_is_back_is_not_fetched_again(rig, archive, disk):
    keys = list(archive)
    gone, spoilt = keys[0], keys[1]
    del rig.records("monitors")[gone]
    disk(False)
    rig.faults("status=404@/monitors/*.mp3")
    assert not any(one["healed"] for one in verify(rig)["damaged"]), "somebody asked for it too early"
    assert files(rig)[gone][2] == "gone"
    disk(True)
    rig.faults("")
    rig.forget_asked()
    spoil(rig, archive[spoilt][0])
    scrub.scrub_due_files(rig.parts)
    assert files(rig)[gone][2] == "have"
    for number in keys[1:]:
        download.fetch(rig.parts, "recording", number)
    assert [number for number in keys if rig.asked(f"/monitors/{number}.mp3")] == [spoilt]
    assert sound(rig)
    assert {row[2] for row in files(rig).values()} == {"have"}
