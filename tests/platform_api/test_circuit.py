from __future__ import annotations

import pytest

from integration.core import clock
from integration.platform_api import circuit
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget
from integration.platform_api.circuit import MIN_FAILING_SECONDS, MIN_FAILURES, Circuit, CircuitOpen


@pytest.fixture
def at(monkeypatch):
    begin = clock.monotonic()

    def at(seconds):
        monkeypatch.setattr("integration.core.clock.monotonic", lambda: begin + seconds)

    monkeypatch.setattr("integration.core.backoff.random.uniform", lambda _low, high: high)
    at(0)
    return at


def fail(broken, times=MIN_FAILURES):
    for _ in range(times):
        broken.record_failure()


def test_a_short_disturbance_opens_nothing_however_many_fail(at):
    one = Circuit()
    fail(one, 100)
    at(MIN_FAILING_SECONDS - 1)
    fail(one, 100)
    one.admit()
    assert one.open_since is None


def test_a_long_quiet_before_the_first_failure_does_not_count(at):
    one = Circuit()
    at(3600)
    fail(one, 100)
    assert one.open_since is None


def test_one_that_works_among_those_that_fail_keeps_it_closed(at):
    one = Circuit()
    for second in range(300):
        at(second)
        one.record_failure()
        if second % 10 == 0:
            one.record_success()
    assert one.open_since is None


def test_while_it_is_open_one_request_finds_out_and_the_gaps_grow(at):
    one = Circuit()
    one.record_failure()
    at(MIN_FAILING_SECONDS)
    fail(one)
    assert one.open_since is not None
    now, gaps = MIN_FAILING_SECONDS, []
    for _ in range(6):
        with pytest.raises(CircuitOpen):
            one.admit()
        left = one.seconds_until_probe
        now += left + 0.001
        at(now)
        one.admit()
        with pytest.raises(CircuitOpen):
            one.admit()
        one.record_failure()
        gaps.append(round(left))
    assert gaps[0] == circuit.PROBE_GAPS[0]
    assert gaps == sorted(gaps)
    assert gaps[-1] == circuit.PROBE_GAPS[-1]
    one.record_success()
    one.admit()
    assert one.seconds_until_probe == 0


def test_a_request_that_never_came_back_is_not_waited_for(at):
    one = Circuit()
    one.record_failure()
    at(MIN_FAILING_SECONDS)
    fail(one)
    at(200)
    one.admit()
    at(200 + circuit.PROBE_TIMEOUT_SECONDS)
    one.admit()


def test_people_may_always_ask_and_what_works_for_them_opens_it_for_all(at):
    budget = Budget(600, 4)
    budget.record_failure()
    at(MIN_FAILING_SECONDS)
    for _ in range(MIN_FAILURES):
        budget.record_failure()
    with pytest.raises(CircuitOpen), budget.turn(BACKGROUND, 1):
        pass
    standing = budget.state()
    assert standing.open_since is not None
    assert 0 < standing.again <= circuit.PROBE_GAPS[-1]
    assert standing.per_minute < standing.full == 600
    with budget.turn(INTERACTIVE, 1):
        budget.record_success()
    assert budget.state().open_since is None
    at(MIN_FAILING_SECONDS + 10)
    with budget.turn(BACKGROUND, 1):
        pass
