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
from tests.support.applications.scheduled_jobs import make_jobs

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
def run(make_rig):
    """Starts a scheduled with short intervals over a rig."""
    running = []

    def run(**settings):
        short = {"sync__recent_interval": "1", "sync__live_interval": "1", "sync__full_interval": "86400"}
        rig = make_rig(**{**short, **settings})
        scheduled = make_jobs(rig)
        scheduled.start()
        running.append(scheduled)
        return rig, scheduled

    yield run
    for scheduled in running:
        scheduled.stop()


def complete(rig):
    return all(rig.state(name).complete_at for name, policy in PLAN.items() if policy.kind != "live")


def all_files(rig):
    counts = dict(rig.rows("SELECT state, count(*) FROM media GROUP BY state"))
    return set(counts) == {"have"}


def test_a_start_brings_everything_and_its_files(run):
    rig, _ = run()
    until(lambda: complete(rig) and all_files(rig))
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))
    assert len(rig.rows("SELECT 1 FROM media")) == sum(len(rig.records(name)) for name in FILES_OF)
    until(lambda: rig.rows("SELECT count(*) FROM users WHERE _item IS NULL") == [(0,)])


def test_calls_that_wait_since_a_load_that_was_ended_are_put_together_at_the_next_start(
    make_rig, monkeypatch
):
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 0)
    rig = make_rig()
    run_full_sync(rig.parts, PLAN["cdrs"])
    waits = {row[0] for row in rig.rows("SELECT leg_id FROM _legs_due")}
    assert waits
    assert rig.rows("SELECT 1 FROM _legs") == []
    scheduled = make_jobs(rig)
    scheduled.start()
    try:
        until(lambda: rig.rows("SELECT count(*) FROM _legs_due") == [(0,)])
        assert waits <= {row[0] for row in rig.rows("SELECT leg_id FROM _legs")}
    finally:
        scheduled.stop()


def test_calls_messages_and_recordings_that_no_webhook_told_are_found_once(run):
    rig, _ = run()
    until(lambda: complete(rig))
    made = [rig.play("plain_answered") for _ in range(10)]
    made += [rig.play("ring_group_answered") for _ in range(5)]
    texts = [rig.control("sms", silent=True, message="the same") for _ in range(10)]
    cdrs = {number for one in made for number in one["cdr_ids"]}
    monitors = {number for one in made for number in one["monitor_ids"]}
    until(lambda: cdrs <= set(rig.ids("cdrs")) and monitors <= set(rig.ids("monitors")))
    until(lambda: {text["sms"]["id"] for text in texts} <= set(rig.ids("sms")))
    until(lambda: all_files(rig))
    for number in monitors:
        path, sha256 = rig.rows("SELECT path, sha256 FROM media WHERE record_id = ?", number)[0]
        assert hashlib.sha256((rig.folder / path).read_bytes()).hexdigest() == sha256
    assert len(rig.ids("cdrs")) == len(set(rig.ids("cdrs"))) == len(rig.records("cdrs"))


def test_a_nudge_looks_up_without_waiting_for_the_look_back(run):
    rig, scheduled = run(sync__recent_interval="3600")
    until(lambda: complete(rig))
    until(lambda: rig.platform.budget.active_requests == 0)
    made = rig.play("plain_answered")
    at = clock.utc_text()
    rig.mirror_db.write(lambda tx: [lookup_queue.enqueue_leg(tx, leg, at) for leg in made["leg_ids"]])
    scheduled.sync_jobs.nudge()
    until(lambda: set(made["cdr_ids"]) <= set(rig.ids("cdrs")), SOON)
    until(lambda: all_files(rig), SOON)


def test_a_nudge_that_comes_as_a_job_ends_is_not_lost(run, monkeypatch):
    """What is arranged for the next run was read a moment before the wish was written."""
    _, scheduled = run()
    real, runs, nudges = jobs.lookup_queue.next_at, [], iter([scheduled.sync_jobs.nudge])

    def next_at(connection):
        runs.append(1)
        next(nudges, lambda: None)()
        return real(connection)

    monkeypatch.setattr(jobs.lookup_queue, "next_at", next_at)
    scheduled.sync_jobs.nudge()
    until(lambda: len(runs) >= 2, SOON)


def test_a_ghost_is_closed_by_the_poll(run, monkeypatch):
    monkeypatch.setattr("integration.sync.reading.live_poll.MIN_LEG_AGE_SECONDS", 0.0)
    rig, _ = run()
    made = rig.control("calls", script="plain_answered", until="connected")
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            rig.tell(event)
    rig.simulator.world.live_legs.clear()
    until(lambda: rig.rows("SELECT count(*) FROM _calls WHERE state <> 'ended'") == [(0,)])


