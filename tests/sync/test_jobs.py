from __future__ import annotations

import time

import pytest

from integration.core import clock, scheduler
from integration.mirror.sync_state import lookup_queue
from integration.sync import jobs
from integration.sync.files import download, scrub
from integration.sync.plan import PLAN
from integration.sync.reading import full_sync
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import wait_for

NUDGE_SECONDS = jobs.IDLE_SECONDS - 20
"""Seconds in which a nudged job runs, and without a nudge does not run."""


def until(condition, seconds=60.0):
    return wait_for(condition, "the expected state", seconds)


@pytest.fixture(autouse=True)
def short_clock_checks(monkeypatch):
    """Check the wall clock every 50 ms instead of every second."""
    monkeypatch.setattr(scheduler, "CLOCK_CHECK_SECONDS", 0.05)


@pytest.fixture
def run(make_simulated):
    """Start the sync jobs with short intervals."""

    def run(**settings):
        short = {"sync__recent_interval": "1", "sync__live_interval": "1", "sync__full_interval": "86400"}
        simulated = make_simulated(**{**short, **settings})
        simulated.keep_recordings(14)
        simulated.start_sync()
        return simulated

    return run


def is_synced(simulated):
    """Whether every initial sync is complete."""
    complete = {row[0] for row in simulated.rows("SELECT collection FROM _walks WHERE complete_at > ''")}
    return complete >= {name for name, policy in PLAN.items() if policy.kind != "live"}


def has_all_files(simulated):
    counts = dict(simulated.rows("SELECT state, count(*) FROM media GROUP BY state"))
    return set(counts) == {"have"}


def test_pending_legs_are_assembled_at_the_next_start(make_simulated, monkeypatch):
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 0)
    simulated = make_simulated()
    run_full_sync(simulated.context, PLAN["cdrs"])
    waits = {row[0] for row in simulated.rows("SELECT live_id FROM cdrs")}
    assert waits
    assert simulated.rows("SELECT 1 FROM _legs") == []
    simulated.start_sync()
    try:
        until(lambda: simulated.rows("SELECT 1 FROM _due WHERE derived = 'legs'") == [])
        assert waits <= {row[0] for row in simulated.rows("SELECT leg_id FROM _legs")}
    finally:
        simulated.product.stop()


def test_a_nudge_runs_lookups_before_the_next_incremental_sync(run, movable_clock):
    simulated = run(sync__recent_interval="3600")
    until(lambda: is_synced(simulated))
    until(lambda: simulated.context.platform.budget.active_requests == 0)
    played = simulated.play("plain_answered")
    at = clock.utc_text()
    simulated.mirror_db.write(lambda tx: [lookup_queue.enqueue_leg(tx, leg, at) for leg in played["leg_ids"]])
    # The first lookup is due two seconds after the end of a leg.
    movable_clock.advance(3)
    simulated.context.sync_jobs.nudge()
    until(lambda: set(played["cdr_ids"]) <= set(simulated.ids("cdrs")), NUDGE_SECONDS)
    until(lambda: has_all_files(simulated), NUDGE_SECONDS)


def test_a_nudge_at_the_end_of_a_job_starts_another_run(run, monkeypatch):
    """The nudge arrives while the job computes its next run time."""
    simulated = run()
    real, runs, nudges = jobs.lookup_queue.next_at, [], iter([simulated.context.sync_jobs.nudge])

    def next_at(connection):
        runs.append(1)
        next(nudges, lambda: None)()
        return real(connection)

    monkeypatch.setattr(jobs.lookup_queue, "next_at", next_at)
    simulated.context.sync_jobs.nudge()
    until(lambda: len(runs) >= 2, NUDGE_SECONDS)


def test_a_forbidden_collection_is_shown_and_stops_no_other(make_simulated, monkeypatch):
    simulated = make_simulated(sync__recent_interval="1")
    simulated.keep_recordings(14)
    simulated.faults("status=403@/sms")
    simulated.start_sync()
    try:
        others = [name for name in PLAN if name != "calls" and not name.startswith("sms")]
        until(lambda: all(simulated.state(name).complete_at for name in others))
        until(lambda: simulated.state("sms").last_error)
        until(lambda: simulated.context.health.report()["checks"]["full syncs"]["state"] == "ok")
        report = simulated.context.health.report()
        assert report["facts"]["collections_off"] == ["sms", "sms/cannedresponses", "sms/dictionaries"]
        assert report["checks"]["incremental sync of cdrs"]["state"] == "ok"
        assert simulated.state("sms").off_since is not None
        played = simulated.play("plain_answered")
        until(lambda: set(played["cdr_ids"]) <= set(simulated.ids("cdrs")))
        assert simulated.count_requests("/sms") <= 2, (
            "a failing collection is requested at most once a minute"
        )
    finally:
        simulated.product.stop()


def test_a_stop_does_not_wait_for_a_running_request(make_simulated):
    # The request ends after a minute.
    simulated = make_simulated(platform__timeout="60")
    simulated.faults("hang=60")
    simulated.start_sync()
    until(lambda: simulated.context.platform.budget.active_requests > 0)
    begin = time.monotonic()
    simulated.product.stop()
    assert time.monotonic() - begin < 20


def test_a_jump_of_the_wall_clock_makes_every_job_due(run, movable_clock):
    simulated = run(sync__recent_interval="3600")
    until(lambda: is_synced(simulated))
    until(lambda: simulated.state("cdrs").seen_until)
    played = simulated.play("plain_answered")
    movable_clock.advance(-86400)
    until(lambda: set(played["cdr_ids"]) <= set(simulated.ids("cdrs")))


def test_a_damaged_file_is_downloaded_at_once(simulated, monkeypatch):
    monkeypatch.setattr(scrub, "SCRUB_INTERVAL_DAYS", -1)
    run_full_sync(simulated.context, PLAN["voicemessages"])
    download.download_due_files(simulated.context)
    nudged, scheduled_jobs = [], {}

    def every(name, _seconds, job, *_, **__):
        scheduled_jobs[name] = job

    monkeypatch.setattr(simulated.context.scheduler, "nudge", nudged.append)
    monkeypatch.setattr(simulated.context.scheduler, "every", every)
    simulated.context.sync_jobs.schedule()
    scheduled_jobs["archive checks"]()
    assert nudged == []
    path = simulated.rows("SELECT path FROM media LIMIT 1")[0][0]
    (simulated.data_dir / path).unlink()
    scheduled_jobs["archive checks"]()
    assert nudged == [jobs.DOWNLOADS_JOB]
    assert download.download_due_files(simulated.context) == 1
    assert (simulated.data_dir / path).is_file()


def test_the_first_sync_reads_names_before_the_long_histories(run):
    simulated = run()
    until(lambda: simulated.state("cdrs").complete_at)
    requested = [(entry["path"], entry["query"]) for entry in simulated.simulator.context.request_log]
    # Incremental syncs read the last day beside the lists.
    first_long_read = next(
        n for n, (path, query) in enumerate(requested) if path == "/cdrs" and "calldate" not in query
    )
    assert {"/users", "/queues", "/ringgroups", "/ddis", "/contacts"} <= {
        path for path, _ in requested[:first_long_read]
    }


def test_histories_are_read_although_contacts_cannot_be_read(make_simulated):
    simulated = make_simulated(sync__live_interval="1")
    simulated.faults("status=500@GET /contacts")
    simulated.start_sync()
    until(lambda: simulated.state("cdrs").complete_at)
    assert simulated.state("contacts").complete_at is None
