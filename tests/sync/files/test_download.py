from __future__ import annotations

import hashlib
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused, StorageFull
from integration.mirror.sync_state import media_files
from integration.simulator import embed
from integration.sync.files import disk_quota, download
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync

MONITORS, VOICEMAIL = PLAN["monitors"], PLAN["voicemessages"]


def rows(rig, columns="state"):
    return rig.rows(f"SELECT {columns} FROM media ORDER BY kind, record_id")


def digest(rig, path):
    return hashlib.sha256(rig.platform.get(path).body).hexdigest()


@pytest.fixture
def one(rig):
    """One recording at the platform and in the mirror; its id."""
    made = rig.play("plain_answered")
    for number in list(rig.records("monitors")):
        if number != made["monitor_ids"][0]:
            del rig.records("monitors")[number]
    run_full_sync(rig.parts, MONITORS)
    return made["monitor_ids"][0]


def test_every_recording_and_voice_message_arrives_as_it_is(rig):
    for policy in (MONITORS, VOICEMAIL):
        run_full_sync(rig.parts, policy)
    expected = len(rig.records("monitors")) + len(rig.records("voicemessages"))
    assert download.download_due_files(rig.parts) == expected > 10
    for kind, number, path, size, sha256, state in rows(rig, "kind, record_id, path, size, sha256, state"):
        content = (rig.folder / path).read_bytes()
        assert state == "have"
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
        assert sha256 == digest(
            rig, f"/{'monitors' if kind == 'recording' else 'voicemessages'}/{number}.mp3"
        )
        if kind == "recording":
            day = rig.records("monitors")[number]["timestamp"][:10].replace("-", "/")
            assert path == f"recordings/{day}/{number}.mp3"
    assert download.download_due_files(rig.parts) == 0


@pytest.mark.parametrize(
    ("stamp", "path"),
    [
        ("2026-09-02 17:47:29", "voicemail/2026/09/02/7.mp3"),
        ("2026-09-02", "voicemail/2026/09/02/7.mp3"),
        (None, "voicemail/undated/7.mp3"),
        ("", "voicemail/undated/7.mp3"),
        (1788370049, "voicemail/undated/7.mp3"),
        ("../../../etc/passwd", "voicemail/undated/7.mp3"),
        ("2026-13-45 00:00:00", "voicemail/undated/7.mp3"),
        ("0001-01-01 00:00:00", "voicemail/0001/01/01/7.mp3"),
    ],
)
def test_paths_are_made_of_integers_only(stamp, path):
    assert media_files.relative_path("voicemail", 7, stamp) == path


@pytest.mark.parametrize(
    "fault", ["wrong-file=short", "wrong-file=html", "wrong-file=zero", "truncate", "status=500", "html"]
)
def test_a_wrong_file_is_absent_and_heals_later(rig, one, later, fault):
    rig.faults(f"{fault}@/monitors/*.mp3")
    download.download_due_files(rig.parts)
    (state, tries, error), *_ = rows(rig, "state, tries, last_error")
    assert (state, tries) == ("failed", 1)
    assert error
    assert list(rig.folder.rglob("*.mp3*")) == []
    rig.simulator.context.faults.clear()
    later(2.1)
    assert download.download_due_files(rig.parts) == 1
    path, sha256 = rows(rig, "path, sha256")[0]
    assert (
        hashlib.sha256((rig.folder / path).read_bytes()).hexdigest()
        == sha256
        == digest(rig, f"/monitors/{one}.mp3")
    )


def test_a_failed_download_is_tried_again_in_the_promised_gaps(rig, one, monkeypatch):
    # It stands meanwhile: how long a try takes is no part of the gap.
    now = [clock.unix()]
    monkeypatch.setattr(clock, "unix", lambda: now[0])
    rig.faults("wrong-file=short@/monitors/*.mp3")
    gaps = []
    for _ in range(9):
        download.download_due_files(rig.parts)
        gaps.append(round(rows(rig, "next_try_at")[0][0] - now[0]))
        now[0] += gaps[-1] + 1
    assert gaps == [2, 10, 60, 600, 3600, 21600, 86400, 86400, 86400]


def test_one_bad_file_does_not_hold_up_the_others(rig):
    run_full_sync(rig.parts, MONITORS)
    bad = rig.ids("monitors")[-1]
    rig.faults(f"status=500@/monitors/{bad}.mp3")
    assert download.download_due_files(rig.parts) == len(rig.ids("monitors")) - 1
    assert rig.rows("SELECT record_id FROM media WHERE state <> 'have'") == [(bad,)]


