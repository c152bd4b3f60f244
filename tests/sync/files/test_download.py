from __future__ import annotations

import hashlib
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core import clock, retry_delays
from integration.core.errors import PlatformError, PlatformRefused, StorageFull
from integration.mirror.sync_state import media_files
from integration.simulator import embed
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync

MONITORS, VOICEMAIL = PLAN["monitors"], PLAN["voicemessages"]


def rows(simulated, columns="state"):
    return simulated.rows(f"SELECT {columns} FROM media ORDER BY kind, record_id")


def digest(simulated, path):
    return hashlib.sha256(simulated.context.platform.get(path).body).hexdigest()


def test_every_recording_and_voicemail_is_stored_unchanged(simulated):
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
def test_a_path_consists_of_integers(stamp, path):
    assert media_files.relative_path("voicemail", 7, stamp) == path


@pytest.mark.parametrize(
    "fault",
    [
        "wrong-file=short",
        "wrong-file=html",
        "wrong-file=zero",
        "truncate",
        "status=404",
        "status=500",
        "html",
    ],
)
def test_a_wrong_file_is_not_stored_and_downloaded_later(simulated, recording, movable_clock, fault):
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
        == digest(simulated, f"/monitors/{recording}.mp3")
    )


def test_a_failed_download_is_retried_with_growing_gaps(simulated, recording, movable_clock):
    # The duration of a try must not count as part of the gap.
    movable_clock.freeze()
    simulated.faults("wrong-file=short@/monitors/*.mp3")
    gaps = []
    for _ in range(9):
        download.download_due_files(simulated.context)
        gaps.append(round(rows(simulated, "next_try_at")[0][0] - clock.unix()))
        movable_clock.advance(gaps[-1] + 1)
    assert gaps == [2, 10, 60, 600, 3600, 21600, 86400, 86400, 86400]


def test_a_failed_file_does_not_block_others(simulated):
    run_full_sync(simulated.context, MONITORS)
    bad = simulated.ids("monitors")[-1]
    simulated.faults(f"status=500@/monitors/{bad}.mp3")
    assert download.download_due_files(simulated.context) == len(simulated.ids("monitors")) - 1
    assert simulated.rows("SELECT record_id FROM media WHERE state <> 'have'") == [(bad,)]


def test_during_an_outage_only_a_few_files_are_requested(simulated):
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


def test_downloads_that_failed_during_an_outage_are_retried_after_it(simulated, recording, movable_clock):
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


def test_concurrent_requests_share_one_download(simulated, recording):
    simulated.faults("slow=0.2@/monitors/*.mp3")
    barrier = threading.Barrier(8)

    def fetch(_):
        barrier.wait()
        return download.fetch(simulated.context, "recording", recording)

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(fetch, range(8)))
    assert len(paths) == 1
    assert simulated.count_requests(f"/monitors/{recording}.mp3") == 1
    (path,) = paths
    path.unlink()
    assert download.fetch(simulated.context, "recording", recording).exists()
    assert simulated.count_requests(f"/monitors/{recording}.mp3") == 2, (
        "the later request has shared the ended download"
    )


@pytest.mark.parametrize("request_file", [download.fetch, download.open_file])
def test_a_request_for_a_user_does_not_wait_for_the_pause_of_a_background_download(
    simulated, recording, monkeypatch, request_file
):
    budget, has_registered = simulated.context.platform.budget, threading.Event()
    wait_for_turn = budget.turn

    def turn(*arguments):
        has_registered.set()
        return wait_for_turn(*arguments)

    monkeypatch.setattr(budget, "turn", turn)
    budget.record_failure(retry_after=3600)
    with ThreadPoolExecutor(2) as pool:
        background = pool.submit(download.download_due_files, simulated.context)
        assert has_registered.wait(30)
        try:
            pool.submit(request_file, simulated.context, "recording", recording).result(30)
            assert background.result(30) == 1
        finally:
            simulated.context.platform.close()
    assert rows(simulated) == [("have",)]
    assert simulated.count_requests(f"/monitors/{recording}.mp3") == 1


def test_a_removed_truncated_or_linked_file_is_downloaded(simulated, recording):
    path = download.fetch(simulated.context, "recording", recording)
    content = path.read_bytes()
    path.unlink()
    assert download.fetch(simulated.context, "recording", recording).read_bytes() == content
    path.write_bytes(content[:10])
    assert download.fetch(simulated.context, "recording", recording).read_bytes() == content
    elsewhere = simulated.data_dir / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert not download.fetch(simulated.context, "recording", recording).is_symlink()


def test_a_recording_deleted_on_the_platform_is_requested_once(simulated, recording, movable_clock):
    del simulated.records("monitors")[recording]
    download.download_due_files(simulated.context)
    assert rows(simulated) == [("gone",)]
    movable_clock.advance(10**6)
    simulated.clear_requests()
    download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) == 0


def test_a_recording_that_is_not_mirrored_is_a_404(simulated):
    with pytest.raises(PlatformRefused) as caught:
        download.fetch(simulated.context, "recording", 1)
    assert caught.value.status == 404


