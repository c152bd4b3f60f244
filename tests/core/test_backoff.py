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


def test_jitter_is_the_range_of_a_factor() -> None:
    delays = [backoff.delay(2, GAPS, jitter=(0.5, 1.5)) for _ in range(200)]
    assert 5.0 <= min(delays) < 7.0
    assert 13.0 < max(delays) <= 15.0


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
