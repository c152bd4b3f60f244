"""Health checks: stalled and failing components, readiness, and metrics."""

from __future__ import annotations

import threading

import pytest

from integration.core import clock, health, retry_delays
from integration.core.consumer import Consumer
from integration.core.errors import StorageBusy
from integration.core.health import Health
from tests.support.harness import wait_for


@pytest.fixture
def time_moves(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    return now


def test_a_component_without_heartbeats_is_stalled_until_the_next_heartbeat(time_moves: list[float]) -> None:
    components = Health()
    components.watch("incremental sync", 60)
    assert components.report()["checks"]["incremental sync"]["state"] == "waiting"
    components.beat("incremental sync")
    time_moves[0] += 60
    assert components.report()["checks"]["incremental sync"]["state"] == "ok"
    time_moves[0] += 1
    assert components.report()["checks"]["incremental sync"]["state"] == "stalled"
    assert components.report()["status"] == "degraded"
    components.beat("incremental sync")
    assert components.report()["status"] == "ok"


def test_a_failure_is_reported_until_the_next_success_and_despite_heartbeats() -> None:
    components = Health()
    components.fail("platform", "no response")
    components.beat("platform")
    components.fail("platform", TimeoutError())
    check = components.report()["checks"]["platform"]
    assert (check["state"], check["error"], check["failures"]) == ("failing", "TimeoutError", 2)
    assert components.report()["status"] != "unready"
    components.ok("platform")
    check = components.report()["checks"]["platform"]
    assert (check["state"], check["error"], check["failures"]) == ("ok", None, 0)


def test_a_failing_essential_probe_makes_the_product_unready() -> None:
    components = Health()
    components.probe("inbox.db", lambda: None, essential=True)
    assert components.report()["status"] != "unready"
    components.probe("inbox.db", lambda: 1 / 0, essential=True)  # type: ignore[arg-type,return-value]
    report = components.report()
    assert report["status"] == "unready"
    assert report["checks"]["inbox.db"]["error"].startswith("ZeroDivisionError")


def test_a_stalled_component_is_logged_even_if_a_report_found_it_first(
    time_moves: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "TICK_SECONDS", 0.005)
    components = Health()
    components.watch("apply", 5)
    time_moves[0] += 6
    assert components.report()["checks"]["apply"]["state"] == "stalled"
    components.start()
    try:
        wait_for(lambda: "apply has stalled: no heartbeat for 6 s" in caplog.text, "the log")
    finally:
        components.stop()


def test_a_failed_run_of_a_consumer_is_retried_without_a_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_delays, "FIRST_OF_JOBS", 0.001)
    failures = iter([StorageBusy("busy"), KeyError("a mistake"), None])
    done = threading.Event()

    def work() -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        done.set()

    components = Health()
    running_consumer = Consumer("apply", work, components, check_every=3600)
    running_consumer.start()
    try:
        assert done.wait(30)
        wait_for(lambda: components.report()["status"] == "ok", "status ok")
    finally:
        running_consumer.stop()