def test_a_platform_that_is_away_is_not_asked_for_every_file(rig):
    run_full_sync(rig.parts, MONITORS)
    rig.forget_asked()
    rig.faults("status=500@/monitors")
    with pytest.raises(PlatformError):
        download.download_due_files(rig.parts)
    assert len(rig.simulator.context.request_log) < 10
    rig.forget_asked()
    with pytest.raises(PlatformError):
        download.download_due_files(rig.parts)
    assert len(rig.simulator.context.request_log) <= download.MAX_PARALLEL_DOWNLOADS


def test_what_failed_while_the_platform_was_away_is_tried_at_once_when_it_is_back(rig, one, later):
    rig.faults("wrong-file=short@/monitors/*.mp3")
    since = clock.utc_text()
    for gap in (3, 11, 61, 601):
        download.download_due_files(rig.parts)
        later(gap)
    download.download_due_files(rig.parts)
    rig.simulator.context.faults.clear()
    assert download.download_due_files(rig.parts) == 0
    rig.mirror_db.write(lambda tx: media_files.wake(tx, since))
    assert download.download_due_files(rig.parts) == 1


def test_many_who_ask_for_the_same_file_cause_one_download(rig, one):
    rig.faults("slow=0.2@/monitors/*.mp3")
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return download.fetch(rig.parts, "recording", one)

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(ask, range(8)))
    assert len(paths) == 1
    assert rig.asked(f"/monitors/{one}.mp3") == 1
    (path,) = paths
    path.unlink()
    assert download.fetch(rig.parts, "recording", one).exists()
    assert rig.asked(f"/monitors/{one}.mp3") == 2, "no download is left that a later request would share"


def test_a_file_that_somebody_removed_or_cut_is_fetched_again(rig, one):
    path = download.fetch(rig.parts, "recording", one)
    content = path.read_bytes()
    path.unlink()
    assert download.fetch(rig.parts, "recording", one).read_bytes() == content
    path.write_bytes(content[:10])
    assert download.fetch(rig.parts, "recording", one).read_bytes() == content
    elsewhere = rig.folder / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert not download.fetch(rig.parts, "recording", one).is_symlink()


def test_a_recording_deleted_at_the_platform_is_gone_and_not_asked_for_again(rig, one, later):
    del rig.records("monitors")[one]
    download.download_due_files(rig.parts)
    assert rows(rig) == [("gone",)]
    later(10**6)
    rig.forget_asked()
    download.download_due_files(rig.parts)
    assert len(rig.simulator.context.request_log) == 0


def test_who_asks_for_a_recording_that_is_gone_does_not_wait_for_the_schedulers_turn(rig, one):
    del rig.records("monitors")[one]
    rig.platform.budget.record_failure(3600)
    pool = ThreadPoolExecutor(1)
    try:
        with pytest.raises(PlatformRefused):
            pool.submit(download.fetch, rig.parts, "recording", one).result(30)
        assert rows(rig) == [("gone",)]
    finally:
        rig.platform.close()
        pool.shutdown()


def test_a_recording_that_is_not_ready_yet_is_waited_for(rig, one, later):
    rig.faults("status=404@/monitors/*.mp3")
    download.download_due_files(rig.parts)
    assert rows(rig) == [("failed",)]
    rig.simulator.context.faults.clear()
    later(3)
    assert download.download_due_files(rig.parts) == 1


def test_a_recording_that_is_not_mirrored_is_unknown(rig):
    with pytest.raises(PlatformRefused) as caught:
        download.fetch(rig.parts, "recording", 1)
    assert caught.value.status == 404


def test_the_archive_keeps_to_its_budget(make_rig):
    simulator = embed.start(seed=3, cdrs=40)
    # Of so many bytes, each file may be the first, and there is no room for all.
    budget = max(record["size"] for record in simulator.world.collections["monitors"].records.values())
    rig = make_rig(simulator=simulator, recordings__max_gb=f"{budget / 1e9:.9f}")
    run_full_sync(rig.parts, MONITORS)
    with pytest.raises(StorageFull, match="max_gb"):
        download.download_due_files(rig.parts)
    with rig.mirror_db.read() as connection:
        assert 0 < media_files.count_stored_bytes(connection) <= budget


