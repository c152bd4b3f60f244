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


def rows(simulated, columns="state"):
    return simulated.rows(f"SELECT {columns} FROM media ORDER BY kind, record_id")


def digest(simulated, path):
    return hashlib.sha256(simulated.context.platform.get(path).body).hexdigest()


@pytest.fixture
def one(simulated):
    """One recording at the platform and in the mirror; its id."""
    made = simulated.play("plain_answered")
    for number in list(simulated.records("monitors")):
        if number != made["monitor_ids"][0]:
            del simulated.records("monitors")[number]
    run_full_sync(simulated.context, MONITORS)
    return made["monitor_ids"][0]


def test_every_recording_and_voice_message_arrives_as_it_is(simulated):
    for policy in (MONITORS, VOICEMAIL):
        run_full_sync(simulated.context, policy)
    expected = len(simulated.records("monitors")) + len(simulated.records("voicemessages"))
    assert download.download_due_files(simulated.context) == expected > 10
    for kind, number, path, size, sha256, state in rows(
        simulated, "kind, record_id, path, size, sha256, state"
    ):
        content = (simulated.data_dir / path).read_bytes()
        assert state == "have"
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
        assert sha256 == digest(
            simulated, f"/{'monitors' if kind == 'recording' else 'voicemessages'}/{number}.mp3"
        )
        if kind == "recording":
            day = simulated.records("monitors")[number]["timestamp"][:10].replace("-", "/")
            assert path == f"recordings/{day}/{number}.mp3"
    assert download.download_due_files(simulated.context) == 0


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
def test_a_wrong_file_is_absent_and_heals_later(simulated, one, movable_clock, fault):
    simulated.faults(f"{fault}@/monitors/*.mp3")
    download.download_due_files(simulated.context)
    (state, tries, error), *_ = rows(simulated, "state, tries, last_error")
    assert (state, tries) == ("failed", 1)
    assert error
    assert list(simulated.data_dir.rglob("*.mp3*")) == []
    simulated.simulator.context.faults.clear()
    movable_clock.advance(2.1)
    assert download.download_due_files(simulated.context) == 1
    path, sha256 = rows(simulated, "path, sha256")[0]
    assert (
        hashlib.sha256((simulated.data_dir / path).read_bytes()).hexdigest()
        == sha256
        == digest(simulated, f"/monitors/{one}.mp3")
    )


def test_a_failed_download_is_tried_again_in_the_promised_gaps(simulated, one, monkeypatch):
    # It stands meanwhile: how long a try takes is no part of the gap.
    now = [clock.unix()]
    monkeypatch.setattr(clock, "unix", lambda: now[0])
    simulated.faults("wrong-file=short@/monitors/*.mp3")
    gaps = []
    for _ in range(9):
        download.download_due_files(simulated.context)
        gaps.append(round(rows(simulated, "next_try_at")[0][0] - now[0]))
        now[0] += gaps[-1] + 1
    assert gaps == [2, 10, 60, 600, 3600, 21600, 86400, 86400, 86400]


def test_one_bad_file_does_not_hold_up_the_others(simulated):
    run_full_sync(simulated.context, MONITORS)
    bad = simulated.ids("monitors")[-1]
    simulated.faults(f"status=500@/monitors/{bad}.mp3")
    assert download.download_due_files(simulated.context) == len(simulated.ids("monitors")) - 1
    assert simulated.rows("SELECT record_id FROM media WHERE state <> 'have'") == [(bad,)]


def test_a_platform_that_is_away_is_not_asked_for_every_file(simulated):
    run_full_sync(simulated.context, MONITORS)
    simulated.clear_requests()
    simulated.faults("status=500@/monitors")
    with pytest.raises(PlatformError):
        download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) < 10
    simulated.clear_requests()
    with pytest.raises(PlatformError):
        download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) <= download.MAX_PARALLEL_DOWNLOADS


def test_what_failed_while_the_platform_was_away_is_tried_at_once_when_it_is_back(
    simulated, one, movable_clock
):
    simulated.faults("wrong-file=short@/monitors/*.mp3")
    since = clock.utc_text()
    for gap in (3, 11, 61, 601):
        download.download_due_files(simulated.context)
        movable_clock.advance(gap)
    download.download_due_files(simulated.context)
    simulated.simulator.context.faults.clear()
    assert download.download_due_files(simulated.context) == 0
    simulated.mirror_db.write(lambda tx: media_files.wake(tx, since))
    assert download.download_due_files(simulated.context) == 1