def test_the_archive_stays_within_max_gb(make_simulated):
    simulator = embed.start(seed=3, cdrs=40)
    # Room for any one file, but not for all files.
    budget = max(record["size"] for record in simulator.world.collections["monitors"].records.values())
    simulated = make_simulated(simulator=simulator, recordings__max_gb=f"{budget / 1e9:.9f}")
    run_full_sync(simulated.context, MONITORS)
    with pytest.raises(StorageFull, match="max_gb"):
        download.download_due_files(simulated.context)
    with simulated.mirror_db.read() as connection:
        assert 0 < media_files.count_stored_bytes(connection) <= budget


def test_no_download_starts_below_two_gigabytes_of_free_space(simulated, recording, monkeypatch):
    usage = namedtuple("usage", "total used free")
    (simulated.data_dir / "recordings").mkdir()
    checked = []
    free = lambda path: checked.append(path) or usage(10**12, 10**12, 2 * 10**9)  # noqa: E731
    monkeypatch.setattr(download.shutil, "disk_usage", free)
    simulated.clear_requests()
    with pytest.raises(StorageFull, match="2 GB"):
        download.download_due_files(simulated.context)
    assert len(simulated.simulator.context.request_log) == 0
    assert checked == [simulated.data_dir / "recordings"], "the archive can have a disk of its own"
    assert rows(simulated) == [("wanted",)]


def test_a_full_disk_stops_all_downloads_without_a_failed_try(simulated, recording, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("integration.platform_api.downloads.os.fsync", full)
        with pytest.raises(StorageFull, match="No space"):
            download.download_due_files(simulated.context)
    assert rows(simulated, "state, tries") == [("wanted", 0)]
    assert download.download_due_files(simulated.context) == 1


@pytest.mark.parametrize("size", [0, None])
def test_a_file_downloaded_before_its_completion_is_downloaded_when_the_size_changes(
    simulated, recording, size
):
    record = simulated.records("monitors")[recording]
    true, record["size"] = record["size"], size
    run_full_sync(simulated.context, MONITORS, restart=True)
    half = simulated.context.platform.get(f"/monitors/{recording}.mp3").body[: true // 144 * 72]
    path = download.fetch(simulated.context, "recording", recording)
    path.write_bytes(half)
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = ?", (len(half),)))
    simulated.mirror_db.write(lambda tx: media_files.enqueue_resized(tx, "recording"))
    assert rows(simulated) == [("have",)], "the platform states no other size"
    record["size"] = true
    run_full_sync(simulated.context, MONITORS, restart=True)
    assert rows(simulated) == [("wanted",)]
    assert download.download_due_files(simulated.context) == 1
    assert path.stat().st_size == true
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE media SET size = 72"))
    download.prepare_downloads(simulated.context)
    assert rows(simulated) == [("wanted",)], "the size stored by an earlier version differs"


def test_seemingly_truncated_voicemail_without_a_length_is_retried_before_it_is_accepted(
    simulated, movable_clock
):
    run_full_sync(simulated.context, VOICEMAIL)
    simulated.faults("no-length@/voicemessages/*.mp3")
    for tries in range(download.ACCEPT_AFTER_FAILURES):
        assert download.download_due_files(simulated.context) == 0, tries
        movable_clock.advance(retry_delays.DOWNLOADS[tries] + 1)
    assert {state for (state,) in rows(simulated)} == {"failed"}
    assert download.download_due_files(simulated.context) == len(rows(simulated)) > 0


def test_seemingly_truncated_voicemail_of_the_announced_length_is_stored_with_a_doubt(simulated):
    run_full_sync(simulated.context, VOICEMAIL)
    simulated.faults("wrong-file=short@/voicemessages/*.mp3")
    assert download.download_due_files(simulated.context) == len(simulated.records("voicemessages")) > 0
    for state, tries, doubt in rows(simulated, "state, tries, last_error"):
        assert (state, tries) == ("have", 1)
        assert doubt.startswith(("the file seems to be cut", "it lasts"))


def test_without_downloads_a_recording_is_fetched_on_request(make_simulated):
    simulated = make_simulated(recordings__download="false")
    run_full_sync(simulated.context, MONITORS)
    assert download.download_due_files(simulated.context) == 0
    assert download.fetch(simulated.context, "recording", simulated.ids("monitors")[0]).is_file()


def test_partial_files_of_a_killed_process_are_deleted(simulated, recording):
    path = download.fetch(simulated.context, "recording", recording)
    partial = path.with_name("1.mp3.part")
    partial.write_bytes(b"half")
    simulated.mirror_db.write(lambda tx: tx.execute("DELETE FROM media"))
    download.prepare_downloads(simulated.context)
    assert not partial.exists()
    assert path.exists()
    assert rows(simulated) == [("wanted",)]


def test_deleting_partial_files_keeps_a_running_download(simulated, recording):
    simulated.faults("drip=0.3@/monitors/*.mp3")
    arrival = download.open_file(simulated.context, "recording", recording)
    download.prepare_downloads(simulated.context)
    assert arrival.wait().is_file()
    assert rows(simulated) == [("have",)]


@pytest.fixture
def faxes(simulated):
    """Ids of the mirrored faxes."""
    run_full_sync(simulated.context, PLAN["faxes"])
    return simulated.ids("faxes")


def test_a_file_that_is_no_pdf_is_not_stored_as_fax(simulated, faxes):
    simulated.faults("html@/faxes/*.pdf")
    assert download.download_due_files(simulated.context) == 0
    assert set(simulated.rows("SELECT state FROM media")) == {("failed",)}
    assert not list(simulated.data_dir.rglob("*.pdf"))
