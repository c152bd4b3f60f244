from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from datetime import datetime, timedelta

import pytest
from apscheduler.schedulers import base
from apscheduler.triggers.interval import IntervalTrigger

from integration.core import clock, scheduler
from integration.core.errors import StorageFull
from integration.core.scheduler import Every
from integration.mirror.sync_state import lookup_queue
from integration.platform_api.circuit import MIN_FAILING_SECONDS, MIN_FAILURES
from integration.sync import jobs
from integration.sync.files import download, scrub
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading import full_sync
from integration.sync.reading.full_sync import run_full_sync

SOON = jobs.IDLE_SECONDS - 20
"""Seconds: what comes by a nudge, and not by itself a minute later."""


def until(condition, seconds=60.0):
    """Wait for `condition()` to hold; its last value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.02)
    return found


@pytest.fixture
def run(make_simulated):
    """Start the sync jobs with short intervals in front of a simulator."""

    def run(**settings):
        short = {"sync__recent_interval": "1", "sync__live_interval": "1", "sync__full_interval": "86400"}
        simulated = make_simulated(**{**short, **settings})
        simulated.start_sync()
        return simulated

    return run


def complete(simulated):
    return all(simulated.state(name).complete_at for name, policy in PLAN.items() if policy.kind != "live")


def all_files(simulated):
    counts = dict(simulated.rows("SELECT state, count(*) FROM media GROUP BY state"))
    return set(counts) == {"have"}


def test_a_start_brings_everything_and_its_files(run):
    simulated = run()
    until(lambda: complete(simulated) and all_files(simulated))
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    assert len(simulated.rows("SELECT 1 FROM media")) == sum(
        len(simulated.records(name)) for name in FILES_OF
    )
    until(lambda: simulated.rows("SELECT count(*) FROM users WHERE _item IS NULL") == [(0,)])


def test_calls_that_wait_since_a_load_that_was_ended_are_put_together_at_the_next_start(
    make_simulated, monkeypatch
):
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 0)
    simulated = make_simulated()
    run_full_sync(simulated.context, PLAN["cdrs"])
    waits = {row[0] for row in simulated.rows("SELECT leg_id FROM _legs_due")}
    assert waits
    assert simulated.rows("SELECT 1 FROM _legs") == []
    simulated.start_sync()
    try:
        until(lambda: simulated.rows("SELECT count(*) FROM _legs_due") == [(0,)])
        assert waits <= {row[0] for row in simulated.rows("SELECT leg_id FROM _legs")}
    finally:
        simulated.product.stop()


def test_calls_messages_and_recordings_that_no_webhook_told_are_found_once(run):
    simulated = run()
    until(lambda: complete(simulated))
    made = [simulated.play("plain_answered") for _ in range(10)]
    made += [simulated.play("ring_group_answered") for _ in range(5)]
    texts = [simulated.control("sms", silent=True, message="the same") for _ in range(10)]
    cdrs = {number for one in made for number in one["cdr_ids"]}
    monitors = {number for one in made for number in one["monitor_ids"]}
    until(lambda: cdrs <= set(simulated.ids("cdrs")) and monitors <= set(simulated.ids("monitors")))
    until(lambda: {text["sms"]["id"] for text in texts} <= set(simulated.ids("sms")))
    until(lambda: all_files(simulated))
    for number in monitors:
        path, sha256 = simulated.rows("SELECT path, sha256 FROM media WHERE record_id = ?", number)[0]
        assert hashlib.sha256((simulated.data_dir / path).read_bytes()).hexdigest() == sha256
    assert len(simulated.ids("cdrs")) == len(set(simulated.ids("cdrs"))) == len(simulated.records("cdrs"))


def test_a_nudge_looks_up_without_waiting_for_the_look_back(run):
    simulated = run(sync__recent_interval="3600")
    until(lambda: complete(simulated))
    until(lambda: simulated.context.platform.budget.active_requests == 0)
    made = simulated.play("plain_answered")
    at = clock.utc_text()
    simulated.mirror_db.write(lambda tx: [lookup_queue.enqueue_leg(tx, leg, at) for leg in made["leg_ids"]])
    simulated.context.sync_jobs.nudge()
    until(lambda: set(made["cdr_ids"]) <= set(simulated.ids("cdrs")), SOON)
    until(lambda: all_files(simulated), SOON)


def test_a_nudge_that_comes_as_a_job_ends_is_not_lost(run, monkeypatch):
    """What is arranged for the next run was read a moment before the wish was written."""
    simulated = run()
    real, runs, nudges = jobs.lookup_queue.next_at, [], iter([simulated.context.sync_jobs.nudge])

    def next_at(connection):
        runs.append(1)
        next(nudges, lambda: None)()
        return real(connection)

    monkeypatch.setattr(jobs.lookup_queue, "next_at", next_at)
    simulated.context.sync_jobs.nudge()
    until(lambda: len(runs) >= 2, SOON)


def test_a_ghost_is_closed_by_the_poll(run, monkeypatch):
    monkeypatch.setattr("integration.sync.reading.live_poll.MIN_LEG_AGE_SECONDS", 0.0)
    simulated = run()
    made = simulated.control("calls", script="plain_answered", until="connected")
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            simulated.receive(event)
    simulated.simulator.world.live_legs.clear()
    until(lambda: simulated.rows("SELECT count(*) FROM _calls WHERE state <> 'ended'") == [(0,)])


def test_one_collection_that_is_forbidden_stops_no_other_and_shows(make_simulated, monkeypatch):
    simulated = make_simulated(sync__recent_interval="1")
    simulated.faults("status=403@/sms")
    simulated.start_sync()
    try:
        others = [name for name in PLAN if name != "calls" and not name.startswith("sms")]
        until(lambda: all(simulated.state(name).complete_at for name in others))
        until(lambda: simulated.state("sms").last_error)
        until(lambda: simulated.context.health.report()["checks"]["walks"]["state"] == "ok")
        report = simulated.context.health.report()
        assert report["facts"]["collections_off"] == ["sms", "sms/cannedresponses", "sms/dictionaries"]
        assert report["checks"]["look-back cdrs"]["state"] == "ok"
        assert simulated.state("sms").off_since is not None
        made = simulated.play("plain_answered")
        until(lambda: set(made["cdr_ids"]) <= set(simulated.ids("cdrs")))
        assert simulated.count_requests("/sms") <= 2, (
            "a collection that fails is asked for once a minute at most"
        )
    finally:
        simulated.product.stop()


def test_a_stop_does_not_wait_for_a_request_that_hangs(run):
    simulated = run()
    until(lambda: complete(simulated))
    simulated.faults("hang=30@/cdrs")
    simulated.clear_requests()
    until(lambda: simulated.context.platform.budget.active_requests > 0)
    begin = time.monotonic()
    simulated.product.stop()
    assert time.monotonic() - begin < 20


def test_when_the_wall_clock_jumps_every_job_is_due_anew(run, monkeypatch):
    simulated = run(sync__recent_interval="3600")
    until(lambda: complete(simulated))
    until(lambda: simulated.state("cdrs").seen_until)
    made = simulated.play("plain_answered")
    real = clock.unix
    monkeypatch.setattr(clock, "unix", lambda: real() - 86400)
    until(lambda: set(made["cdr_ids"]) <= set(simulated.ids("cdrs")))


@pytest.fixture
def computed(monkeypatch):
    """Calls of `get_next_fire_time`, counted by trigger and by the time at which due jobs are processed."""
    calls = Counter()

    def count(trigger_class):
        compute = trigger_class.get_next_fire_time

        def counted(trigger, previous, now):
            calls[id(trigger), now] += 1
            return compute(trigger, previous, now)

        monkeypatch.setattr(trigger_class, "get_next_fire_time", counted)

    count(Every)
    count(IntervalTrigger)
    return calls


def test_a_clock_that_jumps_ahead_runs_a_job_once_and_computes_no_missed_time(run, computed, monkeypatch):
    simulated = run(sync__recent_interval="60", sync__live_interval="60")
    runs = []
    simulated.context.scheduler.every(
        "counted", 600, lambda: runs.append(clock.unix()), executor="timers", at_once=False
    )

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=1)

    monkeypatch.setattr(base, "datetime", Ahead)
    simulated.context.sync_jobs.nudge()
    until(lambda: runs)
    assert max(computed.values()) <= 2
    assert len(runs) == 1


def test_a_job_that_fails_by_a_mistake_of_ours_shows_and_runs_again(run):
    simulated = run()
    times = []

    def job():
        times.append(1)
        if len(times) == 1:
            raise KeyError("mistake")

    simulated.context.scheduler.every("odd job", 1, job, executor="timers")
    until(
        lambda: (
            simulated.context.health.report()["checks"].get("odd job", {}).get("error")
            == "KeyError: 'mistake'"
        )
    )
    until(lambda: simulated.context.health.report()["checks"]["odd job"]["state"] == "ok")


def test_a_job_that_goes_on_failing_is_logged_once_and_again_after_it_went_well(simulated, caplog):
    outcomes = iter(["full", "full", None, "full", "fuller"])

    def job():
        if (outcome := next(outcomes)) is not None:
            raise StorageFull(outcome)

    for _ in range(5):
        simulated.context.scheduler.run_job("odd job", job)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["odd job: full", "odd job: full", "odd job: fuller"]


def test_no_job_runs_twice_at_a_time(run):
    simulated = run()
    running, most, rounds = 0, 0, 0

    def slow():
        nonlocal running, most, rounds
        running += 1
        most = max(most, running)
        threading.Event().wait(1.5)
        running -= 1
        rounds += 1

    simulated.context.scheduler.every("slow job", 0.5, slow, executor="timers")
    until(lambda: rounds >= 2)
    assert most == 1


def test_the_watch_is_told_that_the_scheduler_lives(run):
    simulated = run()
    until(lambda: simulated.context.health.report()["checks"][scheduler.WATCHDOG]["state"] == "ok")


def test_a_platform_that_does_not_answer_shows_in_the_health_report(simulated, movable_clock):
    simulated.context.sync_jobs.schedule()

    def check():
        return simulated.context.health.report()["checks"].get("platform", {}).get("error")

    assert check() is None
    simulated.context.platform.budget.record_failure()
    movable_clock.advance(MIN_FAILING_SECONDS + 1)
    for _ in range(MIN_FAILURES):
        simulated.context.platform.budget.record_failure()
    assert "no request to the platform has succeeded since" in check()
    simulated.context.platform.get("/ping", priority="people")
    assert check() is None


def test_what_was_damaged_on_our_disk_is_fetched_at_once(simulated, monkeypatch):
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
