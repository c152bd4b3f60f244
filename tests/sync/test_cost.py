"""The table of docs/sync.md and the request budget of the plan."""

from __future__ import annotations

from pathlib import Path

from integration.sync.plan import PLAN
from tests.sync.plan_cost import DEFAULT_SETTINGS as SETTINGS
from tests.sync.plan_cost import estimate_requests_per_day, render_table

PAGE = Path(__file__).parents[2] / "docs" / "sync.md"


def test_the_page_has_the_table_of_the_plan():
    """After a change of the plan, paste the output of `python -m tests.sync.plan_cost`."""
    assert render_table(SETTINGS) in PAGE.read_text(encoding="utf-8")


def test_a_typical_office_uses_less_than_a_tenth_of_the_budget():
    budget = SETTINGS.sync.max_requests_per_minute * 1440
    cost = sum(estimate_requests_per_day(policy, SETTINGS) for policy in PLAN.values())
    assert 0 < cost < budget / 10
