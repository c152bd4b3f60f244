"""Back-off of collections, and what ends it."""

from __future__ import annotations

import threading

import pytest

from integration.core import retry_delays
from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.platform_api.circuit import MIN_FAILING_SECONDS, MIN_FAILURES
from integration.sync import jobs
from integration.sync.collection_backoff import CollectionBackoff


def raise_error(error):
    raise error


@pytest.fixture
def backoff(simulated):
    return CollectionBackoff(simulated.context, threading.Event())


@pytest.fixture
def fail(backoff):
    """Run one failing request; return whether it was sent."""

    def fail(name, error=None):
        try:
            backoff.run(name, lambda: raise_error(error or PlatformBroken("down", status=503)))
        except PlatformBroken:
            return True
        return False

    return fail


def test_a_failing_collection_is_requested_at_most_once_a_minute(backoff, fail, movable_clock):
    sent = 0
    for _ in range(3600):
        movable_clock.advance(1)
        sent += fail("sms")
    assert 10 <= sent <= 60
    assert backoff.seconds_left("sms") <= retry_delays.COLLECTIONS[-1] * 1.3
    assert backoff.run("cdrs", lambda: 1)


def test_a_pause_lasts_as_long_as_retry_after(backoff, fail, movable_clock):
    fail("sms", PlatformBroken("down", status=503, retry_after=1800))
    movable_clock.advance(1790)
    assert backoff.seconds_left("sms") > 0
    movable_clock.advance(11)
    assert not backoff.seconds_left("sms")
    assert not backoff.run("sms", lambda: 0), "a run without requests is no success"
    fail("sms")
    assert backoff.seconds_left("sms") > retry_delays.COLLECTIONS[0] * 1.3


def test_the_end_of_an_outage_makes_everything_due_except_refused_collections(
    simulated, movable_clock, monkeypatch
):
    sync_jobs, budget = simulated.context.sync_jobs, simulated.context.platform.budget
    monkeypatch.setattr(simulated.context.scheduler, "run_all_now", lambda: due_jobs.append("all"))
    due_jobs, woken = [], []
    monkeypatch.setattr(jobs.media_files, "wake", lambda tx, since: woken.append(since))
    scheduled = {}
    monkeypatch.setattr(
        simulated.context.scheduler, "every", lambda name, _, job, *_a, **_o: scheduled.update({name: job})
    )
    sync_jobs.schedule()
    describe_outage = lambda: simulated.context.health.report()["checks"]["platform"]["error"]  # noqa: E731
    assert not sync_jobs.backoff.run("sms", lambda: raise_error(PlatformRefused("no", status=403)))
    assert simulated.context.health.report()["facts"]["collections_off"] == ["sms"]
    with pytest.raises(PlatformError):
        sync_jobs.backoff.run("monitors", lambda: raise_error(PlatformBroken("", retry_after=9999)))
    for seconds in (0, *[MIN_FAILING_SECONDS] * MIN_FAILURES):
        movable_clock.advance(seconds)
        budget.record_failure()
        simulated.context.scheduler.on_tick()
    simulated.context.scheduler.on_tick()
    assert "no request to the platform has succeeded since" in describe_outage()
    assert sync_jobs.backoff.seconds_left("monitors")
    assert due_jobs == []
    budget.record_success()
    simulated.context.scheduler.on_tick()
    simulated.context.scheduler.on_tick()
    assert due_jobs == ["all"]
    assert describe_outage() is None
    assert not sync_jobs.backoff.seconds_left("monitors")
    assert sync_jobs.backoff.seconds_left("sms")
    scheduled[jobs.DOWNLOADS_JOB]()
    scheduled[jobs.DOWNLOADS_JOB]()
    assert len(woken) == 1
    movable_clock.advance(retry_delays.REFUSED_COLLECTION)
    assert sync_jobs.backoff.run("sms", lambda: 1)
