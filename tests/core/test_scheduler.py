from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.core.scheduler import Every

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_the_next_time_is_one_interval_after_the_previous_time():
    assert Every(5).get_next_fire_time(NOW, NOW + timedelta(seconds=2)) == NOW + timedelta(seconds=5)


@pytest.mark.parametrize("late", [5, 5.001, 30 * 86400])
def test_missed_times_are_skipped(late):
    now = NOW + timedelta(seconds=late)
    next_time = Every(5).get_next_fire_time(NOW, now)
    assert timedelta(0) < next_time - now <= timedelta(seconds=5)
    # On the grid of the interval: a job that runs late does not run later and later.
    assert (next_time - NOW) % timedelta(seconds=5) == timedelta(0)


def test_the_first_time_is_one_interval_from_now():
    assert Every(0.5).get_next_fire_time(None, NOW) == NOW + timedelta(seconds=0.5)


@pytest.mark.parametrize("seconds", [0, -1])
def test_an_interval_must_be_above_0_seconds(seconds):
    with pytest.raises(ValueError, match="above 0 s"):
        Every(seconds)
