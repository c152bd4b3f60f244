"""The number of random examples of a property: few in the suite, many in the exhaustive run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T", bound=Callable[..., object])
EXHAUSTIVE = "exhaustive"
"""Name of the hypothesis profile of `pytest -m exhaustive`, which tests/conftest.py loads."""


def example_count(suite: int, exhaustive: int) -> Callable[[T], T]:
    """Test a property with `suite` examples, and with `exhaustive` examples in `pytest -m exhaustive`."""

    def decorate(test: T) -> T:
        if settings.get_current_profile_name() != EXHAUSTIVE:
            return settings(max_examples=suite)(test)
        marked: T = pytest.mark.exhaustive(settings(max_examples=exhaustive)(test))
        return marked

    return decorate