def test_many_who_ask_for_the_same_file_cause_one_download(simulated, one):
    simulated.faults("slow=0.2@/monitors/*.mp3")
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return download.fetch(simulated.context, "recording", one)

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(ask, range(8)))
    assert len(paths) == 1
    assert simulated.count_requests(f"/monitors/{one}.mp3") == 1
    (path,) = paths
    path.unlink()
    assert download.fetch(simulated.context, "recording", one).exists()
    assert simulated.count_requests(f"/monitors/{one}.mp3") == 2, (
        "no download is left that a later request would share"
    )


def test_a_file_that_somebody_removed_or_cut_is_fetched_again(simulated, one):
    path = download.fetch(simulated.context, "recording", one)
    content = path.read_bytes()
    path.unlink()
    assert download.fetch(simulated.context, "recording", one).read_bytes() == content
    path.write_bytes(content[:10])
    assert download.fetch(simulated.context, "recording", one).read_bytes() == content
    elsewhere = simulated.data_dir / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert not download.fetch(simulated.context, "recording", one).is_symlink()


def test_a_recording_deleted_at_the_platform_is_gone_and_not_asked_for_again(simulated, one, movable_clock):
    del simulated.records("monitors")[one]
    download.download_due_files(simulated.context)
    assert rows(simulated) == [("gone",)]
    movable_clock.advance(10**6)
    simulated.clear_requests()
    download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) == 0


def test_who_asks_for_a_recording_that_is_gone_does_not_wait_for_the_schedulers_turn(simulated, one):
    del simulated.records("monitors")[one]
    simulated.context.platform.budget.record_failure(3600)
    pool = ThreadPoolExecutor(1)
    try:
        with pytest.raises(PlatformRefused):
            pool.submit(download.fetch, simulated.context, "recording", one).result(30)
        assert rows(simulated) == [("gone",)]
    finally:
        simulated.context.platform.close()
        pool.shutdown()


def test_a_recording_that_is_not_ready_yet_is_waited_for(simulated, one, movable_clock):
    simulated.faults("status=404@/monitors/*.mp3")
    download.download_due_files(simulated.context)
    assert rows(simulated) == [("failed",)]
    simulated.simulator.context.faults.clear()
    movable_clock.advance(3)
    assert download.download_due_files(simulated.context) == 1


def test_a_recording_that_is_not_mirrored_is_unknown(simulated):
    with pytest.raises(PlatformRefused) as caught:
        download.fetch(simulated.context, "recording", 1)
    assert caught.value.status == 404


def test_the_archive_keeps_to_its_budget(make_simulated):
    simulator = embed.start(seed=3, cdrs=40)
    # Of so many bytes, each file may be the first, and there is no room for all.
    budget = max(record["size"] for record in simulator.world.collections["monitors"].records.values())
    simulated = make_simulated(simulator=simulator, recordings__max_gb=f"{budget / 1e9:.9f}")
    run_full_sync(simulated.context, MONITORS)
    with pytest.raises(StorageFull, match="max_gb"):
        download.download_due_files(simulated.context)
    with simulated.mirror_db.read() as connection:
        assert 0 < media_files.count_stored_bytes(connection) <= budget


def test_two_gigabytes_are_left_free(simulated, one, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(disk_quota.shutil, "disk_usage", lambda path: usage(10**12, 10**12, 2 * 10**9))
    simulated.clear_requests()
    with pytest.raises(StorageFull, match="2 GB"):
        download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) == 0
    assert rows(simulated) == [("wanted",)]


def test_room_is_looked_for_where_the_archive_lies(simulated, one, monkeypatch):
    (simulated.data_dir / "recordings").mkdir()
    usage, asked = namedtuple("usage", "total used free"), []

    def disk_usage(path):
        asked.append(path)
        return usage(10**12, 0, 10**12)

    monkeypatch.setattr(disk_quota.shutil, "disk_usage", disk_usage)
    assert download.download_due_files(simulated.context) == 1
    assert asked == [simulated.data_dir / "recordings"], "which may be a disk of its own"


