from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget


@pytest.fixture
def at(monkeypatch):
    """Sets the monotonic clock."""
    begin = clock.monotonic()

    def at(seconds: float) -> None:
        monkeypatch.setattr("integration.core.clock.monotonic", lambda: begin + seconds)

    at(0)
    return at


def spend(budget: Budget, count: int) -> None:
    for _ in range(count):
        with budget.turn(BACKGROUND, 30):
            pass


def test_a_minutes_requests_may_be_spent_at_once_and_then_trickle(at):
    budget = Budget(60, 4)
    spend(budget, 60)
    assert budget.delay() == pytest.approx(1, abs=0.01)
    at(1.01)
    assert budget.delay() == 0
    at(120)
    spend(budget, 60)
    assert budget.delay() > 0


def test_people_do_not_wait_for_the_bucket(at):
    budget = Budget(1, 4)
    spend(budget, 1)
    for _ in range(5):
        with budget.turn(INTERACTIVE, 0.1):
            pass
    assert budget.delay() > 60


def test_the_scheduler_leaves_people_a_slot():
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


def test_a_person_is_told_when_every_slot_stays_taken():
    budget = Budget(600, 1)
    with budget.turn(INTERACTIVE, 1), pytest.raises(PlatformUnreachable, match="busy"):
        with budget.turn(INTERACTIVE, 0.05):
            pass


def test_trouble_halves_the_rate_and_good_answers_bring_it_back(at):
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


def test_the_scheduler_rests_as_long_as_it_was_asked_to(at):
    budget = Budget(600, 4)
    budget.record_failure(retry_after=30)
    at(29)
    assert 0.9 < budget.delay() < 1.1
    with budget.turn(INTERACTIVE, 0.1):
        pass
    at(31)
    assert budget.delay() == 0


def test_closing_wakes_everybody_who_waits():
    budget = Budget(1, 1)
    spend(budget, 1)
    threading.Timer(0.05, budget.close).start()
    with pytest.raises(PlatformUnreachable, match="stopping"):
        spend(budget, 1)
