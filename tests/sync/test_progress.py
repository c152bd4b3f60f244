from __future__ import annotations

import pytest

from integration.core.health import Health
from integration.sync import progress


@pytest.fixture
def advance(stopped_clock):
    return stopped_clock.advance


def list_active(health):
    return progress.list_active_reads(health.report()["facts"])


def test_a_long_read_is_reported_with_its_rate_and_remaining_time(advance):
    health, reports = Health(), []
    with progress.track_progress(health, "reading cdrs", lambda *facts: reports.append(facts)) as show:
        show(5_000, 1_000_000)
        assert list_active(health) == {}
        for number in range(2, 12):
            advance(0.5)
            show(number * 5_000, 1_000_000)
        assert list_active(health) == {
            "cdrs": {"done": 55_000, "total": 1_000_000, "per_second": 10_000.0, "seconds_left": 94.5}
        }
    assert list_active(health) == {}
    assert len(reports) == 11
