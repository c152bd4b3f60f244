"""Silence and failure of any part are seen, and only what is essential makes the product unready."""

from __future__ import annotations

import logging
import threading

import pytest

from integration.core import clock, consumer, health
from integration.core.consumer import Consumer
from integration.core.errors import StorageBusy
from integration.core.health import Health
from integration.web.metrics import Metrics
from tests.support.harness import wait_for


@pytest.fixture
def time_moves(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    return now


def test_a_part_that_falls_silent_is_stalled_and_recovers_with_its_next_beat(time_moves: list[float]) -> None:
    parts = Health()
    parts.watch("look-back", 60)
    assert parts.report()["checks"]["look-back"]["state"] == "waiting"
    parts.beat("look-back")
    time_moves[0] += 60
    assert parts.report()["checks"]["look-back"]["state"] == "ok"
    time_moves[0] += 1
    assert parts.report()["checks"]["look-back"]["state"] == "stalled"
    assert parts.report()["status"] == "degraded"
    parts.beat("look-back")
    assert parts.report()["status"] == "ok"


def test_a_part_that_never_came_alive_is_stalled_too(time_moves: list[float]) -> None:
    parts = Health()
    parts.watch("apply", 5, essential=True)
    time_moves[0] += 6
    assert parts.report()["status"] == "unready"


def test_a_failure_stays_until_it_goes_well_again_and_a_mere_beat_does_not_hide_it() -> None:
    parts = Health()
    parts.fail("platform", "no answer")
    parts.beat("platform")
    parts.fail("platform", TimeoutError())
    check = parts.report()["checks"]["platform"]
    assert (check["state"], check["error"], check["failures"]) == ("failing", "TimeoutError", 2)
    assert parts.is_ready
    parts.ok("platform")
    check = parts.report()["checks"]["platform"]
    assert (check["state"], check["error"], check["failures"]) == ("ok", None, 0)


def test_an_essential_probe_that_fails_makes_it_unready() -> None:
    parts = Health()
    parts.probe("inbox.db", lambda: None, essential=True)
    assert parts.is_ready
    parts.probe("inbox.db", lambda: 1 / 0, essential=True)  # type: ignore[arg-type,return-value]
    report = parts.report()
    assert report["status"] == "unready"
    assert report["checks"]["inbox.db"]["error"].startswith("ZeroDivisionError")


def test_the_watchdog_says_once_that_a_part_fell_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "TICK_SECONDS", 0.005)
    told = threading.Event()
    ticks: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ticks.append(record.getMessage())
            told.set()

    listener = Listener()
    logging.getLogger(health.__name__).addHandler(listener)
    parts = Health()
    parts.watch("clock", 0)
    parts.start()
    try:
        assert told.wait(30)
        told.clear()
        parts.watch("second", 0)
        assert told.wait(30)
    finally:
        parts.stop()
        logging.getLogger(health.__name__).removeHandler(listener)
    assert [line.split(" ")[0] for line in ticks] == ["clock", "second"]


def test_a_silence_that_a_report_met_first_is_logged_all_the_same(
    time_moves: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "TICK_SECONDS", 0.005)
    parts = Health()
    parts.watch("apply", 5)
    time_moves[0] += 6
    assert parts.report()["checks"]["apply"]["state"] == "stalled"
    parts.start()
    try:
        wait_for(lambda: "apply has stalled: no heartbeat for 6 s" in caplog.text, "the log")
    finally:
        parts.stop()


def test_a_round_that_fails_is_tried_again_soon_without_being_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "RETRY_SECONDS", 0.001)
    rounds = iter([StorageBusy("busy"), KeyError("a mistake"), None])
    done = threading.Event()

    def work() -> None:
        failure = next(rounds, None)
        if failure is not None:
            raise failure
        done.set()

    parts = Health()
    loop = Consumer("apply", work, parts, check_every=3600)
    loop.start()
    try:
        assert done.wait(30)
        wait_for(lambda: parts.report()["status"] == "ok", "a good report")
    finally:
        loop.stop()


def test_metrics_tell_what_the_report_tells() -> None:
    parts = Health()
    parts.watch("apply", essential=True)
    parts.fail("apply", "the disk is full")
    metrics = Metrics(parts)
    metrics.add_counter("webhooks", "Webhooks by answer.", "answer", lambda: {"stored": 3})
    metrics.add_gauge("streams", "Open streams.", lambda: 2)
    text = metrics.render().decode()
    for line in (
        "switchroom_ready 0.0",
        'switchroom_check_ok{check="apply"} 0.0',
        'switchroom_check_failures{check="apply"} 1.0',
        'switchroom_webhooks_total{answer="stored"} 3.0',
        "switchroom_streams 2.0",
        "process_open_fds",
    ):
        assert line in text
    Metrics(parts)
