"""The list of known differences names existing tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparison.known_differences import KNOWN_DIFFERENCES


def test_every_known_difference_names_a_collected_test(request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parent
    items = [item for item in request.session.items if item.path.parent == folder]
    names = {f"{item.path.name}::{item.name}" for item in items}
    functions = {name.partition("[")[0] for name in names}
    # A run of some tests collects no others, so entries of other functions are not checked.
    checked = {name for name in KNOWN_DIFFERENCES if name.partition("[")[0] in functions}
    assert checked <= names
