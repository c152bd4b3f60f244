from __future__ import annotations

import pytest

from tests.support.clock import Clock
from tests.support.simulated_app import START, make_simulated, simulated  # noqa: F401


@pytest.fixture(autouse=True)
def start(movable_clock: Clock) -> None:
    movable_clock.set(START)
