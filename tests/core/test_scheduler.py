from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from integration.core import clock, retry_delays, scheduler
from integration.core.errors import StorageBusy
from integration.core.health import Health
from integration.core.scheduler import Every, Scheduler
from tests.support.harness import wait_for

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("late", [5, 5.001, 30 * 86400])
def test_missed_times_are_skipped(late):
    now = NOW + timedelta(seconds=late)
    next_time = Every(5).get_next_fire_time(NOW, now)
    assert timedelta(0) < next_time - now <= timedelta(seconds=5)
    # Times stay multiples of the interval, so that delays do not accumulate.
    assert (next_time - NOW) % timedelta(seconds=5) == timedelta(0)


@pytest.fixture
def health():
    return Health()


@pytest.fixture
def running(health):
    running_scheduler = Scheduler(health)
    running_scheduler.start()
    yield running_scheduler
    running_scheduler.stop(10)


def test_a_failed_job_that_retries_does_not_wait_for_its_interval(running, health, monkeypatch):
    monkeypatch.setattr(retry_delays, "FIRST_OF_JOBS", 0.001)
    failures = iter([StorageBusy("busy"), KeyError("a mistake")])
    done = threading.Event()

    def job():
        failure = next(failures, None)
        if failure is not None:
            raise failure
        done.set()

    running.every("sums", 3600, job, executor="timers", retries=True)
    assert done.wait(30)
    wait_for(lambda: health.report()["checks"]["sums"]["state"] == "ok", "status ok")


def test_a_failed_job_that_does_not_retry_waits_for_its_interval(running, health, monkeypatch):
    monkeypatch.setattr(retry_delays, "FIRST_OF_JOBS", 0.001)
    others = []

    def job():
        raise StorageBusy("busy")

    # One executor of one thread: a retry would run before the second run of the other job.
    running.every("backup", 3600, job, executor="timers")
    wait_for(lambda: health.report()["checks"].get("backup", {}).get("failures"), "the failure")
    running.every("other", 0.05, lambda: others.append(1), executor="timers")
    wait_for(lambda: len(others) > 2, "three runs of another job")
    assert health.report()["checks"]["backup"]["failures"] == 1


def test_a_watched_job_that_hangs_shows_as_stalled(running, health, monkeypatch):
    begun, end = threading.Event(), threading.Event()

    def job():
        begun.set()
        end.wait(60)

    running.every("sums", 30, job, executor="timers", is_watched=True)
    assert begun.wait(30)
    assert health.report()["checks"]["sums"]["state"] == "waiting"
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 30 + scheduler.STALLED_AFTER_SECONDS + 1)
    assert health.report()["checks"]["sums"]["state"] == "stalled"
    end.set()


def test_a_job_that_makes_every_job_due_ends_while_the_scheduler_stops(health, caplog):
    stopping = Scheduler(health)
    stopping.start()
    begun = threading.Event()

    def job():
        begun.set()
        stopping.stopping.wait(30)
        wait_for(lambda: "scheduler shutdown" in {one.name for one in threading.enumerate()}, "the shutdown")
        stopping.run_all_now()

    stopping.every("sums", 3600, job, executor="timers")
    assert begun.wait(30)
    stopping.stop(10)
    assert "still running" not in caplog.text
