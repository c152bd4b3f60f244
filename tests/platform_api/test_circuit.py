from __future__ import annotations

import pytest

from integration.core import clock, retry_delays
from integration.platform_api import circuit
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget
from integration.platform_api.circuit import MIN_FAILING_SECONDS, MIN_FAILURES, Circuit, CircuitOpen


@pytest.fixture
def at(stopped_clock, monkeypatch):
    """Move the clock to `seconds` after the start of the test."""
    begin = clock.monotonic()

    def at(seconds):
        stopped_clock.advance(begin + seconds - clock.monotonic())

    monkeypatch.setattr("integration.core.backoff.random.uniform", lambda _low, high: high)
    return at


def fail(breaker, times=MIN_FAILURES):
    for _ in range(times):
        breaker.record_failure()


def test_many_failures_within_a_short_time_do_not_open_the_circuit(at):
    breaker = Circuit()
    fail(breaker, 100)
    at(MIN_FAILING_SECONDS - 1)
    fail(breaker, 100)
    breaker.admit()
    assert breaker.open_since is None


def test_an_open_circuit_admits_single_probes_after_growing_gaps(at):
    breaker = Circuit()
    breaker.record_failure()
    at(MIN_FAILING_SECONDS)
    fail(breaker)
    assert breaker.open_since is not None
    now, gaps = MIN_FAILING_SECONDS, []
    for _ in range(6):
        with pytest.raises(CircuitOpen):
            breaker.admit()
        left = breaker.seconds_until_probe
        now += left + 0.001
        at(now)
        breaker.admit()
        with pytest.raises(CircuitOpen):
            breaker.admit()
        breaker.record_failure()
        gaps.append(round(left))
    assert gaps[0] == retry_delays.PROBES[0]
    assert gaps == sorted(gaps)
    assert gaps[-1] == retry_delays.PROBES[-1]
    breaker.record_success()
    breaker.admit()
    assert breaker.seconds_until_probe == 0


def test_a_probe_without_a_result_is_replaced_after_its_timeout(at):
    breaker = Circuit()
    breaker.record_failure()
    at(MIN_FAILING_SECONDS)
    fail(breaker)
    at(200)
    breaker.admit()
    at(200 + circuit.PROBE_TIMEOUT_SECONDS)
    breaker.admit()


def test_an_interactive_success_closes_the_circuit_for_background_requests(at):
    budget = Budget(600, 4)
    budget.record_failure()
    at(MIN_FAILING_SECONDS)
    for _ in range(MIN_FAILURES):
        budget.record_failure()
    with pytest.raises(CircuitOpen), budget.turn(BACKGROUND, 1):
        pass
    state = budget.state()
    assert state.open_since is not None
    assert 0 < state.again <= retry_delays.PROBES[-1]
    assert state.per_minute < state.full == 600
    with budget.turn(INTERACTIVE, 1):
        budget.record_success()
    assert budget.state().open_since is None
    at(MIN_FAILING_SECONDS + 10)
    with budget.turn(BACKGROUND, 1):
        pass