def test_a_disk_that_fills_up_stops_all_downloads_and_is_no_fault_of_the_file(simulated, one, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("integration.platform_api.downloads.os.fsync", full)
        with pytest.raises(StorageFull, match="No space"):
            download.download_due_files(simulated.context)
    assert rows(simulated, "state, tries") == [("wanted", 0)]
    assert download.download_due_files(simulated.context) == 1


@pytest.mark.parametrize("size", [0, None])
def test_what_was_fetched_while_the_platform_still_wrote_it_is_fetched_again(simulated, one, size):
    record = simulated.records("monitors")[one]
    true, record["size"] = record["size"], size
    run_full_sync(simulated.context, MONITORS, restart=True)
    half = simulated.context.platform.get(f"/monitors/{one}.mp3").body[: true // 144 * 72]
    path = download.fetch(simulated.context, "recording", one)
    path.write_bytes(half)
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = ?", (len(half),)))
    simulated.mirror_db.write(lambda tx: media_files.enqueue_resized(tx, "recording"))
    assert rows(simulated) == [("have",)], "nobody says that it is another"
    record["size"] = true
    run_full_sync(simulated.context, MONITORS, restart=True)
    assert rows(simulated) == [("wanted",)]
    assert download.download_due_files(simulated.context) == 1
    assert path.stat().st_size == true
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = 72"))
    download.prepare_downloads(simulated.context)
    assert rows(simulated) == [("wanted",)], "nor is one believed that an earlier version left"


def test_a_voicemail_without_a_length_that_seems_cut_is_retried_before_it_is_accepted(
    simulated, movable_clock
):
    run_full_sync(simulated.context, VOICEMAIL)
    simulated.faults("no-length@/voicemessages/*.mp3")
    for tries in range(download.ACCEPT_AFTER_FAILURES):
        assert download.download_due_files(simulated.context) == 0, tries
        movable_clock.advance(media_files.RETRY_DELAYS[tries] + 1)
    assert {state for (state,) in rows(simulated)} == {"failed"}
    assert download.download_due_files(simulated.context) == len(rows(simulated)) > 0


def test_a_complete_voicemail_that_seems_cut_is_archived_at_once_with_a_doubt(simulated):
    run_full_sync(simulated.context, VOICEMAIL)
    simulated.faults("wrong-file=short@/voicemessages/*.mp3")
    assert download.download_due_files(simulated.context) == len(simulated.records("voicemessages")) > 0
    for state, tries, doubt in rows(simulated, "state, tries, last_error"):
        assert (state, tries) == ("have", 1)
        assert doubt.startswith(("the file seems to be cut", "it lasts"))


def test_what_is_switched_off_is_not_downloaded_but_can_be_asked_for(make_simulated):
    simulated = make_simulated(recordings__download="false")
    run_full_sync(simulated.context, MONITORS)
    assert download.download_due_files(simulated.context) == 0
    assert download.fetch(simulated.context, "recording", simulated.ids("monitors")[0]).is_file()


def test_leftovers_of_a_run_that_was_killed_are_swept_away(simulated, one):
    path = download.fetch(simulated.context, "recording", one)
    left = path.with_name("1.mp3.part")
    left.write_bytes(b"half")
    simulated.mirror_db.write(lambda tx: tx.execute("DELETE FROM media"))
    download.prepare_downloads(simulated.context)
    assert not left.exists()
    assert path.exists()
    assert rows(simulated) == [("wanted",)]


def test_what_somebody_fetches_while_leftovers_are_swept_away_arrives(simulated, one):
    simulated.faults("drip=0.3@/monitors/*.mp3")
    arrival = download.open_file(simulated.context, "recording", one)
    download.prepare_downloads(simulated.context)
    assert arrival.wait().is_file()
    assert rows(simulated) == [("have",)]


@pytest.fixture
def faxes(simulated):
    """The mirrored faxes' ids."""
    run_full_sync(simulated.context, PLAN["faxes"])
    return simulated.ids("faxes")


def test_faxes_are_archived_as_pdf(simulated, faxes):
    assert download.download_due_files(simulated.context) == len(faxes) > 0
    for number, path, state in simulated.rows("SELECT record_id, path, state FROM media WHERE kind = 'fax'"):
        assert state == "have"
        assert path.startswith("faxes/20")
        assert (simulated.data_dir / path).read_bytes() == simulated.context.platform.get(
            f"/faxes/{number}.pdf"
        ).body


def test_what_is_no_pdf_is_no_fax(simulated, faxes):
    simulated.faults("html@/faxes/*.pdf")
    assert download.download_due_files(simulated.context) == 0
    assert set(simulated.rows("SELECT state FROM media")) == {("failed",)}
    assert not list(simulated.data_dir.rglob("*.pdf"))


def test_a_platform_without_fax_files_is_asked_for_each_once(simulated, faxes, movable_clock):
    simulated.faults("status=404@/faxes/*")
    download.download_due_files(simulated.context)
    assert set(simulated.rows("SELECT state FROM media")) == {("gone",)}
    movable_clock.advance(2 * 86400)
    simulated.clear_requests()
    assert download.download_due_files(simulated.context) == 0
    assert sum(simulated.count_requests(f"/faxes/{number}.pdf") for number in faxes) == 0


def test_faxes_stay_where_they_are_if_nobody_wants_them(make_simulated):
    simulated = make_simulated(faxes__download="false")
    run_full_sync(simulated.context, PLAN["faxes"])
    assert download.download_due_files(simulated.context) == 0
