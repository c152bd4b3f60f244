"""Back-off of collections, and what ends it."""

from __future__ import annotations

import threading

import pytest

from integration.core.errors import PlatformBroken, PlatformError, PlatformRefused
from integration.sync import collection_backoff
from integration.sync.backoff_runner import BackoffRunner
from integration.sync.collection_backoff import CollectionBackoff
from integration.sync.collection_jobs import CollectionJobs
from integration.sync.plan import PLAN


class TestBackoff:
    @pytest.fixture
    def rests(self):
        return CollectionBackoff()

    def test_a_failing_collection_is_asked_for_once_a_minute_at_most(self, rests, later):
        asked = 0
        for _ in range(3600):
            later(1)
            if not rests.is_paused("sms"):
                asked += 1
                rests.failed("sms", PlatformBroken("down", status=503))
        assert 10 <= asked <= 60
        assert rests.seconds_left("sms") <= collection_backoff.MAX_PAUSE_SECONDS * 1.3

    def test_it_rests_as_long_as_the_platform_asked(self, rests, later):
        rests.failed("sms", PlatformBroken("down", status=503, retry_after=1800))
        later(1790)
        assert rests.is_paused("sms")
        later(11)
        assert not rests.is_paused("sms")

    def test_one_that_fails_holds_up_no_other(self, rests):
        rests.failed("sms", PlatformRefused("no", status=403))
        assert not rests.is_paused("cdrs")

    def test_the_first_success_after_an_outage_wakes_all(self, rests, later):
        for name in ("sms", "cdrs", "monitors"):
            rests.failed(name, PlatformBroken("down", status=503))
        later(100)
        for name in ("sms", "cdrs", "monitors"):
            rests.failed(name, PlatformBroken("down", status=503))
        assert rests.succeeded("cdrs")
        assert not rests.is_paused("sms")

    def test_a_success_while_all_is_well_wakes_no_failing_one(self, rests, later):
        later(30)
        assert not rests.succeeded("cdrs")
        rests.failed("sms", PlatformRefused("no", status=403))
        later(30)
        assert not rests.succeeded("cdrs")
        assert rests.is_paused("sms")


class TestRunsWithoutRequests:
    """Before the initial sync is complete, a run of day counts sends no request."""

    @pytest.fixture
    def runner(self, rig):
        return BackoffRunner(rig.parts, threading.Event(), lambda: None)

    @pytest.fixture
    def sync_jobs(self, rig, runner):
        return CollectionJobs(rig.parts, runner, threading.Event(), lambda: None)

    @pytest.fixture
    def fail(self, rig, runner, sync_jobs):
        def fail():
            rig.faults("status=503")
            with pytest.raises(PlatformError):
                sync_jobs.poll()
            assert runner.backoff.is_paused("calls")

        return fail

    @pytest.fixture
    def count_days(self, rig, sync_jobs):
        def count_days():
            rig.forget_asked()
            sync_jobs.verify_completeness()
            assert not rig.simulator.context.request_log

        return count_days

    def test_a_run_without_requests_is_no_recovery(self, runner, fail, count_days, later):
        fail()
        later(100)
        fail()
        count_days()
        assert runner.backoff.is_paused("calls")

    def test_a_run_without_requests_does_not_hide_the_recovery_after_it(
        self, rig, runner, sync_jobs, fail, count_days, later
    ):
        fail()
        later(80)
        count_days()
        fail()
        later(40)
        rig.simulator.context.faults.clear()
        sync_jobs.run_incremental_sync(PLAN["sms"])
        assert not runner.backoff.is_paused("calls")

    def test_a_run_without_requests_keeps_a_refused_collection_unavailable(self, runner, count_days, later):
        backoff = runner.backoff
        backoff.mark_unavailable("sms")
        later(collection_backoff.UNAVAILABLE_PAUSE_SECONDS + 1)
        count_days()
        assert backoff.list_unavailable() == ["sms"]
