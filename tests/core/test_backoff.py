"""Pauses after failures: their lengths, and their end."""

from __future__ import annotations

import pytest

from integration.core import backoff, clock

GAPS = (1.0, 10.0, 60.0)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, in seconds."""
    seconds = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize(("attempt", "expected"), [(1, 1.0), (2, 10.0), (3, 60.0), (4, 60.0), (1000, 60.0)])
def test_the_last_gap_serves_all_later_attempts(attempt: int, expected: float) -> None:
    assert backoff.delay(attempt, GAPS) == expected


def test_jitter_is_the_range_of_a_factor() -> None:
    delays = [backoff.delay(2, GAPS, jitter=(0.5, 1.5)) for _ in range(200)]
    assert 5.0 <= min(delays) < 7.0
    assert 13.0 < max(delays) <= 15.0


def test_a_requested_delay_is_a_lower_limit() -> None:
    assert backoff.delay(1, GAPS, at_least=5.0) == 5.0
    assert backoff.delay(2, GAPS, at_least=5.0) == 10.0


def test_pauses_grow_until_a_success(now: list[float]) -> None:
    pauses = backoff.Backoff(GAPS)
    assert pauses.seconds_left == 0.0
    assert [pauses.failed() for _ in range(4)] == [1.0, 10.0, 60.0, 60.0]
    now[0] += 59
    assert pauses.seconds_left == 1.0
    now[0] += 2
    assert (pauses.seconds_left, pauses.failures) == (0.0, 4)
    pauses.succeeded()
    assert (pauses.failed(at_least=3.0), pauses.seconds_left) == (3.0, 3.0)


def test_an_ended_pause_does_not_restart_the_count(now: list[float]) -> None:
    pauses = backoff.Backoff(GAPS)
    pauses.failed()
    pauses.pause(0.0)
    assert pauses.seconds_left == 0.0
    assert pauses.failed() == 10.0


def test_gaps_double_up_to_the_longest() -> None:
    assert backoff.doubling(1, 5) == [1, 2, 4, 5]
    assert backoff.doubling(1, 0.5) == [0.5]