def test_one_collection_that_is_forbidden_stops_no_other_and_shows(make_rig, monkeypatch):
    rig = make_rig(sync__recent_interval="1")
    rig.faults("status=403@/sms")
    scheduled = make_jobs(rig)
    scheduled.start()
    try:
        others = [name for name in PLAN if name != "calls" and not name.startswith("sms")]
        until(lambda: all(rig.state(name).complete_at for name in others))
        until(lambda: rig.state("sms").last_error)
        until(lambda: rig.health.report()["checks"]["walks"]["state"] == "ok")
        report = rig.health.report()
        assert report["facts"]["collections_off"] == ["sms", "sms/cannedresponses", "sms/dictionaries"]
        assert report["checks"]["look-back cdrs"]["state"] == "ok"
        assert rig.state("sms").off_since is not None
        made = rig.play("plain_answered")
        until(lambda: set(made["cdr_ids"]) <= set(rig.ids("cdrs")))
        assert rig.asked("/sms") <= 2, "a collection that fails is asked for once a minute at most"
    finally:
        scheduled.stop()


def test_a_stop_does_not_wait_for_a_request_that_hangs(run):
    rig, scheduled = run()
    until(lambda: complete(rig))
    rig.faults("hang=30@/cdrs")
    rig.forget_asked()
    until(lambda: rig.platform.budget.active_requests > 0)
    begin = time.monotonic()
    scheduled.stop(3)
    assert time.monotonic() - begin < 20


def test_when_the_wall_clock_jumps_every_job_is_due_anew(run, monkeypatch):
    rig, _ = run(sync__recent_interval="3600")
    until(lambda: complete(rig))
    until(lambda: rig.state("cdrs").seen_until)
    made = rig.play("plain_answered")
    real = clock.unix
    monkeypatch.setattr(clock, "unix", lambda: real() - 86400)
    until(lambda: set(made["cdr_ids"]) <= set(rig.ids("cdrs")))


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
    _, scheduled = run(sync__recent_interval="60", sync__live_interval="60")
    runs = []
    scheduled.scheduler.every(
        "counted", 600, lambda: runs.append(clock.unix()), executor="timers", at_once=False
    )

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=1)

    monkeypatch.setattr(base, "datetime", Ahead)
    scheduled.sync_jobs.nudge()
    until(lambda: runs)
    assert max(computed.values()) <= 2
    assert len(runs) == 1


def test_a_job_that_fails_by_a_mistake_of_ours_shows_and_runs_again(run):
    rig, scheduled = run()
    times = []

    def job():
        times.append(1)
        if len(times) == 1:
            raise KeyError("mistake")

    scheduled.scheduler.every("odd job", 1, job, executor="timers")
    until(lambda: rig.health.report()["checks"].get("odd job", {}).get("error") == "KeyError: 'mistake'")
    until(lambda: rig.health.report()["checks"]["odd job"]["state"] == "ok")


def test_a_job_that_goes_on_failing_is_logged_once_and_again_after_it_went_well(rig, caplog):
    scheduled = make_jobs(rig)
    outcomes = iter(["full", "full", None, "full", "fuller"])

    def job():
        if (outcome := next(outcomes)) is not None:
            raise StorageFull(outcome)

    for _ in range(5):
        scheduled.scheduler.run_job("odd job", job)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["odd job: full", "odd job: full", "odd job: fuller"]


def test_no_job_runs_twice_at_a_time(run):
    _, scheduled = run()
    running, most, rounds = 0, 0, 0

    def slow():
        nonlocal running, most, rounds
        running += 1
        most = max(most, running)
        threading.Event().wait(1.5)
        running -= 1
        rounds += 1

    scheduled.scheduler.every("slow job", 0.5, slow, executor="timers")
    until(lambda: rounds >= 2)
    assert most == 1


def test_the_watch_is_told_that_the_scheduled_lives(run):
    rig, _ = run()
    until(lambda: rig.health.report()["checks"][scheduler.WATCHDOG]["state"] == "ok")


def test_a_platform_that_does_not_answer_shows_in_the_health_report(rig, later):
    make_jobs(rig).sync_jobs.schedule()

    def check():
        return rig.health.report()["checks"].get("platform", {}).get("error")

    assert check() is None
    rig.platform.budget.record_failure()
    later(MIN_FAILING_SECONDS + 1)
    for _ in range(MIN_FAILURES):
        rig.platform.budget.record_failure()
    assert "nothing has worked since" in check()
    rig.platform.get("/ping", priority="people")
    assert check() is None


def test_what_was_damaged_on_our_disk_is_fetched_at_once(rig, monkeypatch):
    monkeypatch.setattr(scrub, "SCRUB_INTERVAL_DAYS", -1)
    run_full_sync(rig.parts, PLAN["voicemessages"])
    download.download_due_files(rig.parts)
    scheduled = make_jobs(rig)
    nudged, scheduled_jobs = [], {}

    def every(name, _seconds, job, *_, **__):
        scheduled_jobs[name] = job

    monkeypatch.setattr(scheduled.scheduler, "nudge", nudged.append)
    monkeypatch.setattr(scheduled.scheduler, "every", every)
    scheduled.sync_jobs.schedule()
    scheduled_jobs["archive checks"]()
    assert nudged == []
    path = rig.rows("SELECT path FROM media LIMIT 1")[0][0]
    (rig.folder / path).unlink()
    scheduled_jobs["archive checks"]()
    assert nudged == [jobs.DOWNLOADS_JOB]
    assert download.download_due_files(rig.parts) == 1
    assert (rig.folder / path).is_file()
