"""Marks of the comparisons that fail today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparison.known_differences import KNOWN_DIFFERENCES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        reason = KNOWN_DIFFERENCES.get(f"{item.path.name}::{item.name}")
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
