"""Back-off of collections, and what ends it."""

from __future__ import annotations

import threading

import pytest

from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.sync import collection_backoff
from integration.sync.collection_backoff import CollectionBackoff
from integration.sync.plan import PLAN
from tests.support.applications.scheduled_jobs import make_jobs


class TestBackoff:
    @pytest.fixture
    def recoveries(self):
        return []

    @pytest.fixture
    def backoff(self, rig, recoveries):
        return CollectionBackoff(rig.parts, threading.Event(), lambda: recoveries.append(1))

    @pytest.fixture
    def fail(self, backoff):
        """A run that sends one request, which fails. Returns whether it was sent."""

        def fail(name, error=None):
            try:
                backoff.run(name, lambda: raise_error(error or PlatformBroken("down", status=503)))
            except PlatformBroken:
                return True
            return False

        return fail

    def test_a_failing_collection_is_asked_for_once_a_minute_at_most(self, backoff, fail, later):
        asked = 0
        for _ in range(3600):
            later(1)
            asked += fail("sms")
        assert 10 <= asked <= 60
        assert backoff.seconds_left("sms") <= collection_backoff.MAX_PAUSE_SECONDS * 1.3

    def test_it_rests_as_long_as_the_platform_asked(self, backoff, fail, later):
        fail("sms", PlatformBroken("down", status=503, retry_after=1800))
        later(1790)
        assert backoff.is_paused("sms")
        later(11)
        assert not backoff.is_paused("sms")

    def test_one_that_fails_holds_up_no_other(self, backoff, fail):
        fail("sms")
        assert backoff.is_paused("sms")
        assert not backoff.is_paused("cdrs")

    def test_the_first_success_after_an_outage_wakes_all(self, backoff, fail, recoveries, later):
        for name in ("sms", "cdrs", "monitors"):
            fail(name)
        later(100)
        for name in ("sms", "monitors"):
            fail(name)
        assert backoff.run("cdrs", lambda: 1)
        assert recoveries == [1]
        assert not backoff.is_paused("sms")

    def test_a_success_while_all_is_well_wakes_no_failing_one(self, backoff, fail, recoveries, later):
        later(30)
        backoff.run("cdrs", lambda: 1)
        fail("sms")
        later(30)
        backoff.run("cdrs", lambda: 1)
        assert recoveries == []
        assert backoff.is_paused("sms")

    def test_one_that_the_platform_refuses_is_shown_and_not_woken_with_the_others(
        self, rig, backoff, fail, recoveries, later
    ):
        assert not backoff.run("sms", lambda: raise_error(PlatformRefused("no", status=403)))
        assert rig.health.report()["facts"]["collections_off"] == ["sms"]
        later(100)
        fail("monitors")
        backoff.run("cdrs", lambda: 1)
        assert recoveries == [1]
        assert not backoff.is_paused("monitors")
        assert backoff.is_paused("sms")
        later(collection_backoff.UNAVAILABLE_PAUSE_SECONDS)
        assert backoff.run("sms", lambda: 1)
        assert rig.health.report()["facts"]["collections_off"] == []


def raise_error(error):
    raise error


class TestRunsWithoutRequests:
    """Before the initial sync is complete, a run of day counts sends no request."""

    @pytest.fixture
    def sync_jobs(self, rig):
        return make_jobs(rig).sync_jobs

    @pytest.fixture
    def fail(self, rig, sync_jobs):
        def fail():
            rig.faults("status=503")
            with pytest.raises(PlatformError):
                sync_jobs.poll()
            assert sync_jobs.backoff.is_paused("calls")

        return fail

    @pytest.fixture
    def count_days(self, rig, sync_jobs):
        def count_days():
            rig.forget_asked()
            sync_jobs.verify_completeness()
            assert not rig.simulator.context.request_log

        return count_days

    def test_a_run_without_requests_is_no_recovery(self, sync_jobs, fail, count_days, later):
        fail()
        later(100)
        fail()
        count_days()
        assert sync_jobs.backoff.is_paused("calls")

    def test_a_run_without_requests_does_not_hide_the_recovery_after_it(
        self, rig, sync_jobs, fail, count_days, later
    ):
        fail()
        later(80)
        count_days()
        fail()
        later(40)
        rig.simulator.context.faults.clear()
        sync_jobs.run_incremental_sync(PLAN["sms"])
        assert not sync_jobs.backoff.is_paused("calls")

    def test_a_run_without_requests_keeps_a_refused_collection_unavailable(
        self, rig, sync_jobs, count_days, later
    ):
        sync_jobs.backoff.run("sms", lambda: raise_error(PlatformRefused("no", status=403)))
        later(collection_backoff.UNAVAILABLE_PAUSE_SECONDS + 1)
        count_days()
        assert rig.health.report()["facts"]["collections_off"] == ["sms"]
