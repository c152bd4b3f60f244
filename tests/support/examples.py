"""Number of random examples in property tests.

The suite runs few examples, `pytest -m exhaustive` many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T", bound=Callable[..., object])
EXHAUSTIVE = "exhaustive"
"""Name of the hypothesis profile of `pytest -m exhaustive`, which tests/conftest.py loads."""


def example_count(suite: int, exhaustive: int) -> Callable[[T], T]:
    """Set the number of examples of a property test.

    `suite` applies to the suite, `exhaustive` to `pytest -m exhaustive`.
    """

    def decorate(test: T) -> T:
        if settings.get_current_profile_name() != EXHAUSTIVE:
            return settings(max_examples=suite)(test)
        marked: T = pytest.mark.exhaustive(settings(max_examples=exhaustive)(test))
        return marked

    return decorate
