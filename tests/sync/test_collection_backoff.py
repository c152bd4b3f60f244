"""Back-off of collections, and what ends it."""

from __future__ import annotations

import threading

import pytest

from integration.core import retry_delays
from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.sync.collection_backoff import CollectionBackoff


class TestBackoff:
    @pytest.fixture
    def recoveries(self):
        return []

    @pytest.fixture
    def backoff(self, simulated, recoveries):
        return CollectionBackoff(simulated.context, threading.Event(), lambda: recoveries.append(1))

    @pytest.fixture
    def fail(self, backoff):
        """Run one failing request; return whether it was sent."""

        def fail(name, error=None):
            try:
                backoff.run(name, lambda: raise_error(error or PlatformBroken("down", status=503)))
            except PlatformBroken:
                return True
            return False

        return fail

    def test_a_failing_collection_is_requested_at_most_once_a_minute(self, backoff, fail, movable_clock):
        sent = 0
        for _ in range(3600):
            movable_clock.advance(1)
            sent += fail("sms")
        assert 10 <= sent <= 60
        assert backoff.seconds_left("sms") <= retry_delays.COLLECTIONS[-1] * 1.3

    def test_a_pause_lasts_as_long_as_retry_after(self, backoff, fail, movable_clock):
        fail("sms", PlatformBroken("down", status=503, retry_after=1800))
        movable_clock.advance(1790)
        assert backoff.is_paused("sms")
        movable_clock.advance(11)
        assert not backoff.is_paused("sms")

    def test_the_first_success_after_an_outage_ends_all_pauses(
        self, backoff, fail, recoveries, movable_clock
    ):
        for name in ("sms", "cdrs", "monitors"):
            fail(name)
        movable_clock.advance(100)
        for name in ("sms", "monitors"):
            fail(name)
        assert backoff.run("cdrs", lambda: 1)
        assert recoveries == [1]
        assert not backoff.is_paused("sms")

    def test_a_success_without_an_outage_ends_no_pause(self, backoff, fail, recoveries, movable_clock):
        movable_clock.advance(30)
        backoff.run("cdrs", lambda: 1)
        fail("sms")
        movable_clock.advance(30)
        backoff.run("cdrs", lambda: 1)
        assert recoveries == []
        assert backoff.is_paused("sms")

    def test_a_refused_collection_is_shown_and_paused_beyond_an_outage(
        self, simulated, backoff, fail, recoveries, movable_clock
    ):
        assert not backoff.run("sms", lambda: raise_error(PlatformRefused("no", status=403)))
        assert simulated.context.health.report()["facts"]["collections_off"] == ["sms"]
        movable_clock.advance(100)
        fail("monitors")
        backoff.run("cdrs", lambda: 1)
        assert recoveries == [1]
        assert not backoff.is_paused("monitors")
        assert backoff.is_paused("sms")
        movable_clock.advance(retry_delays.REFUSED_COLLECTION)
        assert backoff.run("sms", lambda: 1)
        assert simulated.context.health.report()["facts"]["collections_off"] == []


def raise_error(error):
    raise error


class TestRunsWithoutRequests:
    """A run of day counts before the initial sync sends no request."""

    @pytest.fixture
    def sync_jobs(self, simulated):
        return simulated.context.sync_jobs

    @pytest.fixture
    def fail(self, simulated, sync_jobs):
        def fail():
            simulated.faults("status=503")
            with pytest.raises(PlatformError):
                sync_jobs.poll()
            assert sync_jobs.backoff.is_paused("calls")

        return fail

    @pytest.fixture
    def count_days(self, simulated, sync_jobs):
        def count_days():
            simulated.clear_requests()
            sync_jobs.verify_completeness()
            assert not simulated.simulator.context.request_log

        return count_days

    def test_a_run_without_requests_is_no_recovery(self, sync_jobs, fail, count_days, movable_clock):
        fail()
        movable_clock.advance(100)
        fail()
        count_days()
        assert sync_jobs.backoff.is_paused("calls")

    def test_a_run_without_requests_keeps_a_refused_collection_unavailable(
        self, simulated, sync_jobs, count_days, movable_clock
    ):
        sync_jobs.backoff.run("sms", lambda: raise_error(PlatformRefused("no", status=403)))
        movable_clock.advance(retry_delays.REFUSED_COLLECTION + 1)
        count_days()
        assert simulated.context.health.report()["facts"]["collections_off"] == ["sms"]
