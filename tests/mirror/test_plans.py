"""Queries that run for each of many calls find their rows by an index, even without statistics."""

from __future__ import annotations

import pytest

from integration.mirror import search
from integration.mirror.schema import open_mirror


@pytest.fixture
def plan(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")

    def explain(sql: str) -> list[str]:
        with mirror.read() as connection:
            return [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]

    yield explain
    mirror.close()


def test_what_was_said_in_a_call_is_found_by_its_legs(plan):
    steps = plan(f"SELECT {search._SAID} FROM _calls AS c")
    assert [step for step in steps if step in ("SCAN m", "SCAN v", "SCAN l")] == []
    assert any("monitors_live_id" in step for step in steps)
