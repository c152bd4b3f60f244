from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core.errors import PlatformUnreachable
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget


def spend(budget: Budget, count: int) -> None:
    for _ in range(count):
        with budget.turn(BACKGROUND, 30):
            pass


def test_the_requests_of_a_minute_can_be_sent_at_once_and_are_then_spread(stopped_clock):
    budget = Budget(60, 4)
    spend(budget, 60)
    assert budget.delay() == pytest.approx(1, abs=0.01)
    stopped_clock.advance(1.01)
    assert budget.delay() == 0
    stopped_clock.advance(120)
    spend(budget, 60)
    assert budget.delay() > 0


def test_interactive_requests_do_not_wait_for_the_rate_limit(stopped_clock):
    budget = Budget(1, 4)
    spend(budget, 1)
    for _ in range(5):
        with budget.turn(INTERACTIVE, 0.1):
            pass
    assert budget.delay() > 60


def test_background_requests_leave_a_slot_for_interactive_requests():
    budget = Budget(600, 2)
    with budget.turn(BACKGROUND, 1):
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(spend, budget, 1)
            with budget.turn(INTERACTIVE, 0.1):
                assert not second.done()
            with pytest.raises(TimeoutError):
                second.result(0.1)
            budget.close()
            with pytest.raises(PlatformUnreachable, match="stopping"):
                second.result(30)


def test_failures_halve_the_rate_and_successes_restore_it(stopped_clock):
    budget = Budget(600, 4)
    budget.record_failure()
    budget.record_failure()
    assert budget.per_minute == 150
    for _ in range(20):
        budget.record_failure()
    assert budget.per_minute == pytest.approx(600 / 64)
    for _ in range(60):
        budget.record_success()
    assert budget.per_minute == 600


def test_background_requests_pause_for_retry_after(stopped_clock):
    budget = Budget(600, 4)
    budget.record_failure(retry_after=30)
    stopped_clock.advance(29)
    assert 0.9 < budget.delay() < 1.1
    with budget.turn(INTERACTIVE, 0.1):
        pass
    stopped_clock.advance(2)
    assert budget.delay() == 0