def test_two_gigabytes_are_left_free(rig, one, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(disk_quota.shutil, "disk_usage", lambda path: usage(10**12, 10**12, 2 * 10**9))
    rig.forget_asked()
    with pytest.raises(StorageFull, match="2 GB"):
        download.download_due_files(rig.parts)
    assert len(rig.simulator.context.request_log) == 0
    assert rows(rig) == [("wanted",)]


def test_room_is_looked_for_where_the_archive_lies(rig, one, monkeypatch):
    (rig.folder / "recordings").mkdir()
    usage, asked = namedtuple("usage", "total used free"), []

    def disk_usage(path):
        asked.append(path)
        return usage(10**12, 0, 10**12)

    monkeypatch.setattr(disk_quota.shutil, "disk_usage", disk_usage)
    assert download.download_due_files(rig.parts) == 1
    assert asked == [rig.folder / "recordings"], "which may be a disk of its own"


def test_a_disk_that_fills_up_stops_all_downloads_and_is_no_fault_of_the_file(rig, one, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("integration.platform_api.downloads.os.fsync", full)
        with pytest.raises(StorageFull, match="No space"):
            download.download_due_files(rig.parts)
    assert rows(rig, "state, tries") == [("wanted", 0)]
    assert download.download_due_files(rig.parts) == 1


@pytest.mark.parametrize("size", [0, None])
def test_what_was_fetched_while_the_platform_still_wrote_it_is_fetched_again(rig, one, size):
    record = rig.records("monitors")[one]
    true, record["size"] = record["size"], size
    run_full_sync(rig.parts, MONITORS, restart=True)
    half = rig.platform.get(f"/monitors/{one}.mp3").body[: true // 144 * 72]
    path = download.fetch(rig.parts, "recording", one)
    path.write_bytes(half)
    rig.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = ?", (len(half),)))
    rig.mirror_db.write(lambda tx: media_files.enqueue_resized(tx, "recording"))
    assert rows(rig) == [("have",)], "nobody says that it is another"
    record["size"] = true
    run_full_sync(rig.parts, MONITORS, restart=True)
    assert rows(rig) == [("wanted",)]
    assert download.download_due_files(rig.parts) == 1
    assert path.stat().st_size == true
    rig.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = 72"))
    download.prepare_downloads(rig.parts)
    assert rows(rig) == [("wanted",)], "nor is one believed that an earlier version left"


def test_sound_that_seems_cut_is_asked_for_until_it_is_believed(rig, later):
    run_full_sync(rig.parts, VOICEMAIL)
    rig.faults("wrong-file=short@/voicemessages/*.mp3")
    for tries in range(download.ACCEPT_AFTER_FAILURES):
        assert download.download_due_files(rig.parts) == 0, tries
        later(media_files.RETRY_DELAYS[tries] + 1)
    assert {state for (state,) in rows(rig)} == {"failed"}
    assert download.download_due_files(rig.parts) == len(rows(rig)) > 0


def test_what_is_switched_off_is_not_downloaded_but_can_be_asked_for(make_rig):
    rig = make_rig(recordings__download="false")
    run_full_sync(rig.parts, MONITORS)
    assert download.download_due_files(rig.parts) == 0
    assert download.fetch(rig.parts, "recording", rig.ids("monitors")[0]).is_file()


def test_leftovers_of_a_run_that_was_killed_are_swept_away(rig, one):
    path = download.fetch(rig.parts, "recording", one)
    left = path.with_name("1.mp3.part")
    left.write_bytes(b"half")
    rig.mirror_db.write(lambda tx: tx.execute("DELETE FROM media"))
    download.prepare_downloads(rig.parts)
    assert not left.exists()
    assert path.exists()
    assert rows(rig) == [("wanted",)]


def test_what_somebody_fetches_while_leftovers_are_swept_away_arrives(rig, one):
    rig.faults("drip=0.3@/monitors/*.mp3")
    arrival = download.open_file(rig.parts, "recording", one)
    download.prepare_downloads(rig.parts)
    assert arrival.wait().is_file()
    assert rows(rig) == [("have",)]


@pytest.fixture
def faxes(rig):
    """The mirrored faxes' ids."""
    run_full_sync(rig.parts, PLAN["faxes"])
    return rig.ids("faxes")


def test_faxes_are_archived_as_pdf(rig, faxes):
    assert download.download_due_files(rig.parts) == len(faxes) > 0
    for number, path, state in rig.rows("SELECT record_id, path, state FROM media WHERE kind = 'fax'"):
        assert state == "have"
        assert path.startswith("faxes/20")
        assert (rig.folder / path).read_bytes() == rig.platform.get(f"/faxes/{number}.pdf").body


def test_what_is_no_pdf_is_no_fax(rig, faxes):
    rig.faults("html@/faxes/*.pdf")
    assert download.download_due_files(rig.parts) == 0
    assert set(rig.rows("SELECT state FROM media")) == {("failed",)}
    assert not list(rig.folder.rglob("*.pdf"))


def test_a_platform_without_fax_files_is_asked_for_each_once(rig, faxes, later):
    rig.faults("status=404@/faxes/*")
    download.download_due_files(rig.parts)
    assert set(rig.rows("SELECT state FROM media")) == {("gone",)}
    later(2 * 86400)
    rig.forget_asked()
    assert download.download_due_files(rig.parts) == 0
    assert sum(rig.asked(f"/faxes/{number}.pdf") for number in faxes) == 0


def test_faxes_stay_where_they_are_if_nobody_wants_them(make_rig):
    rig = make_rig(faxes__download="false")
    run_full_sync(rig.parts, PLAN["faxes"])
    assert download.download_due_files(rig.parts) == 0
