from __future__ import annotations

import pytest

from integration.core.health import Health
from integration.sync import progress


@pytest.fixture
def passes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("integration.core.clock.monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def under_way(health):
    return progress.list_active_reads(health.report()["facts"])


def test_a_reading_that_lasts_is_told_with_its_rate_and_what_is_left(passes):
    health, told = Health(), []
    with progress.track_progress(health, "reading cdrs", lambda *facts: told.append(facts)) as show:
        show(5_000, 1_000_000)
        assert under_way(health) == {}
        for number in range(2, 12):
            passes(0.5)
            show(number * 5_000, 1_000_000)
        assert under_way(health) == {
            "cdrs": {"done": 55_000, "total": 1_000_000, "per_second": 10_000.0, "seconds_left": 94.5}
        }
    assert under_way(health) == {}
    assert len(told) == 11


def test_a_walk_that_goes_on_counts_only_what_it_read_itself(passes):
    health = Health()
    with progress.track_progress(health, "reading cdrs") as show:
        show(900_000, 1_000_000)
        passes(10)
        show(910_000, 1_000_000)
        assert under_way(health)["cdrs"]["per_second"] == 1_000


def test_the_rate_is_the_present_one(passes):
    health = Health()
    with progress.track_progress(health, "reading cdrs") as show:
        for number in range(100):
            passes(1 if number < 50 else 10)
            show(number * 100, None)
        found = under_way(health)["cdrs"]
    assert found["per_second"] == 10
    assert found["seconds_left"] is None


def test_what_fails_is_no_longer_under_way(passes):
    health = Health()

    def fail():
        with progress.track_progress(health, "reading cdrs") as show:
            passes(5)
            show(1, 2)
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert under_way(health) == {}
